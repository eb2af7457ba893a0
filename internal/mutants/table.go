package mutants

// Where the rules stand and their tests run.
const (
	vocabulary  = "pkg/messages"
	machine     = "internal/dispatch"
	coordinator = "internal/coordination"
	worker      = "pkg/worker"
	adapter     = "jetstream"
	ports       = "internal/porttest"
)

// Table holds every row of protocol section 7, most of them in more than one
// place.
func Table() []Mutant {
	return []Mutant{
		// 1: the record names the trigger that it applied.
		{1, machine, machine + "/step.go", "a trigger that comes again is not recognised",
			`if r != nil && r.Trigger == e.Trigger && (r.State`,
			`if false && (r.State`},
		{1, coordinator, machine + "/step.go", "the record does not name its trigger",
			`next.Trigger, next.Updated = e.Trigger, now`,
			`next.Updated = now`},
		{1, coordinator, coordinator + "/handling.go", "a trigger that comes again is acked without its effects",
			`return h.perform(ctx, v.Record, dispatch.Effects(v.Record))`,
			`return nil`},

		// 2: who loses a compare-and-set starts again.
		{2, coordinator, coordinator + "/handling.go", "the loser acks",
			`if errors.Is(err, messages.ErrConflict) {
		return errAgain`,
			`if errors.Is(err, messages.ErrConflict) {
		return errDone`},
		{2, coordinator, coordinator + "/handling.go", "the loser goes on with effects of its own",
			`if errors.Is(err, messages.ErrConflict) {
		return errAgain`,
			`if errors.Is(err, messages.ErrConflict) {
		return nil`},

		// 3: schedules carry n and w in their subject.
		{3, ports, vocabulary + "/subjects.go", "the subject of a schedule has no n",
			`string(d.Run), call, strconv.Itoa(d.N), strconv.Itoa(d.W))`,
			`string(d.Run), call, "0", strconv.Itoa(d.W))`},
		{3, ports, vocabulary + "/subjects.go", "the subject of a schedule has no w",
			`string(d.Run), call, strconv.Itoa(d.N), strconv.Itoa(d.W))`,
			`string(d.Run), call, strconv.Itoa(d.N), "0")`},
		{3, machine, machine + "/effects.go", "the schedule of a wait is not told n and w",
			`Due: dueOf(r, messages.DueRetry, r.N, r.W, r.DueAt)})`,
			`Due: dueOf(r, messages.DueRetry, 0, 0, r.DueAt)})`},

		// 4: a refusal is read back.
		{4, ports, adapter + "/publish.go", "a refusal by a full stream passes for one by a winner",
			`	case errors.Is(err, messages.ErrFull):
		return nil, err
	}`,
			`	case errors.Is(err, messages.ErrFull):
		return &messages.Stored{Message: m}, nil
	}`},
		{4, ports, adapter + "/errors.go", "the code alone says what was refused",
			`if strings.Contains(e.Description, textPerSubject) {`,
			`if true || strings.Contains(e.Description, textPerSubject) {`},
		{4, coordinator, coordinator + "/effects.go", "a result that a full stream refused counts as stored",
			`return fmt.Errorf("put the result: %w", err)`,
			`return nil`},

		// 5: leader reads, and ranks.
		{5, machine, machine + "/step.go", "a record below the trigger's rank means that nothing is wanted",
			`return readAgain(fmt.Sprintf("the record stands at %s, before`,
			`return ack(fmt.Sprintf("the record stands at %s, before`},
		{5, machine, machine + "/rank.go", "a decision fits a record that still waits",
			`case r.N < n || r.State == messages.Waiting:`,
			`case r.N < n:`},
		{5, coordinator, coordinator + "/handling.go", "a stale read is acked",
			`return fmt.Errorf("read again: %s", v.Why)`,
			`return nil`},
		{5, adapter, adapter + "/getanswer.go", "any replica may answer a read",
			`	m, err := p.ask(ctx, apiPrefix+"STREAM.MSG.GET."+stream, nil, body)`,
			`	direct, err := p.ask(ctx, apiPrefix+"DIRECT.GET."+stream, nil, body)
	if err != nil || direct.Header.Get("Status") != "" {
		return messages.Stored{}, fmt.Errorf("get %s: %w", clip(subject), messages.ErrNotFound)
	}
	return messages.Stored{Message: messages.Message{Subject: subject, Header: messages.Header(direct.Header), Body: direct.Data}, Sequence: 1}, nil
	m, err := p.ask(ctx, apiPrefix+"STREAM.MSG.GET."+stream, nil, body)`},

		{5, adapter, adapter + "/fetch.go", "a message of another consumer is believed",
			`if a.streamName != f.stream || a.consumerName != f.consumer {`,
			`if false {`},

		{5, coordinator, coordinator + "/sight.go", "what was not read counts as absent",
			`	h.met = true
	return true`,
			`	return false`},

		// 6: a full lane makes the dispatch wait.
		{6, machine, machine + "/due.go", "a dispatch that is put off counts as dispatched",
			`r.State, r.W = messages.Waiting, r.W+1`,
			`r.W = r.W + 1`},
		{6, coordinator, coordinator + "/effects.go", "a refused publish is acked away",
			`return h.putOff(ctx, r)`,
			`return nil`},
		{6, ports, adapter + "/publish.go", "a dispatch that a full lane refused counts as there",
			`	case full:
		return err
`,
			`	case full:
		return fmt.Errorf("publish %s: %w", clip(subject), messages.ErrExists)
`},

		// 7: write the result, then drop the call.
		{7, machine, machine + "/effects.go", "a cancelled call leaves its queue before its result is there",
			`return []Effect{{Kind: PutResult}}`,
			`return []Effect{{Kind: PurgeQueued, Call: dispatchOf(r)}, {Kind: PutResult}}`},
		{7, coordinator, machine + "/effects.go", "a cancelled call leaves its queue before its result is there",
			`return []Effect{{Kind: PutResult}}`,
			`return []Effect{{Kind: PurgeQueued, Call: dispatchOf(r)}, {Kind: PutResult}}`},
		{7, worker, worker + "/handling.go", "a worker drops a cancelled call and writes nothing",
			`	if stop != nil {
		return h.end(*stop)
	}`,
			`	if stop != nil {
		return nil
	}`},
		{7, worker, worker + "/starting.go", "a worker drops a cancelled call of an unsafe tool and writes nothing",
			`	case first.Token == mine.Token && stop != nil:
		return h.end(*stop)`,
			`	case first.Token == mine.Token && stop != nil:
		return nil`},
		{7, worker, worker + "/outcome.go", "a worker acks when the result was not taken",
			`	if _, err := h.w.put(h.w.flushing, h.w.names.EncodeResult(r)); err != nil {`,
			`	if _, err := h.w.broker.PutOnce(h.w.flushing, h.w.names.EncodeResult(r)); err != nil && false {`},

		{7, adapter, adapter + "/read.go", "a call in hand is purged by its subject",
			`if stream == messages.StreamCalls {`,
			`if false {`},

		// 8: each dispatch has a new n.
		{8, machine, machine + "/retry.go", "dispatches are numbered by the attempts that were spent",
			`next.N, next.W, next.State = next.N+1, 0, messages.Dispatched`,
			`next.N, next.W, next.State = next.Spent, 0, messages.Dispatched`},
		{8, coordinator, machine + "/retry.go", "dispatches are numbered by the attempts that were spent",
			`next.N, next.W, next.State = next.N+1, 0, messages.Dispatched`,
			`next.N, next.W, next.State = next.Spent, 0, messages.Dispatched`},

		// 9: a redelivery looks for the outcome first.
		{9, worker, worker + "/handling.go", "a possible repetition runs without a look",
			`if h.maybe { // step 1`,
			`if false { // step 1`},
		{9, worker, worker + "/handling.go", "a second delivery is no possible repetition",
			`call.Dispatch >= 1 || d.Delivery > 1 || call.Repeat`,
			`call.Dispatch >= 1 || call.Repeat`},
		{9, worker, worker + "/handling.go", "only a result is looked for, not a failure of the dispatch",
			`	_, found, err := h.look(h.w.names.FailureSubject(h.call.Run, h.call.ID, h.call.Dispatch))
	return found, err`,
			`	return false, nil`},
		{9, worker, worker + "/starting.go", "a mark of another says nothing of a failure",
			`if last = first; k == 1 {`,
			`if last = first; false {`},
		{9, worker, worker + "/handling.go", "an outcome that cannot be looked for counts as absent",
			`		h.log.Warn("an outcome could not be looked for", "subject", subject, "error", err)`,
			`		return messages.Stored{}, false, nil`},
		{9, coordinator, coordinator + "/drain.go", "a queue of nobody is drained without a look",
			`	if repeated {
		settled, err := c.settled(ctx, call)`,
			`	if false {
		settled, err := c.settled(ctx, call)`},

		// 10: coordinators read RESULTS.
		{10, machine, machine + "/step.go", "the record outranks the result",
			`	if f.Result != nil {
		return closeWith`,
			`	if f.Result != nil && r == nil {
		return closeWith`},
		{10, coordinator, coordinator + "/handling.go", "RESULTS is not read",
			`h.result = &res`,
			`_ = res`},

		// 11: possible repetitions are marked.
		{11, worker, worker + "/handling.go", "a worker does not heed the mark",
			`call.Dispatch >= 1 || d.Delivery > 1 || call.Repeat`,
			`call.Dispatch >= 1 || d.Delivery > 1`},
		{11, coordinator, coordinator + "/admit.go", "a repeated chunk is not marked",
			`Repeat: s.chunk.MayRepeat(s.now) || age > messages.RepeatAfter,`,
			`Repeat: age > messages.RepeatAfter,`},
		{11, coordinator, coordinator + "/admit.go", "an old id is not marked",
			`Repeat: s.chunk.MayRepeat(s.now) || age > messages.RepeatAfter,`,
			`Repeat: s.chunk.MayRepeat(s.now) || age < 0,`},
		{11, coordinator, coordinator + "/submit.go", "a call is not marked when the answer to its publish was lost",
			`in.call.Repeat = true // it may be there`,
			`// it may be there`},
		{11, coordinator, coordinator + "/first.go", "a repetition is turned away while its first copy runs",
			`if in.call.Repeat {`,
			`if false {`},
		{11, coordinator, coordinator + "/first.go", "a call that was put off without a schedule waits for ever",
			`return true, c.putOffAgain(ctx, call)`,
			`return true, nil`},
		{11, coordinator, machine + "/gate.go", "a call that was put off goes out without the mark",
			`r.Call.Input, r.Call.Repeat = messages.Body{}, true`,
			`r.Call.Input = messages.Body{}`},

		// 12: due writes the record, then publishes.
		{12, machine, machine + "/due.go", "a due dispatch goes out and the record stays as it is",
			`	return v
}

// PutOff`,
			`	v.Do = Repeat
	return v
}

// PutOff`},
		{12, coordinator, coordinator + "/handling.go", "effects come before the record",
			`	r := v.Record
	if err := h.save(ctx, &r); err != nil {`,
			`	r := v.Record
	if h.t.id.Kind == messages.TriggerDue {
		if err := h.perform(ctx, r, dispatch.Effects(r)); err != nil {
			return err
		}
	}
	if err := h.save(ctx, &r); err != nil {`},

		// 13: wait first, read then.
		{13, machine, machine + "/retry.go", "a short wait is left out of the machine",
			`!j.f.Waited && !j.f.NoRoom {`,
			`false {`},
		{13, coordinator, coordinator + "/handling.go", "a coordinator writes first, and waits then",
			`return h.wait(v.Delay)`,
			`facts.Waited = true
		early := dispatch.Step(h.record, h.t.event, facts, time.Now().UTC()).Record
		if err := h.save(ctx, &early); err != nil {
			return err
		}
		<-time.After(v.Delay)
		return h.perform(ctx, early, dispatch.Effects(early))`},
		{13, coordinator, coordinator + "/handling.go", "a coordinator acts after the wait on what it read before",
			`return h.wait(v.Delay)`,
			`facts.Waited = true
		<-time.After(v.Delay)
		return h.write(ctx, dispatch.Step(h.record, h.t.event, facts, time.Now().UTC()))`},

		// 14: put-once sends no message id.
		{14, ports, adapter + "/publish.go", "a message id is let through",
			`if _, ok := m.Header[headerMsgID]; ok {`,
			`if _, ok := m.Header[headerMsgID]; ok && false {`},
		{14, ports, adapter + "/publish.go", "the adapter gives each message its subject as id",
			`_, err = p.store(ctx, m.Subject, h, m.Body)`,
			`h = maps.Clone(h)
	if h == nil {
		h = make(nats.Header, 1)
	}
	h[headerMsgID] = []string{m.Subject}
	_, err = p.store(ctx, m.Subject, h, m.Body)`},
		{14, worker, worker + "/starting.go", "a worker's start has a message id",
			`	winner, err := h.w.put(h.w.flushing, m)
	if err != nil || winner == nil {`,
			`	if m.Header == nil {
		m.Header = messages.Header{}
	}
	m.Header["Nats-Msg-Id"] = []string{subject}
	winner, err := h.w.put(h.w.flushing, m)
	if err != nil || winner == nil {`},
		{14, worker, worker + "/starting.go", "a refused start counts as written",
			`if err != nil || winner == nil {`,
			`if true {`},

		// 15: each handling has a random token.
		{15, worker, worker + "/starting.go", "the token is the worker's name",
			`_, _ = rand.Read(b[:])`,
			`_, _ = rand.Read(b[:0])
		copy(b[:], h.w.cfg.Name)`},
		{15, worker, worker + "/starting.go", "a refused start is always somebody else's",
			`	winner, err := h.w.put(h.w.flushing, m)
	if err != nil || winner == nil {
		return s, err
	}
	first,`,
			`	winner, err := h.w.broker.PutOnce(h.w.flushing, m)
	for p := pauses(); err != nil && p.Wait(h.w.flushing); {
		winner, err = h.w.broker.PutOnce(h.w.flushing, m)
	}
	if err != nil || winner == nil {
		return s, err
	}
	return messages.Start{Token: "somebody else's", Sequence: s.Sequence}, nil
	first,`},

		// 16: a start names its message in CALLS.
		{16, worker, worker + "/starting.go", "every start of another is of a lost worker",
			`case first.Sequence != mine.Sequence:`,
			`case false:`},
		{16, coordinator, coordinator + "/drain.go", "every start in a queue of nobody is of a lost worker",
			`case first.Tombstone != "" || first.Sequence != d.Sequence:`,
			`case first.Tombstone != "":`},

		// 17: tombstones.
		{17, machine, machine + "/cancel.go", "a cancel ends a dispatched call of an unsafe tool at once",
			`if next.State != messages.Dispatched || next.Call.Effect != messages.Unsafe {`,
			`if true {`},
		{17, machine, machine + "/cancel.go", "a cancel ends the call although the tool was started",
			`return ack("the tool was started: its outcome ends the call")`,
			`return end(known(next, f), stopped(next, *next.Cancelling))`},
		{17, machine, machine + "/cancel.go", "the end of an unsafe call that has failed waits for a decision",
			`if f.Failure != nil { // what ran`,
			`if false { // what ran`},
		{17, coordinator, coordinator + "/claims.go", "a start that stands there counts as a tombstone",
			`return first.Tombstone != "", nil`,
			`return first.Token != "", nil`},
		{17, coordinator, coordinator + "/claims.go", "no tombstone is put",
			`won, err := h.c.bury(ctx, subject, h.epitaph())`,
			`_ = subject
	won, err := true, error(nil)`},
		{17, worker, worker + "/handling.go", "a worker ends a call of an unsafe tool without a tombstone",
			`	if h.call.Effect == messages.Unsafe {
		return h.claim(stop)`,
			`	if h.call.Effect == messages.Unsafe && stop == nil {
		return h.claim(stop)`},
		{17, worker, worker + "/starting.go", "an unsafe tool runs in spite of a tombstone",
			`	case first.Tombstone != "":
		return h.foundBuried(first.Tombstone)
	case`,
			`	case first.Tombstone != "":
		return h.proceed()
	case`},
		{17, worker, worker + "/starting.go", "a tombstone among the marks counts as a mark",
			`		case first.Tombstone != "":
			h.mark = k`,
			`		case false:
			h.mark = k`},
		{17, worker, worker + "/starting.go", "a tombstone without an outcome gets none",
			`return h.buried(why, h.stop())`,
			`return nil`},

		// 18: ambiguity stays.
		{18, machine, machine + "/outcome.go", "an end says nothing of an ambiguous attempt",
			`	if len(next.Ambiguous) > 0 {
		o.Reason = ambiguity(next)`,
			`	if false {
		o.Reason = ambiguity(next)`},
		{18, machine, machine + "/outcome.go", "an ambiguous attempt is not kept",
			`if fl.Ambiguous && next.Call.Effect == messages.Unsafe && !slices`,
			`if false && !slices`},
		{18, worker, worker + "/outcome.go", "a worker's end says nothing of an earlier ambiguous attempt",
			`if c.Effect == messages.Unsafe && len(c.Ambiguous) > 0 { // S7.7`,
			`if false { // S7.7`},

		// 19: only a definite failure of an execution that was alone is corrected.
		{19, machine, machine + "/retry.go", "a correction follows whatever failure",
			`if why := j.notAlone(); why != "" {`,
			`if why := j.notAlone(); false {`},
		{19, machine, machine + "/retry.go", "an ambiguous failure is corrected",
			`	case j.fl.Ambiguous:
		return "an effect`,
			`	case false:
		return "an effect`},
		{19, machine, machine + "/retry.go", "an earlier ambiguous attempt is forgotten",
			`case len(j.next.Ambiguous) > 0:`,
			`case false:`},
		{19, machine, machine + "/retry.go", "a failure of a second execution is corrected",
			`case j.fl.Executed && j.fl.Mark != firstMark(j.next), j.fl.Mark > firstMark(j.next):`,
			`case false:`},
		{19, machine, machine + "/retry.go", "the next start mark is not claimed",
			`if claims && j.mustClaim() {`,
			`if false {`},
		{19, machine, machine + "/retry.go", "a refused claim is not heeded",
			`		case ClaimLost:
			return j.askToCorrect`,
			`		case 99:
			return j.askToCorrect`},

		// 20: the coordinator overrules the strategy.
		{20, machine, machine + "/decision.go", "the strategy's retry of an ambiguous call goes out",
			`case fl.Ambiguous && next.Call.Effect == messages.Unsafe:`,
			`case false:`},

		// 21: the answer-by is an answer.
		{21, machine, machine + "/step.go", "the clock ends the call by itself",
			`return onAnswerBy(now)`,
			`return end(next, messages.Outcome{Status: messages.Failed, Code: messages.CodeAnswerBy, Reason: "no human answered in time"})`},
		{21, coordinator, machine + "/step.go", "the clock ends the call by itself",
			`return onAnswerBy(now)`,
			`return end(next, messages.Outcome{Status: messages.Failed, Code: messages.CodeAnswerBy, Reason: "no human answered in time"})`},

		// 22: answers are held to the ceiling.
		{22, machine, machine + "/answer.go", "a human grants a seventh attempt",
			`case next.Spent >= messages.MaxAttempts || next.N >= messages.MaxDispatches:`,
			`case false:`},

		// 23: the result that won decides about the run.
		{23, machine, machine + "/effects.go", "the record decides about the run",
			`return []Effect{{Kind: PutResult}}`,
			`if r.Outcome != nil && r.Outcome.EndsRun {
			return []Effect{{Kind: EndRun}, {Kind: PutResult}}
		}
		return []Effect{{Kind: PutResult}}`},
		{23, coordinator, coordinator + "/effects.go", "the loser follows its own result",
			`	if there.Status != res.Status {
		return errAgain
	}
	return h.afterEnd(ctx, &r, there)`,
			`	_ = there
	return h.afterEnd(ctx, &r, res)`},

		// 24: settled, and times to live.
		{24, machine, machine + "/step.go", "settled closes nothing",
			`	if f.Result != nil {
		return closeWith`,
			`	if f.Result != nil && e.Kind != messages.TriggerSettled {
		return closeWith`},
		{24, coordinator, coordinator + "/loop.go", "nobody hears of settled",
			`		of(messages.StreamRecovery, messages.ConsumerSettled, c.readSettled),`,
			``},
		{24, coordinator, coordinator + "/handling.go", "records have no time to live",
			`b, h.revision, h.c.cfg.RecordTTL)`,
			`b, h.revision, 0)`},
		{24, worker, worker + "/outcome.go", "the success of a possible repetition is not settled",
			`if h.maybe || !h.lease.held() || h.owesBreaker`,
			`if !h.lease.held() || h.owesBreaker`},
		{24, worker, worker + "/outcome.go", "a success after the end of its lease is not settled",
			`if h.maybe || !h.lease.held() || h.owesBreaker`,
			`if h.maybe || h.owesBreaker`},
		{24, ports, adapter + "/bucket.go", "a value has no time to live",
			`	if ttl != 0 {
		h[headerTTL] = []string{formatTTL(ttl)}
	}`,
			``},

		// 25: start marks are counted, not deliveries.
		{25, worker, worker + "/starting.go", "deliveries count as starts",
			`	var last messages.Start
	for k := 1`,
			`	var last messages.Start
	if h.lease.current().Delivery > messages.MaxMarks {
		return false, h.lost(last)
	}
	for k := 1`},
		{25, worker, worker + "/starting.go", "starts without an outcome are not counted",
			`return false, h.lost(last)`,
			`_ = last
	return true, nil`},

		// 26: RUNS is read again after the write.
		{26, machine, machine + "/effects.go", "a call that is parked does not read RUNS again",
			`return []Effect{{Kind: CheckRun}, {Kind: Schedule, Due: dueOf(r, messages.DueAnswerBy,`,
			`return []Effect{{Kind: Schedule, Due: dueOf(r, messages.DueAnswerBy,`},
		{26, coordinator, machine + "/effects.go", "a call that waits does not read RUNS again",
			`return append(question(r), Effect{Kind: CheckRun}, Effect{Kind: Schedule, Due: dueOf(r, messages.DueRetry,`,
			`return append(question(r), Effect{Kind: Schedule, Due: dueOf(r, messages.DueRetry,`},
		{26, coordinator, machine + "/effects.go", "a dispatch does not read RUNS again",
			`return append(question(r), Effect{Kind: CheckRun}, Effect{Kind: Publish,`,
			`return append(question(r), Effect{Kind: Publish,`},
		{26, coordinator, coordinator + "/effects.go", "an end of the run is not heeded",
			`if err != nil || wish == nil {`,
			`if true {`},

		// 27: retentions are ordered.
		{27, machine, machine + "/step.go", "a replay from before the retention of RESULTS is applied",
			`if r == nil && replayed(f, now) {`,
			`if false {`},
		{27, coordinator, machine + "/step.go", "a replay from before the retention of RESULTS is applied",
			`if r == nil && replayed(f, now) {`,
			`if false {`},
		{27, adapter, adapter + "/topology.go", "a deadline may outlive the results",
			`check(c.DeadlineLimit > 0 && c.DeadlineLimit < c.ResultsAge,`,
			`check(c.DeadlineLimit > 0,`},
		{27, adapter, adapter + "/topology.go", "records may be gone before the stories",
			`check(c.RecordTTL >= c.RecoveryAge,`,
			`check(c.RecordTTL > 0,`},
		{27, coordinator, coordinator + "/config.go", "a coordinator takes deadlines that outlive the results",
			`check(c.DeadlineLimit > 0 && c.DeadlineLimit < c.ResultsRetention,`,
			`check(c.DeadlineLimit > 0,`},

		// 28: a worker trusts its own clock about its lease.
		{28, worker, worker + "/lease.go", "a worker always holds what it was given",
			`return l.within(l.length * 3 / 4) }`,
			`return true }`},
		{28, worker, worker + "/lease.go", "a worker gives back whatever its clock says",
			`return l.within(l.length / 2) }`,
			`return true }`},
		{28, worker, worker + "/lease.go", "a worker asks no clock at all",
			`return l.running() && !l.lapsed && elapsed(l.last, time.Now()) < d`,
			`return d > 0`},
		{28, worker, worker + "/lease.go", "a clock that stood still is trusted",
			`return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))`,
			`return to.Sub(from)`},
		{28, worker, worker + "/lease.go", "a clock that was set back is trusted",
			`return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))`,
			`return to.Round(0).Sub(from.Round(0))`},
		{28, worker, worker + "/lease.go", "a lease that was handed out again counts as never lapsed",
			`l.delivery, l.last, l.gone, l.lapsed = d, d.Fetched, false, true`,
			`l.delivery, l.last, l.gone, l.lapsed = d, d.Fetched, false, false`},
	}
}
