package dispatch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"mulligan/pkg/messages"
)

// explorer drives a world in random order: two coordinators, two workers, a
// reflector without memory, a human, a canceller and a clock, any of which may
// die or be slow between any two acts. It is the naive model: it knows what
// must never happen and nothing of how the machine avoids it.
type explorer struct {
	*world
	t       *rapid.T
	workers map[string]*worker
	deliver map[int]int
	execs   map[int]int           // executions begun of each dispatch
	open    map[int]int           // of those, not ended by a word of the tool
	worst   map[int]bool          // one of them ended ambiguously
	ran     map[int]messages.Call // as it ran
	human   map[int]bool          // a human let the next dispatch happen
	seen    []messages.Record     // every record that was written, in order
	faults  int                   // crashes and lapsed leases left
}

type worker struct {
	n       int
	call    messages.Call
	mark    int
	repeat  bool
	running bool
	outcome string
	ended   bool
}

func newExplorer(t *rapid.T) *explorer {
	effect := rapid.SampledFrom(messages.Effects()).Draw(t, "effect")
	x := &explorer{world: newWorld(effect), t: t, workers: map[string]*worker{}, deliver: map[int]int{}, execs: map[int]int{},
		open: map[int]int{}, worst: map[int]bool{}, ran: map[int]messages.Call{}, human: map[int]bool{}, faults: 4}
	x.tools["u"] = Tool{Spec: messages.ToolSpec{Name: "u", Queue: "q2", Effect: rapid.SampledFrom(messages.Effects()).Draw(t, "effect of u")}}
	return x
}

type move struct {
	name string
	do   func()
}

// moves are all that may happen next.
func (x *explorer) moves(faults bool) []move {
	var ms []move
	add := func(name string, do func()) { ms = append(ms, move{name, do}) }
	for _, c := range []string{"X", "Y"} {
		x.coordinatorMoves(c, faults, add)
	}
	for _, w := range []string{"A", "B"} {
		x.workerMoves(w, faults, add)
	}
	for _, n := range slices.Sorted(maps.Keys(x.failures)) {
		if _, done := x.decisions[n]; !done {
			add(fmt.Sprintf("reflect %d", n), func() { x.decide(n, x.drawDecision()) })
		}
	}
	for _, k := range slices.Sorted(maps.Keys(x.schedules)) {
		add("fire "+k, func() { x.fireAt(k) })
	}
	if faults {
		x.outsideMoves(add)
	}
	return ms
}

func (x *explorer) fireAt(k string) {
	if at := x.schedules[k].At; x.now.Before(at) {
		x.now = at
	}
	x.fire(k)
}

func (x *explorer) coordinatorMoves(c string, faults bool, add func(string, func())) {
	if x.actors[c] != nil {
		add("act "+c, func() { x.act1(c) })
		if faults && x.faults > 0 {
			add("crash "+c, func() { x.faults--; x.crash(c) })
		}
		return
	}
	for _, k := range slices.Sorted(maps.Keys(x.triggers)) {
		p := x.triggers[k]
		switch {
		case p.holder == "" || x.actors[p.holder] == nil || x.actors[p.holder].key != k:
			add("take "+c+" "+k, func() { _ = x.take(c, k) })
		case faults && x.faults > 0: // its lease lapsed, its holder does not know
			add("take over "+c+" "+k, func() { x.faults--; _ = x.take(c, k) })
		}
	}
}

func (x *explorer) act1(c string) {
	before := x.rev
	if err := x.act(c); err != nil {
		x.t.Fatal(err)
	}
	if x.rev != before {
		x.checkRecord(*x.rec)
	}
}

func (x *explorer) checkRecord(r messages.Record) {
	if n := len(x.seen); n > 0 {
		last := x.seen[n-1]
		if Compare(last, r) > 0 {
			x.t.Fatalf("the record went back from %s to %s", show(last), show(r))
		}
		if last.State == messages.Ended && r.State != messages.Ended {
			x.t.Fatalf("ended is not final: %s", show(r))
		}
		for _, a := range last.Ambiguous {
			if !slices.Contains(r.Ambiguous, a) {
				x.t.Fatalf("ambiguity of %d was forgotten: %s", a, show(r))
			}
		}
	}
	if r.Spent > messages.MaxAttempts || r.N > messages.MaxDispatches || r.Call.Attempt > messages.MaxRetries {
		x.t.Fatalf("beyond a bound: %s attempt=%d", show(r), r.Call.Attempt)
	}
	b, err := messages.EncodeRecord(r)
	if err != nil {
		x.t.Fatal(err)
	}
	if _, err := messages.DecodeRecord(b); err != nil {
		x.t.Fatalf("the record cannot be read back: %v", err)
	}
	x.seen = append(x.seen, r)
}

func (x *explorer) workerMoves(name string, faults bool, add func(string, func())) {
	w := x.workers[name]
	if w == nil {
		for _, n := range slices.Sorted(maps.Keys(x.queued)) {
			held := x.heldBy(n)
			if !held {
				add(fmt.Sprintf("fetch %s %d", name, n), func() { x.fetch(name, n) })
			} else if faults && x.faults > 0 {
				add(fmt.Sprintf("fetch again %s %d", name, n), func() { x.faults--; x.fetch(name, n) })
			}
		}
		return
	}
	add("work "+name, func() { x.work(name, w) })
	if faults && x.faults > 0 {
		add("kill "+name, func() { x.faults--; delete(x.workers, name) })
	}
}

func (x *explorer) heldBy(n int) bool {
	for _, w := range x.workers {
		if w.n == n {
			return true
		}
	}
	return false
}

func (x *explorer) fetch(name string, n int) {
	x.deliver[n]++
	x.workers[name] = &worker{n: n, call: x.queued[n], repeat: n > 0 || x.deliver[n] > 1}
}

// work is one step of protocol section 3.
func (x *explorer) work(name string, w *worker) {
	switch {
	case w.ended:
		delete(x.queued, w.n)
		delete(x.workers, name)
	case w.running:
		x.finishTool(w)
	case w.repeat && x.result != nil:
		x.settle(w)
	case w.repeat && x.failed(w.n):
		w.ended = true
	case w.call.Effect == messages.Unsafe:
		x.startUnsafe(name, w)
	default:
		x.startOther(w)
	}
}

func (x *explorer) failed(n int) bool { _, ok := x.failures[n]; return ok }

func (x *explorer) settle(w *worker) {
	x.trigger(Event{Trigger: messages.Trigger{Kind: messages.TriggerSettled, N: w.n}})
	w.ended = true
}

// stop gives the status with which a worker has to drop a call.
func (x *explorer) stop() messages.Status {
	switch {
	case x.cancel != nil:
		return messages.Cancelled
	case passed(x.call.Deadline, x.now):
		return messages.Expired
	}
	return ""
}

func (x *explorer) drop(w *worker, s messages.Status) {
	if len(w.call.Ambiguous) > 0 {
		s = messages.StatusUnknown
	}
	x.putResult(messages.Result{Call: testCall, Run: x.call.Run, Status: s, Dispatch: w.n})
	x.settle(w)
}

func (x *explorer) startUnsafe(name string, w *worker) {
	k, stop := startKey(w.n, 0), x.stop()
	if x.starts[k] == "" {
		x.starts[k] = name + fmt.Sprint(x.deliver[w.n])
		if stop == "" {
			x.run(w)
			return
		}
		x.starts[k] = "tombstone"
	}
	switch {
	case x.starts[k] == "tombstone":
		if stop == "" {
			stop = messages.Cancelled
		}
		x.drop(w, stop)
	default:
		f := x.outcome(w, messages.CodeWorkerLost)
		f.Ambiguous = true
		x.fail(f)
		w.ended = true
	}
}

func (x *explorer) startOther(w *worker) {
	if s := x.stop(); s != "" {
		x.drop(w, s)
		return
	}
	if !w.repeat {
		x.run(w)
		return
	}
	for k := 1; k <= messages.MaxMarks; k++ {
		switch x.starts[startKey(w.n, k)] {
		case "":
			x.starts[startKey(w.n, k)] = "worker"
			w.mark = k
			x.run(w)
			return
		case "tombstone":
			w.ended = true
			return
		}
	}
	f := x.outcome(w, messages.CodeWorkerLost)
	f.Mark, f.Ambiguous = messages.MaxMarks, w.call.Effect != messages.ReadOnly
	x.fail(f)
	w.ended = true
}

func (x *explorer) outcome(w *worker, code messages.Code) messages.Failure {
	return messages.Failure{Call: w.call, Input: w.call.Input, Output: messages.Text("no"), Code: code, Executed: true, Mark: w.mark}
}

// run begins the tool, and is where the promises are checked.
func (x *explorer) run(w *worker) {
	n, prev := w.n, w.n-1
	w.running = true
	x.execs[n]++
	x.open[n]++
	x.ran[n] = w.call
	unclear := prev >= 0 && (x.open[prev] > 0 || x.worst[prev]) && !x.human[prev]
	switch {
	case w.call.Effect == messages.Unsafe && x.execs[n] > 1:
		x.t.Fatalf("unsafe dispatch %d runs twice", n)
	case x.ran[prev].Effect == messages.Unsafe && unclear:
		x.t.Fatalf("a machine repeats an unsafe call: %d runs, %d is unclear", n, prev)
	case x.ran[prev].Effect != messages.ReadOnly && unclear && x.ran[prev].Key != w.call.Key:
		x.t.Fatalf("dispatch %d runs under another key, %d is unclear", n, prev)
	case w.call.Attempt > messages.MaxRetries:
		x.t.Fatalf("attempt %d runs", w.call.Attempt)
	case w.call.Effect == messages.Unsafe && x.result != nil && (x.result.Status == messages.Cancelled || x.result.Status == messages.Expired):
		x.t.Fatalf("runs although %s was told", x.result.Status)
	}
}

func (x *explorer) finishTool(w *worker) {
	if w.outcome == "" {
		outcomes := []string{"success", "definite", "ambiguous", "not now"}
		if w.call.Effect == messages.ReadOnly {
			outcomes = outcomes[:2]
		}
		w.outcome = rapid.SampledFrom(outcomes).Draw(x.t, "outcome")
		x.open[w.n]--
		x.worst[w.n] = x.worst[w.n] || w.outcome == "ambiguous"
		return // it may still die before it tells
	}
	if w.outcome == "success" {
		x.putResult(messages.Result{Call: testCall, Run: x.call.Run, Status: messages.Succeeded, Dispatch: w.n, Attempts: w.call.Attempt + 1})
		x.settle(w)
		return
	}
	f := x.outcome(w, messages.CodeToolError)
	f.Ambiguous = w.outcome == "ambiguous"
	if w.outcome == "not now" {
		f.NothingDone, f.RetryAfter = true, messages.Millis(5*ms)
	}
	x.fail(f)
	w.ended = true
}

func (x *explorer) drawDecision() messages.Decision {
	d := messages.Decision{By: "m", Park: rapid.Bool().Draw(x.t, "park"),
		Analysis: &messages.FailureAnalysis{RootCause: "c", Severity: rapid.SampledFrom([]messages.Severity{messages.Low, messages.High}).Draw(x.t, "severity")}}
	d.Action = rapid.SampledFrom([]messages.RecoveryAction{messages.Retry(0), messages.Retry(200 * ms), messages.Retry(5000 * ms),
		messages.Retry(0), messages.AskUser("?"), messages.Fail("f")}).Draw(x.t, "action")
	switch rapid.IntRange(0, 3).Draw(x.t, "correction") {
	case 1:
		c := fix(fmt.Sprintf(`{"a":%d}`, rapid.IntRange(1, 4).Draw(x.t, "a")))
		d.Analysis.Correction = &c
	case 2:
		d.Analysis.Correction = &messages.Correction{Type: messages.ToolChange, AlternativeTool: ptr("u"), ModifiedInput: json.RawMessage(`null`)}
	}
	return d
}

func (x *explorer) outsideMoves(add func(string, func())) {
	if x.rec != nil && x.rec.State == messages.Parked {
		n := x.rec.N
		kinds := []messages.AnswerKind{messages.AnswerApprove, messages.AnswerRetry, messages.AnswerSkip}
		add(fmt.Sprintf("answer %d", n), func() {
			k := rapid.SampledFrom(kinds).Draw(x.t, "answer")
			x.human[n] = x.answer(n, messages.Answer{Kind: k, By: "ann"}) || x.human[n]
		})
	}
	if x.cancel == nil && x.faults > 0 {
		add("cancel", func() {
			x.faults--
			x.cancelWith(messages.Cancel{Status: messages.Cancelled, Code: messages.CodeCancelled})
		})
	}
	if x.runEnded == nil && x.faults > 1 {
		add("end the run", func() {
			x.faults--
			x.runEnded = &messages.Cancel{Status: messages.Cancelled, Code: messages.CodeRunEnded}
		})
	}
	if x.call.Deadline.IsZero() && x.rec == nil && len(x.deliver) == 0 {
		add("deadline", func() {
			x.call.Deadline = epoch.Add(5000 * ms)
			x.queued[0] = x.call
			x.schedules["deadline.0.0"] = messages.Due{Kind: messages.DueDeadline, At: x.call.Deadline}
		})
	}
	if x.rev > 0 && !x.stale {
		add("stale", func() { x.stale = true })
	}
	add("calls full", func() { x.callsFull = !x.callsFull })
	add("results full", func() { x.resultsFull = !x.resultsFull })
}

func TestRandomOrdersKeepThePromises(t *testing.T) { rapid.Check(t, explore) }

// FuzzOrders lets the coverage of the state machine choose the orders.
func FuzzOrders(f *testing.F) { f.Fuzz(rapid.MakeFuzz(explore)) }

func explore(t *rapid.T) {
	x := newExplorer(t)
	for range rapid.IntRange(5, 120).Draw(t, "moves") {
		ms := x.moves(true)
		m := ms[rapid.IntRange(0, len(ms)-1).Draw(t, "move")]
		t.Log(m.name)
		m.do()
		if x.accepted > 1 {
			t.Fatal("a second terminal result")
		}
	}
	x.settleDown()
	x.checkEnd()
}

// settleDown lets everything happen that is still to happen, without faults.
func (x *explorer) settleDown() {
	x.callsFull, x.resultsFull, x.stale = false, false, false
	for i := 0; ; i++ {
		ms := x.moves(false)
		if len(ms) == 0 {
			return
		}
		if i > 2000 {
			x.t.Fatalf("no rest: %s", ms[0].name)
		}
		m := ms[rapid.IntRange(0, len(ms)-1).Draw(x.t, "rest")]
		x.t.Log(m.name)
		m.do()
	}
}

func (x *explorer) checkEnd() {
	if x.result == nil {
		x.t.Fatalf("the call vanished: at rest without a result, record %v", x.rec)
	}
	if x.rec != nil && (x.rec.State != messages.Ended || x.rec.Outcome.Status != x.result.Status) {
		x.t.Fatalf("RESULTS says %s, the record %s by %s", x.result.Status, show(*x.rec), keyOf(x.rec.Trigger))
	}
	if s := x.result.Status; s == messages.Cancelled || s == messages.Expired {
		for n, amb := range x.worst {
			if amb && x.ran[n].Effect == messages.Unsafe {
				x.t.Fatalf("%s hides that dispatch %d may have had an effect", s, n)
			}
		}
	}
	if x.runEnded == nil && x.result.Status == messages.Exhausted {
		x.t.Fatal("exhausted, and the run goes on")
	}
}
