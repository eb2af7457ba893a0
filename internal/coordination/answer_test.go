package coordination_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// say is an answer to the question of a dispatch, as a human's client gives it.
func say(c messages.Call, kind messages.AnswerKind, by string) messages.AnswerRequest {
	return messages.AnswerRequest{Run: c.Run, Call: c.ID, Dispatch: c.Dispatch, Kind: kind, By: by, Token: uuid.NewString()}
}

// answer asks until somebody replies that it is stored or why it is not, with
// the same token each time.
func (r *rig) answer(req messages.AnswerRequest) messages.AnswerReply {
	r.t.Helper()
	for range 20 {
		raw, err := r.admin.Request(r.t.Context(), messages.EndpointAnswer, must(messages.EncodeService(req)))
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, messages.ErrNoResponder) {
			r.tick(time.Second)
			continue
		}
		if err != nil {
			r.t.Fatal(err)
		}
		synctest.Wait()
		reply := must(messages.DecodeService[messages.AnswerReply](raw))
		if reply.Code != messages.CodeNotStored {
			return reply
		}
		r.tick(time.Second)
	}
	r.t.Fatal("nobody replies")
	return messages.AnswerReply{}
}

func (r *rig) wantAnswered(req messages.AnswerRequest) {
	r.t.Helper()
	if reply := r.answer(req); reply.Error != "" {
		r.t.Fatalf("%s was refused: %s (%s)", req.Kind, reply.Error, reply.Code)
	}
}

func (r *rig) wantRefused(req messages.AnswerRequest, code messages.Code, says string) messages.AnswerReply {
	r.t.Helper()
	reply := r.answer(req)
	if reply.Code != code || !strings.Contains(reply.Error, says) {
		r.t.Fatalf("%s: reply %q (%s), want %q (%s)", req.Kind, reply.Error, reply.Code, says, code)
	}
	return reply
}

// parks fails a dispatch and has a human asked about it.
func (r *rig) parks(c messages.Call, change ...func(*messages.Decision)) {
	r.t.Helper()
	r.fail(c)
	r.decide(c, messages.AskUser("may it be?"), append(change, park)...)
	synctest.Wait()
	if rec := r.record(c); rec == nil || rec.State != messages.Parked || rec.N != c.Dispatch {
		r.t.Fatalf("not parked at %d: %+v", c.Dispatch, rec)
	}
}

// needsA is the schema of a tool that takes one integer.
func needsA(s *messages.ToolSpec) {
	s.Schema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"text":{"type":"string"}},"required":["a"],"additionalProperties":false}`)
}

func TestS5_3_TheFirstAnswerWinsAndTheSecondIsToldSo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator(func(cfg *coordination.Config) { cfg.AnswerBy = time.Minute })
		r.tool("t", messages.Unsafe)
		c := r.accept()
		r.parks(c, correction(`{"a":2}`))
		r.wantNoTriggers()
		if m.Busy() != 0 {
			t.Fatal("a trigger is held for a parked call")
		}
		first := say(c, messages.AnswerApprove, "anna")
		first.Reason = "looks right"
		r.wantAnswered(first)
		if c1 := r.wantQueued(c, 1); string(c1.Input.Inline) != `{"a":2}` || c1.RecoveredBy != "approve by anna" || c1.Key == c.Key {
			t.Fatalf("dispatch 1: %+v", c1)
		}
		reply := r.wantRefused(say(c, messages.AnswerFail, "bob"), messages.CodeAnswered, "already answered: approve by anna at ")
		if reply.First == nil || reply.First.By != "anna" || !strings.HasSuffix(reply.Error, ": looks right") {
			t.Fatalf("reply %+v", reply)
		}
		r.wantAnswered(first) // sent again: it finds itself
		var late []messages.Late
		err := r.admin.List(t.Context(), messages.StreamRecovery, []string{r.names.Prefix() + ".late.>"}, func(s messages.Stored) bool {
			late = append(late, must(messages.DecodeStory[messages.Late](s.Body)))
			return true
		})
		if err != nil || len(late) != 1 || late[0].Answer == nil || late[0].Answer.By != "bob" {
			t.Fatalf("who came too late: %+v, %v", late, err)
		}
		r.succeed(r.wantQueued(c, 1))
		pass(2 * time.Minute) // no schedule of the answer-by is left that would end it otherwise
		r.wantResult(c, messages.Succeeded, "")
		r.wantNoTriggers()
	})
}

func TestS5_3_AnEditIsHeldToTheSchema(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe, needsA)
		c := r.accept()
		r.parks(c)
		edit := func(input messages.Body) messages.AnswerRequest {
			req := say(c, messages.AnswerEdit, "anna")
			req.Input = &input
			return req
		}
		r.wantRefused(edit(messages.Text(`[1]`)), messages.CodeInvalidArguments, "not a JSON object")
		r.wantRefused(edit(messages.Text(`{"a":"1"}`)), messages.CodeInvalidArguments, "the edited input does not fit")
		gone := messages.PayloadRef{Digest: strings.Repeat("a", 64), Size: 5, Chunks: 1}
		r.wantRefused(edit(messages.Body{Ref: &gone}), messages.CodeBadCall, "is not stored; upload it first")
		r.wantRefused(say(c, messages.AnswerApprove, "anna"), messages.CodeBadCall, "nothing is proposed that could be approved; answer one of edit, retry, skip, fail")
		if r.record(c).State != messages.Parked {
			t.Fatal("a refused answer changed the call")
		}
		large := `{"a":7,"text":"` + strings.Repeat("x", messages.MaxInline) + `"}`
		r.wantAnswered(edit(messages.Text(large)))
		c1 := r.wantQueued(c, 1)
		if c1.Input.Ref == nil || string(must(r.admin.GetPayload(t.Context(), *c1.Input.Ref))) != large {
			t.Fatalf("dispatch 1 has input %+v", c1.Input)
		}
	})
}

func TestS5_3_AnApprovalIsHeldToTheToolAsItIsNow(t *testing.T) {
	for _, c := range []struct{ name, fix, says string }{
		{"a proposal that breaks the schema", `{"a":"x"}`, "does not fit the schema"},
		{"advice", ``, "(escalate) changes nothing by itself; do it and answer retry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", messages.Unsafe, needsA)
				call := r.accept()
				r.parks(call, func(d *messages.Decision) {
					d.Analysis.Correction = &messages.Correction{Type: messages.Escalate, Description: "ask the owner"}
					if c.fix != "" {
						correction(c.fix)(d)
					}
				})
				if reply := r.answer(say(call, messages.AnswerApprove, "anna")); !strings.Contains(reply.Error, c.says) {
					t.Fatalf("reply %+v", reply)
				}
				r.wantAnswered(say(call, messages.AnswerRetry, "anna"))
				if c1 := r.wantQueued(call, 1); string(c1.Input.Inline) != `{"a":1}` || c1.Key != call.Key {
					t.Fatalf("dispatch 1: %+v", c1)
				}
			})
		})
	}
}

func TestS4_7_WithSixSpentTheEndpointOffersSkipAndFailOnly(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		for n := range messages.MaxRetries {
			r.failAndDecide(r.wantQueued(c, n), messages.Retry(0))
			synctest.Wait()
		}
		last := r.wantQueued(c, messages.MaxRetries)
		r.parks(last, correction(`{"a":2}`))
		edit := say(last, messages.AnswerEdit, "anna")
		edit.Input = new(messages.Text(`{"a":3}`))
		for _, req := range []messages.AnswerRequest{say(last, messages.AnswerApprove, "anna"), say(last, messages.AnswerRetry, "anna"), edit} {
			r.wantRefused(req, messages.CodeExhausted, "all 6 attempts are spent, and no answer lifts that; answer skip or fail")
		}
		r.wantAnswered(say(last, messages.AnswerSkip, "anna"))
		if res := r.wantResult(c, messages.Failed, messages.CodeDenied); res.Attempts != 6 || string(res.Output.Inline) != "error of 5" {
			t.Fatalf("result %+v", res)
		}
	})
}

func TestAnAnswerToNoQuestionIsToldWhatTheCallIs(t *testing.T) {
	for _, c := range []struct {
		name  string
		bring func(r *rig, c *messages.Call)
		code  messages.Code
		says  string
	}{
		{"unknown", func(_ *rig, c *messages.Call) { c.ID = idAt(time.Now()) }, messages.CodeNotFound, "is known in run 'r'"},
		{"queued", func(*rig, *messages.Call) {}, messages.CodeNotParked, "it is queued, runs, or its failure is looked at"},
		{"waiting", func(r *rig, c *messages.Call) { r.failAndDecide(*c, messages.Retry(time.Hour)) }, messages.CodeNotParked, "it waits until "},
		{"dispatched again", func(r *rig, c *messages.Call) { r.failAndDecide(*c, messages.Retry(0)) }, messages.CodeNotParked, "dispatch 1 is queued or runs"},
		{"ended", func(r *rig, c *messages.Call) { r.failAndDecide(*c, messages.Fail("no use")) }, messages.CodeNotParked, "has ended: failed (recovery_gave_up): no use"},
		{"another question", func(r *rig, c *messages.Call) { r.parks(*c); c.Dispatch = 3 }, messages.CodeNotParked, "asks about dispatch 0 by now, and this is an answer to dispatch 3"},
		{"closed by the clock", func(r *rig, c *messages.Call) { r.parks(*c); pass(25 * time.Hour) }, messages.CodeAnswered, "already answered: nobody was in time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", messages.Idempotent)
				call := r.accept()
				c.bring(r, &call)
				synctest.Wait()
				r.wantRefused(say(call, messages.AnswerRetry, "anna"), c.code, c.says)
			})
		})
	}
}

func TestABadAnswerIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		for body, code := range map[string]messages.Code{
			`{`: messages.CodeBadCall, `{"version":"2"}`: messages.CodeVersion,
			`{"version":"1","run":"=r","call":"` + r.batch + `","dispatch":0,"kind":"answer_by","by":"x"}`: messages.CodeBadCall,
			`{"version":"1","run":"=r","call":"` + r.batch + `","dispatch":0,"kind":"edit","by":"x"}`:      messages.CodeBadCall,
			`{"version":"1","run":"=r","call":"` + r.batch + `","dispatch":0,"kind":"retry"}`:              messages.CodeBadCall,
		} {
			raw := must(r.admin.Request(t.Context(), messages.EndpointAnswer, []byte(body)))
			if reply := must(messages.DecodeService[messages.AnswerReply](raw)); reply.Code != code || reply.Error == "" {
				t.Errorf("%s: %+v", body, reply)
			}
		}
	})
}

func TestS5_3_TheAnswerByOfAPolicyMayBeLongerThanThePools(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy time.Duration
		waits  time.Duration
	}{
		{"the pool's own", 0, 4 * time.Minute},
		{"shorter", time.Minute, time.Minute},
		{"longer", 7 * time.Minute, 7 * time.Minute},
		{"longer than the limit", 1000 * time.Hour, 9 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator(func(cfg *coordination.Config) { cfg.AnswerBy, cfg.AnswerByLimit = 4*time.Minute, 9*time.Minute })
				r.tool("t", messages.Idempotent)
				call := r.accept()
				r.parks(call, func(d *messages.Decision) { d.AnswerBy = messages.Millis(c.policy) })
				pass(c.waits - time.Second)
				if res := r.result(call); res != nil {
					t.Fatalf("ended early: %+v", res)
				}
				pass(2 * time.Second)
				res := r.wantResult(call, messages.Failed, messages.CodeAnswerBy)
				if res.Attempts != 1 || string(res.Output.Inline) != "error of 0" || !strings.Contains(res.Reason, "may it be?") {
					t.Fatalf("result %+v", res)
				}
				r.wantNoTriggers()
			})
		})
	}
}

func TestS7_7_AnAmbiguousCallThatNobodyAnswersEndsUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		silent, told := r.accept(), r.accept(input(`{"a":2}`))
		for _, c := range []messages.Call{silent, told} {
			r.fail(c, ambiguous)
			r.decide(c, messages.Retry(0), park)
		}
		synctest.Wait()
		r.wantAnswered(say(told, messages.AnswerFail, "anna"))
		if res := r.wantResult(told, messages.Failed, messages.CodeDenied); !strings.Contains(res.Reason, "may have happened in dispatch 0") {
			t.Fatalf("a human's word hides the ambiguity: %q", res.Reason)
		}
		pass(25 * time.Hour)
		r.wantResult(silent, messages.StatusUnknown, messages.CodeAmbiguous)
	})
}

func TestS5_4_ADenialIsNotAskedAgainInItsRun(t *testing.T) {
	for _, kind := range []messages.AnswerKind{messages.AnswerSkip, messages.AnswerFail} {
		t.Run(string(kind), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", messages.Unsafe)
				r.tool("u", messages.Unsafe)
				c := r.accept()
				r.parks(c)
				no := say(c, kind, "anna")
				no.Reason = "wrong customer"
				r.wantAnswered(no)
				r.wantResult(c, messages.Failed, messages.CodeDenied)

				again := r.accept(input(`{ "a": 1.0 }`)) // the same, written otherwise
				r.fail(again)
				r.decide(again, messages.AskUser("may it be?"), park)
				synctest.Wait()
				res := r.wantResult(again, messages.Failed, messages.CodeDenied)
				if !strings.Contains(res.Reason, "anna, of call "+c.ID+": wrong customer") || string(res.Output.Inline) != "error of 0" || res.Attempts != 1 {
					t.Fatalf("result %+v", res)
				}
				// What is another call, or in another run, is asked about.
				r.parks(r.accept(input(`{"a":2}`)))
				r.parks(r.accept(func(s *messages.Submission) { s.Tool = "u" }))
				r.parks(r.accept(inRun("r2")))
				r.parks(r.accept(inRun("")))
				// And one that a machine may retry is retried: it is not asked.
				retried := r.accept()
				r.fail(retried)
				r.decide(retried, messages.Retry(0), park)
				synctest.Wait()
				r.wantQueued(retried, 1)
			})
		})
	}
}

func TestS5_4_ADenialWithoutARunConcernsNoOtherCall(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		c := r.accept(inRun(""))
		r.parks(c)
		r.wantAnswered(say(c, messages.AnswerFail, "anna"))
		r.wantResult(c, messages.Failed, messages.CodeDenied)
		r.parks(r.accept(inRun("")))
		if entries := must(r.admin.Entries(t.Context(), messages.BucketControl, "denied.>")); len(entries) != 0 {
			t.Fatalf("%d denials are kept", len(entries))
		}
	})
}

func TestAnAnswerThatRetriesIsNoDenial(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		c := r.accept()
		r.parks(c)
		r.wantAnswered(say(c, messages.AnswerRetry, "anna"))
		r.parks(r.wantQueued(c, 1))
		r.parks(r.accept())
	})
}

// TestTwoAnswersAtOnceApplyOnce gives two contrary answers at the same time to
// two coordinators, over many interleavings of their operations. One is told
// yes, and that one is done.
func TestTwoAnswersAtOnceApplyOnce(t *testing.T) {
	won := make(map[messages.AnswerKind]int)
	for seed := range uint64(300) {
		bubble(t, func(t *testing.T, r *rig) {
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			slow := hook(func(_ *memory.Broker, _ memory.Op, on string) error {
				if strings.Contains(on, "answer") || strings.Contains(on, "ATTEMPTS") || strings.Contains(on, "result") {
					mu.Lock()
					d := time.Duration(random.IntN(20)) * time.Millisecond
					mu.Unlock()
					<-time.After(d)
				}
				return nil
			})
			r.coordinator(slow)
			r.coordinator(slow, func(*coordination.Config) {})
			r.tool("t", messages.Unsafe)
			c := r.accept()
			r.fail(c)
			r.decide(c, messages.AskUser("may it be?"), park, correction(`{"a":2}`))
			pass(time.Second)
			kinds := []messages.AnswerKind{messages.AnswerApprove, messages.AnswerFail}
			replies := make([]messages.AnswerReply, len(kinds))
			var both sync.WaitGroup
			for i, k := range kinds {
				both.Go(func() {
					raw := must(r.admin.Request(t.Context(), messages.EndpointAnswer, must(messages.EncodeService(say(c, k, "human "+string(k))))))
					replies[i] = must(messages.DecodeService[messages.AnswerReply](raw))
				})
			}
			both.Wait()
			pass(time.Second)
			yes := slices.IndexFunc(replies, func(x messages.AnswerReply) bool { return x.Error == "" })
			if yes < 0 || replies[1-yes].Code != messages.CodeAnswered || replies[1-yes].First == nil || replies[1-yes].First.Kind != kinds[yes] {
				t.Fatalf("seed %d: replies %+v", seed, replies)
			}
			won[kinds[yes]]++
			if kinds[yes] == messages.AnswerApprove {
				r.wantQueued(c, 1)
			} else {
				r.wantResult(c, messages.Failed, messages.CodeDenied)
			}
			r.wantNoTriggers()
		})
	}
	if won[messages.AnswerApprove] == 0 || won[messages.AnswerFail] == 0 {
		t.Errorf("the interleavings are one-sided: %v", won)
	}
}

// TestEveryStepOfAnAnswerMayFail plays a call that is asked about twice, and
// one that the second answer concerns too, with each operation of the first
// coordinator going wrong in turn.
func TestEveryStepOfAnAnswerMayFail(t *testing.T) {
	for _, f := range faultsOfOne {
		t.Run(f.name, func(t *testing.T) {
			for at := int64(1); ; at++ {
				if !answersWithFault(t, f, at) {
					if at < 30 {
						t.Fatalf("the story took only %d operations", at-1)
					}
					t.Logf("%d operations", at-1)
					return
				}
			}
		})
	}
}

func answersWithFault(t *testing.T, f fault, at int64) bool {
	name := fmt.Sprintf("operation %d", at)
	var seen atomic.Int64
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator(hook(func(b *memory.Broker, op memory.Op, on string) error {
			if strings.Contains(on, ".offer.") || strings.Contains(on, "TOOLS") || strings.Contains(on, ".svc.") || seen.Add(1) != at {
				return nil
			}
			if f.hit != nil {
				f.hit(b, op, on)
			}
			return f.err
		}))
		r.tool("t", messages.Unsafe)
		c, same := r.accept(), r.accept()
		r.relief = func() bool { return seen.Load() >= at }
		r.asked(c)
		r.wantAnswered(say(c, messages.AnswerRetry, "anna"))
		c1 := r.await(c, 1)
		r.asked(c1)
		r.wantAnswered(say(c1, messages.AnswerFail, "anna"))
		r.ends(c)
		r.fail(same)
		r.decide(same, messages.AskUser("may it be?"), park)
		r.ends(same)
		first.broker.Thaw()
		pass(time.Minute)

		if res := r.result(c); res.Code != messages.CodeDenied || res.Attempts != 2 || res.Dispatch != 1 || string(res.Output.Inline) != "error of 1" {
			t.Fatalf("%s: result %+v", name, res)
		}
		if res := r.result(same); res.Code != messages.CodeDenied || !strings.Contains(res.Reason, "not asked again") {
			t.Fatalf("%s: the same call ended %+v", name, res)
		}
		if q, ok := r.queued(c.Run, c.ID); ok && q.Dispatch > 1 {
			t.Fatalf("%s: dispatch %d is queued after the end", name, q.Dispatch)
		}
		r.wantNoTriggers()
	})
	return seen.Load() >= at
}

// asked fails a dispatch and waits until the question stands, also over the
// end of a coordinator.
func (r *rig) asked(c messages.Call) {
	r.t.Helper()
	r.fail(c)
	r.decide(c, messages.AskUser("may it be?"), park)
	for range 200 {
		if rec := r.record(c); rec != nil && rec.State == messages.Parked && rec.N == c.Dispatch {
			return
		}
		r.tick(time.Second)
	}
	r.t.Fatalf("never parked: %+v", r.record(c))
}

func (r *rig) ends(c messages.Call) {
	r.t.Helper()
	for range 200 {
		if r.result(c) != nil {
			return
		}
		r.tick(time.Second)
	}
	r.t.Fatalf("no end: %+v", r.record(c))
}

func TestAPolicyOfACallReachesIt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		c := r.accept(func(s *messages.Submission) { s.Policy = json.RawMessage(`{"ask_user":"park"}`) })
		if string(c.Policy) != `{"ask_user":"park"}` {
			t.Fatalf("policy %s", c.Policy)
		}
		for _, bad := range []string{`{"ask_user":"maybe"}`, `{"effect":"read_only"}`, `{"ask":"park"}`} {
			reply := r.send(messages.Chunk{Calls: []messages.Submission{submission(func(s *messages.Submission) { s.Policy = json.RawMessage(bad) })}})
			if len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeBadCall {
				t.Errorf("%s: %+v", bad, reply)
			}
		}
	})
}
