package coordination

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
)

// submit answers EndpointSubmit: every call of the chunk is accepted or
// refused by itself. When it answers, what was accepted is stored.
func (c *Coordinator) submit(ctx context.Context, request []byte) []byte {
	chunk, err := messages.DecodeChunk(request)
	if err != nil {
		code := messages.CodeBadCall
		if otherVersion(request) {
			code = messages.CodeVersion
		}
		c.metrics.Refused(code)
		return encodeReply(messages.ChunkReply{Error: err.Error(), Code: code})
	}
	s := &submission{c: c, chunk: chunk, unnamed: messages.UnnamedRun(chunk.Batch), now: time.Now(), tools: make(map[string]admission), kept: make(map[string]int64),
		sound: make([]incoming, 0, len(chunk.Calls))}
	defer s.settle()
	if err := c.runs.catchUp(ctx, chunk.Runs, s.runsOf()); err != nil {
		return encodeReply(messages.ChunkReply{Error: err.Error(), Code: messages.CodeNotStored})
	}
	for _, call := range chunk.Calls {
		s.check(ctx, call)
	}
	s.tell()
	s.accept(ctx)
	for _, r := range s.refused {
		c.metrics.Refused(r.Code)
	}
	c.metrics.Accepted(len(s.accepted))
	return encodeReply(messages.ChunkReply{Refused: s.refused})
}

func otherVersion(request []byte) bool {
	var head struct {
		Version string `json:"version"`
	}
	return json.NewDecoder(bytes.NewReader(request)).Decode(&head) == nil && head.Version != messages.Version
}

// submission is one chunk on its way in.
type submission struct {
	c       *Coordinator
	chunk   messages.Chunk
	unnamed messages.Run // of the calls that name none
	now     time.Time
	tools   map[string]admission   // looked up once a chunk
	names   []string               // of the tools that there are; read when one is not
	read    int64                  // bytes of uploaded inputs
	kept    map[string]int64       // room in the store, by call
	seen    []messages.CallSeen    // of named runs, for the loop detectors of the others
	held    map[messages.Run]int64 // calls that were admitted of runs with limits

	sound    []incoming  // to be published
	gated    []*incoming // that something stands before: they ask before they are sorted
	waiting  []incoming  // accepted, and waiting before their first dispatch
	turned   []incoming  // accepted, and ended at once
	unusable []incoming  // accepted, and failed already: their arguments cannot be used
	accepted []messages.BatchCall
	replays  []messages.Replay // of the accepted, those that replay another call
	refused  []messages.Refusal
}

type admission struct {
	tool *registered
	at   presence
}

// incoming is a call that passed the checks.
type incoming struct {
	call    messages.Call
	message messages.Message // the call as it goes into CALLS
	fault   string           // why its arguments cannot be used

	content []byte           // of the input, of a call that is gated
	passage dispatch.Passage // what the gate said
	known   bool             // its first copy was accepted

	notBefore time.Time // its first dispatch; zero at once
}

func (s *submission) refuse(call messages.Submission, code messages.Code, text string, after time.Duration) {
	s.refused = append(s.refused, messages.Refusal{Call: call.Call, Ref: call.Ref, Code: code, Text: text, RetryAfter: messages.Millis(after)})
}

// accept stores what passed. The deadline's schedule is there before the call,
// and a failure of arguments is stored in place of the call.
func (s *submission) accept(ctx context.Context) {
	s.ask(ctx)
	s.scheduleDeadlines(ctx)
	s.publish(ctx)
	s.stored(ctx, s.unusable, s.c.failArguments)
	s.stored(ctx, s.waiting, s.c.putOffFirst)
	s.stored(ctx, s.turned, s.c.turnAway)
	s.overtaken(ctx)
	s.list(ctx)
	s.link(ctx)
}

// settle gives back the room of what was refused, on every way out. A call that
// could not be stored may be there all the same, and counts as stored.
func (s *submission) settle() {
	var all, refused int64
	for _, kept := range s.kept {
		all += kept
	}
	for _, r := range s.refused {
		if r.Code != messages.CodeNotStored {
			refused += s.kept[r.Call]
			delete(s.kept, r.Call)
		}
	}
	s.c.store.settle(all-refused, refused)
	for run, n := range s.held {
		s.c.runs.settle(run, n)
	}
}

// runsOf are the runs that the calls of the chunk name, each once.
func (s *submission) runsOf() []messages.Run {
	if s.chunk.Runs == 0 {
		return nil
	}
	var runs []messages.Run
	for _, call := range s.chunk.Calls {
		if run := s.run(call); !slices.Contains(runs, run) {
			runs = append(runs, run)
		}
	}
	return runs
}

// keep takes a call as accepted.
func (s *submission) keep(in incoming) {
	s.accepted = append(s.accepted, messages.BatchCall{Call: in.call.ID, Run: in.call.Run, Ref: in.call.Ref})
	if of := in.call.Labels.ReplayOf(); of != "" {
		s.replays = append(s.replays, messages.Replay{Original: of, Call: in.call.ID, Run: in.call.Run, By: s.chunk.By, At: s.now.UTC()})
	}
}

// drop refuses a call that could not be stored. It may be stored in part, so
// the way out is to send it again, marked as a repetition.
func (s *submission) drop(in incoming, err error) {
	code, text, after := messages.CodeNotStored, "the call could not be stored: "+err.Error()+"; send it again", fullRetry
	switch {
	case errors.Is(err, messages.ErrFull):
		code, text = messages.CodeQueueFull, "the pool has no room for more calls; try again in "+fullRetry.String()
	case errors.Is(err, messages.ErrTooLarge):
		code, text, after = messages.CodeTooLarge, "the call is too large to be stored", 0
	}
	s.refused = append(s.refused, messages.Refusal{Call: in.call.ID, Ref: in.call.Ref, Code: code, Text: text, RetryAfter: messages.Millis(after)})
	if in.call.Probe {
		s.c.giveUpProbe(in.call)
	}
}

// scheduleDeadlines leaves in the lists what has its schedule, or needs none.
func (s *submission) scheduleDeadlines(ctx context.Context) {
	s.sound = s.scheduled(ctx, s.sound)
	s.unusable = s.scheduled(ctx, s.unusable)
	s.waiting = s.scheduled(ctx, s.waiting)
}

func (s *submission) scheduled(ctx context.Context, calls []incoming) []incoming {
	if !slices.ContainsFunc(calls, func(in incoming) bool { return !in.call.Deadline.IsZero() }) {
		return calls
	}
	errs := sideBySide(calls, func(in incoming) error {
		if in.call.Deadline.IsZero() {
			return nil
		}
		return s.c.broker.Schedule(ctx, messages.Due{Kind: messages.DueDeadline, Run: in.call.Run, Call: in.call.ID, At: in.call.Deadline})
	})
	kept := calls[:0]
	for i, in := range calls {
		if errs[i] != nil {
			s.drop(in, errs[i])
			continue
		}
		kept = append(kept, in)
	}
	return kept
}

// sideBySide does the same for all, a few at a time.
func sideBySide[T any](list []T, do func(T) error) []error {
	errs := make([]error, len(list))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, v := range list {
		g.Go(func() error {
			errs[i] = do(v)
			return nil
		})
	}
	_ = g.Wait() // each error stands in its place
	return errs
}

// publishTries is how often a chunk is published whose fate is not known. From
// the second time on its calls say that they may be repetitions.
const publishTries = 3

// publish puts the sound calls into CALLS.
func (s *submission) publish(ctx context.Context) {
	left := s.sound
	for try := 1; len(left) > 0; try++ {
		ms := make([]messages.Message, len(left))
		for i, in := range left {
			ms[i] = in.message
		}
		var unclear []incoming
		for i, err := range s.c.broker.PublishAll(ctx, ms) {
			in := left[i]
			switch {
			case err == nil || errors.Is(err, messages.ErrExists):
				s.keep(in)
			case try == publishTries || errors.Is(err, messages.ErrFull) || errors.Is(err, messages.ErrTooLarge) || ctx.Err() != nil:
				s.drop(in, err)
			default:
				in.call.Repeat = true // it may be there, done and gone (P7.11)
				in.message = s.c.names.EncodeCall(in.call)
				unclear = append(unclear, in)
			}
		}
		left = unclear
	}
}

// stored does with each call what stores it without CALLS, and keeps those that
// could be.
func (s *submission) stored(ctx context.Context, calls []incoming, store func(context.Context, incoming) error) {
	errs := sideBySide(calls, func(in incoming) error { return store(ctx, in) })
	for i, in := range calls {
		if errs[i] != nil {
			s.drop(in, errs[i])
			continue
		}
		s.keep(in)
	}
}

// failArguments stores the failure of arguments that cannot be used: attempt 0,
// which ran nothing (S4.4).
func (c *Coordinator) failArguments(ctx context.Context, in incoming) error {
	return c.putFailure(ctx, messages.Failure{
		Call: in.call, Input: in.call.Input, Output: messages.Text(in.fault), Error: in.fault,
		Code: messages.CodeInvalidArguments, At: time.Now().UTC(),
	})
}

// putFailure stores a failure of what cannot run. One that is there already
// stays: an earlier copy of the chunk, another coordinator.
func (c *Coordinator) putFailure(ctx context.Context, f messages.Failure) error {
	m, err := c.names.EncodeFailure(f)
	if err != nil {
		return err
	}
	winner, err := c.broker.PutOnce(ctx, m)
	if err == nil && winner == nil {
		c.observe(f)
	}
	return err
}

// overtaken cancels what was accepted into a run that ended meanwhile: its end
// may have been listed before these calls were stored (as P7.26).
func (s *submission) overtaken(ctx context.Context) {
	for _, call := range s.accepted {
		wish, over := s.c.runs.isOver(call.Run)
		if !over {
			continue
		}
		if err := s.c.runs.putCancel(ctx, call.Run, call.Call, wish); err != nil {
			s.c.log.Warn("a call of an ended run was not cancelled; its worker will see the end", "call", call.Call, "error", err)
		}
	}
}

// link notes which of the accepted calls replay others, so that each finds the
// other (S11.1). As with the list nothing is decided by it.
func (s *submission) link(ctx context.Context) {
	for i, err := range sideBySide(s.replays, func(r messages.Replay) error {
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return s.c.broker.Put(ctx, messages.BucketRuns, messages.ReplayKey(r.Original, r.Call), b, s.c.cfg.RecordTTL)
	}) {
		if err != nil {
			s.c.log.Warn("a replay was not noted beside its original", "call", s.replays[i].Call, "original", s.replays[i].Original, "error", err)
		}
	}
}

// largeInput is the size in bytes above which inputs are checked one at a time:
// a list of millions of small values takes many times its size while it is.
const largeInput = 1 << 20

// argumentsFault says why an input cannot be used, for the model (S6). It is
// never mended here, and never taken for {}.
func (c *Coordinator) argumentsFault(t *registered, input []byte, isJSON bool) string {
	if len(input) > largeInput {
		c.large.Lock()
		defer c.large.Unlock()
	}
	validate := t.schema.Validate
	if isJSON {
		validate = t.schema.ValidateJSON
	}
	if err := validate(input); err != nil {
		return err.Error()
	}
	return ""
}
