package coordination_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

func (r *rig) ofRun(req messages.RunRequest) messages.RunReply {
	r.t.Helper()
	req.By = "ann"
	if req.Run == "" {
		req.Run = messages.NamedRun("r")
	}
	raw, err := r.admin.Request(r.t.Context(), messages.EndpointRun, must(messages.EncodeService(req)))
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return must(messages.DecodeService[messages.RunReply](raw))
}

func (r *rig) declare(spec messages.RunSpec) messages.RunReply {
	r.t.Helper()
	return r.ofRun(messages.RunRequest{Action: messages.RunDeclare, Spec: &spec})
}

func (r *rig) declared(spec messages.RunSpec) messages.RunReply {
	r.t.Helper()
	reply := r.declare(spec)
	if reply.Error != "" || reply.Entry == nil || reply.Revision == 0 {
		r.t.Fatalf("%+v", reply)
	}
	return reply
}

func (r *rig) closeRun(calls ...int64) messages.RunReply {
	r.t.Helper()
	req := messages.RunRequest{Action: messages.RunClose}
	if len(calls) > 0 {
		req.Calls = &calls[0]
	}
	return r.ofRun(req)
}

// run is the entry of a run in RUNS.
func (r *rig) run() messages.RunEntry {
	r.t.Helper()
	e, err := r.admin.Load(r.t.Context(), messages.BucketRuns, messages.RunKey(messages.NamedRun("r")))
	if err != nil {
		r.t.Fatal(err)
	}
	return must(messages.DecodeRun(e.Value))
}

// refusal submits a call that is to be refused.
func (r *rig) refusal(change ...func(*messages.Submission)) messages.Refusal {
	r.t.Helper()
	reply := r.send(messages.Chunk{Calls: []messages.Submission{submission(change...)}})
	if len(reply.Refused) != 1 {
		r.t.Fatalf("was not refused: %+v", reply)
	}
	return reply.Refused[0]
}

func TestARunIsDeclaredOnceAndSaidAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		spec := messages.RunSpec{Labels: messages.Labels{"team": "a"}, InFlight: 3, Policy: json.RawMessage(`{"max_retries": 1}`)}
		first := r.declared(spec)
		spec.Policy = json.RawMessage(`{"max_retries":1}`) // the same
		if again := r.declared(spec); again.Revision != first.Revision || again.Entry.By != "ann" {
			t.Errorf("%+v, then %+v", first, again)
		}
		spec.InFlight = 4
		reply := r.declare(spec)
		if reply.Code != messages.CodeRunDiffers || reply.Field != "in_flight" || !strings.Contains(reply.Error, "was declared with 3") {
			t.Errorf("%+v", reply)
		}
	})
}

func TestADeclarationNamesTheFieldThatCannotBeUsed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		for field, spec := range map[string]messages.RunSpec{
			"policy":       {Policy: json.RawMessage(`{"max_retris":1}`)},
			"in_flight":    {InFlight: -1},
			"deadline":     {Deadline: time.Now().Add(-time.Second)},
			"webhook":      {Webhook: "ftp://example.com"},
			"budget.calls": {Budget: messages.RunBudget{Calls: -1}},
			"origin":       {Origin: "a b"},
		} {
			if reply := r.declare(spec); reply.Code != messages.CodeBadRun || reply.Field != field {
				t.Errorf("%s: %+v", field, reply)
			}
		}
		if reply := r.declare(messages.RunSpec{Policy: json.RawMessage(`{"effect":"read_only"}`)}); !strings.Contains(reply.Error, "is the operator's to set") {
			t.Errorf("%+v", reply)
		}
		if reply := r.closeRun(); reply.Code != messages.CodeNotFound {
			t.Errorf("what nobody declared was closed: %+v", reply)
		}
	})
}

// An undeclared run costs what it did: nothing is read or written for it.
func TestAnUndeclaredRunCostsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.ReadOnly)
		m.broker.ResetCounts()
		r.accept()
		if n := m.broker.Count(memory.OpMatching, ">") + m.broker.Count(memory.OpLoad, string(messages.BucketRuns)+".>") + m.broker.Count(memory.OpSave, ">"); n != 0 {
			t.Errorf("%d: %v", n, m.broker.Counts())
		}
	})
}

func TestThePolicyOfARunLiesUnderThatOfTheCall(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{Policy: json.RawMessage(`{"max_retries":1,"ask_user":"park"}`), Budget: messages.RunBudget{Tokens: 500}})
		if c := r.accept(); string(c.Policy) != `{"ask_user":"park","budget_tokens":500,"max_retries":1}` {
			t.Errorf("policy %s", c.Policy)
		}
		c := r.accept(func(s *messages.Submission) { s.Policy = json.RawMessage(`{"max_retries":0}`) })
		if string(c.Policy) != `{"ask_user":"park","budget_tokens":500,"max_retries":0}` {
			t.Errorf("policy %s", c.Policy)
		}
	})
}

// Two policies that can be used may not be together.
func TestThePoliciesOfRunAndCallMustFit(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{Policy: json.RawMessage(`{"initial_backoff_ms":5000}`)})
		ref := r.refusal(func(s *messages.Submission) { s.Policy = json.RawMessage(`{"max_backoff_ms":1000}`) })
		if ref.Code != messages.CodeBadCall || !strings.Contains(ref.Text, "with the policy of run 'r'") {
			t.Errorf("%+v", ref)
		}
	})
}

func TestARunHoldsItsLimitInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{InFlight: 2})
		a := r.accept()
		r.accept()
		ref := r.refusal()
		if ref.Code != messages.CodeRunFull || ref.RetryAfter <= 0 || !strings.Contains(ref.Text, "2 calls queued or running") {
			t.Fatalf("%+v", ref)
		}
		r.accept(func(s *messages.Submission) { s.Run = "another" })
		r.succeed(a)
		pass(ref.RetryAfter.Duration())
		r.accept()
		if ref := r.refusal(); ref.Code != messages.CodeRunFull {
			t.Fatalf("%+v", ref)
		}
	})
}

// A chunk at once is held to the limit too.
func TestALimitHoldsWithinAChunk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{InFlight: 5, Budget: messages.RunBudget{Calls: 7}})
		chunk := func() (accepted int, codes []messages.Code) {
			var c messages.Chunk
			for range 9 {
				c.Calls = append(c.Calls, submission())
			}
			reply := r.send(c)
			for _, ref := range reply.Refused {
				codes = append(codes, ref.Code)
			}
			for _, s := range c.Calls {
				if q, ok := r.queued(messages.NamedRun("r"), s.Call); ok {
					accepted++
					r.succeed(q)
				}
			}
			return accepted, slices.Compact(codes)
		}
		if n, codes := chunk(); n != 5 || !slices.Equal(codes, []messages.Code{messages.CodeRunFull}) {
			t.Fatalf("%d, %v", n, codes)
		}
		pass(2 * time.Second)
		if n, codes := chunk(); n != 2 || !slices.Equal(codes, []messages.Code{messages.CodeRunFull}) {
			t.Fatalf("%d, %v", n, codes) // what is under way may be counted twice: nothing is refused for good
		}
		pass(time.Second)
		r.refusal()
		pass(time.Second)
		if ref := r.refusal(); ref.Code != messages.CodeBudgetSpent || ref.RetryAfter != 0 {
			t.Fatalf("%+v", ref)
		}
	})
}

func TestARunWithoutRetriesLeftEndsItsFailuresSoft(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{Budget: messages.RunBudget{Retries: 2}})
		a, b := r.accept(), r.accept()
		r.failAndDecide(a, messages.Retry(0))
		pass(time.Second)
		a = r.wantQueued(a, 1)
		r.failAndDecide(a, messages.Retry(0))
		pass(time.Second)
		a = r.wantQueued(a, 2)
		r.failAndDecide(b, messages.Retry(0))
		pass(time.Second)
		res := r.wantResult(b, messages.Failed, messages.CodeBudgetSpent)
		if string(res.Output.Inline) != "error of 0" || !strings.Contains(res.Reason, "budget of 2 retries") {
			t.Errorf("%+v", res)
		}
		r.succeed(a)
		r.wantResult(a, messages.Succeeded, "")
	})
}

func TestAClosedRunTakesNothingAndIsOverWithItsLastCall(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{})
		a, b := r.accept(), r.accept()
		r.failAndDecide(a, messages.Fail("no"))
		if reply := r.closeRun(2); reply.Error != "" || reply.Entry.Closed == nil {
			t.Fatalf("%+v", reply)
		}
		if ref := r.refusal(); ref.Code != messages.CodeRunClosed || ref.RetryAfter != 0 {
			t.Errorf("%+v", ref)
		}
		pass(10 * time.Second)
		if e := r.run(); e.Over != nil {
			t.Fatalf("over before its last call: %+v", e.Over)
		}
		r.succeed(b)
		pass(time.Minute)
		over := r.run().Over
		if over == nil || over.Calls != 2 || over.Outcomes[messages.Succeeded] != 1 || over.Outcomes[messages.Failed] != 1 || over.Tools["t"][messages.Failed] != 1 {
			t.Fatalf("%+v", over)
		}
		if e := r.endedRun(); e.Ended != nil || e.Over == nil {
			t.Errorf("a cancellation of what is over made it %+v", e)
		}
		r.wantNoTriggers()
	})
}

// endedRun is the run after somebody cancelled it.
func (r *rig) endedRun() messages.RunEntry {
	r.t.Helper()
	e := r.run()
	reply := must(messages.DecodeService[messages.CancelReply](must(r.admin.Request(r.t.Context(), messages.EndpointCancel,
		must(messages.EncodeService(messages.CancelRequest{Run: e.Run, Reason: "too late"}))))))
	if reply.Error != "" {
		r.t.Errorf("%+v", reply)
	}
	pass(time.Minute)
	return r.run()
}

// Whoever closes a run may not know how many calls it has: then each place is
// looked at where one may be that has not ended.
// A call that was refused once is no repetition, whatever its chunk says.
func TestAClosedRunTakesNoCallThatOnlyLooksRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{})
		one := submission()
		send := func(s messages.Submission) messages.ChunkReply {
			return r.send(messages.Chunk{Calls: []messages.Submission{s}, Repeat: true})
		}
		if reply := send(one); reply.Error != "" || len(reply.Refused) > 0 {
			t.Fatalf("%+v", reply)
		}
		r.closeRun(1)
		late := submission()
		if reply := send(late); len(reply.Refused) > 0 {
			t.Errorf("its first copy may be on its way: %+v", reply)
		}
		pass(2 * messages.RepeatAfter)
		if reply := send(one); len(reply.Refused) > 0 {
			t.Errorf("a repetition: %+v", reply)
		}
		if reply := send(submission()); len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeRunClosed || reply.Refused[0].RetryAfter != 0 {
			t.Errorf("%+v", reply)
		}
	})
}

func TestARunClosedWithoutACountIsOverWithItsLastCall(t *testing.T) {
	for name, at := range map[string]func(r *rig, c messages.Call){
		"queued":  func(*rig, messages.Call) {},
		"failed":  func(r *rig, c messages.Call) { r.fail(c) },
		"waiting": func(r *rig, c messages.Call) { r.failAndDecide(c, messages.Retry(time.Hour)) },
		"parked":  func(r *rig, c messages.Call) { r.fail(c); r.decide(c, messages.AskUser("?"), park) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", messages.ReadOnly)
				r.declared(messages.RunSpec{})
				c := r.accept()
				at(r, c)
				r.closeRun()
				pass(2 * time.Minute)
				if e := r.run(); e.Over != nil {
					t.Fatalf("over with a call that is %s: %+v", name, e.Over)
				}
				r.cancel(messages.CancelRequest{Run: c.Run, Call: c.ID})
				pass(2 * time.Minute)
				if e := r.run(); e.Over == nil || e.Over.Calls != 1 {
					t.Fatalf("%+v", e)
				}
			})
		})
	}
}

// A call for later that comes due is in no queue until it has passed the gate,
// and no failure tells of it.
func TestARunIsNotOverWhileACallForLaterStandsAtTheGate(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var stuck atomic.Bool
		stuck.Store(true)
		r.coordinator(hook(func(_ *memory.Broker, op memory.Op, on string) error {
			if c, err := r.names.Parse(on); stuck.Load() && op == memory.OpPublish && err == nil && c.Run == messages.NamedRun("r") {
				return errors.New("no answer")
			}
			return nil
		}))
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{})
		_, c, _ := r.later(later(time.Second))
		r.closeRun()
		pass(2 * time.Minute)
		if e := r.run(); e.Over != nil {
			t.Fatalf("over with a call at the gate: %+v", e.Over)
		}
		stuck.Store(false)
		pass(2 * time.Minute)
		r.succeed(r.wantQueued(c, 0))
		pass(2 * time.Minute)
		if e := r.run(); e.Over == nil || e.Over.Calls != 1 {
			t.Fatalf("%+v", e)
		}
	})
}

func TestTheDeadlineOfARunEndsWhatHasNotEnded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{Deadline: time.Now().Add(time.Hour)})
		a, b := r.accept(), r.accept()
		r.succeed(a)
		pass(time.Hour + time.Minute)
		r.wantResult(a, messages.Succeeded, "")
		r.wantResult(b, messages.Expired, messages.CodeDeadline)
		e := r.run()
		if e.Ended == nil || e.Ended.Status != messages.Expired || e.Over == nil || e.Over.Calls != 2 {
			t.Fatalf("%+v", e)
		}
		if ref := r.refusal(); ref.Code != messages.CodeRunIsOver {
			t.Errorf("%+v", ref)
		}
	})
}

// A run that was over in time is not ended by its deadline after all.
func TestTheDeadlineOfARunThatIsOverDoesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{Deadline: time.Now().Add(time.Hour)})
		r.succeed(r.accept())
		r.closeRun(1)
		pass(2 * time.Hour)
		if e := r.run(); e.Over == nil || e.Ended != nil {
			t.Fatalf("%+v", e)
		}
	})
}

// Who submits right after a declaration meets it everywhere, whatever the
// watches of other coordinators have seen.
func TestAChunkBringsWhatItsSenderKnowsOfRuns(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(func(cfg *coordination.Config) {
			b := cfg.Broker.(*memory.Broker)
			cfg.Broker = &hooked{Broker: b, before: func(memory.Op, string) error { return nil }, behind: messages.BucketRuns}
		})
		r.tool("t", messages.ReadOnly)
		entry := messages.RunEntry{Run: messages.NamedRun("r"), Created: time.Now(), Spec: &messages.RunSpec{Policy: json.RawMessage(`{"max_retries":0}`)}}
		rev := must(r.admin.Save(t.Context(), messages.BucketRuns, messages.RunKey(entry.Run), must(messages.EncodeRun(entry)), 0, 0))
		s := submission()
		if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}, Runs: rev}); len(reply.Refused) > 0 || reply.Error != "" {
			t.Fatalf("%+v", reply)
		}
		if c, ok := r.queued(entry.Run, s.Call); !ok || string(c.Policy) != `{"max_retries":0}` {
			t.Errorf("%v, policy %s", ok, c.Policy)
		}
	})
}

// The webhook of a run is told until it has taken it, with one id, and then no more.
func TestAWebhookIsToldUntilItTakesTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var ids []string
		var last messages.RunEntry
		r.coordinator(func(cfg *coordination.Config) {
			cfg.Notify = func(_ context.Context, address, id string, body []byte) error {
				if ids = append(ids, id); len(ids) < 3 {
					return errors.New("503")
				}
				last = must(messages.DecodeRun(body))
				return nil
			}
		})
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{Webhook: "https://ops.example.com/runs"})
		r.succeed(r.accept())
		r.closeRun(1)
		pass(time.Hour)
		if len(ids) != 3 || ids[0] == "" || ids[0] != ids[2] || last.Over == nil || last.Over.Calls != 1 {
			t.Fatalf("%q, %+v", ids, last)
		}
		if over := r.run().Over; over.Notified.IsZero() || over.NotifyError != "" {
			t.Errorf("%+v", over)
		}
		r.closeRun(1) // said again
		pass(time.Hour)
		if len(ids) != 3 {
			t.Errorf("told again: %q", ids)
		}
	})
}

func TestAWebhookThatNeverTakesItIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		n := 0
		r.coordinator(func(cfg *coordination.Config) {
			cfg.Notify = func(context.Context, string, string, []byte) error { n++; return errors.New("gone") }
		})
		r.tool("t", messages.ReadOnly)
		r.declared(messages.RunSpec{Webhook: "https://ops.example.com/runs"})
		r.closeRun(0)
		pass(24 * time.Hour)
		if over := r.run().Over; n != 12 || over == nil || over.NotifyError != "gone" || !over.Notified.IsZero() {
			t.Fatalf("%d attempts, %+v", n, over)
		}
		r.wantNoTriggers()
	})
}

func TestAWebhookIsRefusedWhereNoneIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		if reply := r.declare(messages.RunSpec{Webhook: "https://ops.example.com"}); reply.Code != messages.CodeBadRun || reply.Field != "webhook" {
			t.Errorf("%+v", reply)
		}
	})
}
