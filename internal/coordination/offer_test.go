package coordination_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

func spec(name string, change ...func(*messages.ToolSpec)) messages.ToolSpec {
	s := messages.ToolSpec{Name: name, Queue: "q", Effect: messages.Idempotent, Schema: json.RawMessage(`{"type":"object"}`)}
	for _, f := range change {
		f(&s)
	}
	return s
}

func offerOf(worker string, tools ...messages.ToolSpec) messages.OfferRequest {
	return messages.OfferRequest{Worker: worker, Tools: tools}
}

// registered is the entry of a tool in TOOLS.
func (r *rig) registered(name string) messages.Tool {
	r.t.Helper()
	e := must(r.admin.Load(r.t.Context(), messages.BucketTools, messages.ToolKey(name)))
	var tool messages.Tool
	if err := json.Unmarshal(e.Value, &tool); err != nil {
		r.t.Fatal(err)
	}
	return tool
}

// submitTo submits a call of a tool and gives the code of its refusal.
func (r *rig) submitTo(tool string) messages.Code {
	r.t.Helper()
	reply := r.send(messages.Chunk{Calls: []messages.Submission{submission(func(s *messages.Submission) { s.Tool = tool })}})
	if len(reply.Refused) == 0 {
		return ""
	}
	return reply.Refused[0].Code
}

func TestOfferMakesQueueAndTool(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		reply := r.offer(offerOf("w", spec("a"), spec("b", func(s *messages.ToolSpec) { s.Queue = "" })))
		if reply.Error != "" || reply.Lease.Duration() != 30*time.Second {
			t.Fatalf("reply %+v", reply)
		}
		for _, queue := range []string{"q", "default"} {
			for _, lane := range messages.Lanes() {
				if _, _, err := r.admin.Backlog(t.Context(), messages.StreamCalls, r.names.LaneConsumer(queue, lane)); err != nil {
					t.Error(err)
				}
			}
		}
		if got := r.registered("b"); got.Spec.Queue != "default" || got.Withdrawn {
			t.Fatalf("tool %+v", got)
		}
		if c := r.submitTo("a"); c != "" {
			t.Fatalf("refused: %s", c)
		}
	})
}

func TestOfferConflicts(t *testing.T) {
	otherQueue := func(s *messages.ToolSpec) { s.Queue = "q2" }
	otherSchema := func(s *messages.ToolSpec) {
		s.Schema = json.RawMessage(`{"type":"object","required":["a"]}`)
	}
	otherEffect := func(s *messages.ToolSpec) { s.Effect = messages.Unsafe }
	newVersion := func(s *messages.ToolSpec) { s.Version = "2" }
	for _, c := range []struct {
		name    string
		change  []func(*messages.ToolSpec)
		replace bool
		gone    bool // the first worker has withdrawn
		refused string
	}{
		{"the same", nil, false, false, ""},
		{"the same schema, printed otherwise", []func(*messages.ToolSpec){func(s *messages.ToolSpec) { s.Schema = json.RawMessage("{ \"type\" :\n\"object\" }") }}, false, false, ""},
		{"another description", []func(*messages.ToolSpec){func(s *messages.ToolSpec) { s.Description = "new" }}, false, false, ""},
		{"another queue", []func(*messages.ToolSpec){otherQueue}, false, false, "belongs to one queue"},
		{"another queue, replacing", []func(*messages.ToolSpec){otherQueue}, true, false, "belongs to one queue"},
		{"another queue after the last worker went", []func(*messages.ToolSpec){otherQueue}, false, true, "belongs to one queue"},
		{"another queue after the last worker went, replacing", []func(*messages.ToolSpec){otherQueue}, true, true, ""},
		{"another schema", []func(*messages.ToolSpec){otherSchema}, false, false, "new version, or with replace"},
		{"another schema, replacing", []func(*messages.ToolSpec){otherSchema}, true, false, ""},
		{"another schema, new version", []func(*messages.ToolSpec){otherSchema, newVersion}, false, false, ""},
		{"another effect", []func(*messages.ToolSpec){otherEffect}, false, false, "new version, or with replace"},
		{"another effect, replacing", []func(*messages.ToolSpec){otherEffect}, true, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.offer(offerOf("w1", spec("a")))
				if c.gone {
					r.offer(messages.OfferRequest{Worker: "w1", Withdraw: true})
				}
				want := spec("a", c.change...)
				req := offerOf("w2", want)
				req.Replace = c.replace
				reply := r.offer(req)
				if c.refused == "" && reply.Error != "" || !strings.Contains(reply.Error, c.refused) {
					t.Fatalf("reply %+v, want %q", reply, c.refused)
				}
				if c.refused == "" {
					if got := r.registered("a"); got.Spec.Effect != want.Effect || got.Spec.Queue != want.Queue || got.Spec.Description != want.Description || got.Withdrawn {
						t.Fatalf("registered %+v", got)
					}
				}
			})
		})
	}
}

func TestBadOffers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		for text, req := range map[string]messages.OfferRequest{
			"names no tool":           offerOf("w"),
			"offered twice":           offerOf("w", spec("a"), spec("a")),
			"tool name is empty":      offerOf("w", spec("")),
			`tool "a": schema allows`: offerOf("w", spec("a", func(s *messages.ToolSpec) { s.Schema = json.RawMessage(`{"type":"string"}`) })),
			"references to other":     offerOf("w", spec("a", func(s *messages.ToolSpec) { s.Schema = json.RawMessage(`{"$ref":"https://example.com/x.json"}`) })),
		} {
			if reply := r.offer(req); !strings.Contains(reply.Error, text) {
				t.Errorf("reply %+v, want %q", reply, text)
			}
		}
	})
}

func TestRenewalChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		v1 := spec("a", func(s *messages.ToolSpec) { s.Version = "1" })
		v2 := spec("a", func(s *messages.ToolSpec) { s.Version, s.Effect = "2", messages.Unsafe })
		r.offer(offerOf("old", v1))
		r.offer(offerOf("new", v2))
		m.broker.ResetCounts()
		for range 3 { // both live through a deploy
			for _, o := range []messages.OfferRequest{offerOf("old", v1), offerOf("new", v2)} {
				if reply := r.offer(o); reply.Error != "" {
					t.Fatal(reply.Error)
				}
			}
		}
		if got := r.registered("a"); got.Spec.Version != "2" {
			t.Fatalf("an old worker's renewal brought back %+v", got)
		}
		if n := m.broker.Count(memory.OpSave, ">"); n != 0 {
			t.Fatalf("renewals wrote the registry %d times", n)
		}
	})
}

func TestLapsedOfferLeavesCallsWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.offer(offerOf("w", spec("t")))
		c := r.accept()
		pass(2 * time.Minute)
		r.wantQueued(c, 0)
		if code := r.submitTo("t"); code != "" {
			t.Fatalf("a tool whose offers are only late refuses calls: %s", code)
		}
	})
}

func TestS6_ToolServedByNobodyFailsItsQueuedCalls(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.offer(offerOf("w1", spec("t")))
		r.offer(offerOf("w2", spec("t")))
		r.offer(offerOf("w3", spec("order", func(s *messages.ToolSpec) { s.Queue = "other" })))
		stop := r.renewing(offerOf("w3", spec("order", func(s *messages.ToolSpec) { s.Queue = "other" })))
		defer stop()
		c := r.accept()
		r.offer(messages.OfferRequest{Worker: "w1", Withdraw: true})
		if r.registered("t").Withdrawn {
			t.Fatal("withdrawn while another offers it")
		}
		r.offer(messages.OfferRequest{Worker: "w2", Withdraw: true})
		if !r.registered("t").Withdrawn {
			t.Fatal("not withdrawn")
		}
		pass(20 * time.Second)
		r.wantQueued(c, 0) // a worker may come back from a deploy
		if code := r.submitTo("t"); code != "" {
			t.Fatalf("refused within the grace: %s", code)
		}
		pass(20 * time.Second)
		if code := r.submitTo("t"); code != messages.CodeUnknownTool {
			t.Fatalf("code %q", code)
		}
		f := must(messages.DecodeFailure(must(r.admin.Get(t.Context(), r.names.FailureSubject(c.Run, c.ID, 0))).Body))
		if f.Code != messages.CodeToolNotFound || f.Executed || f.Ambiguous || f.Error != "Tool not found: t. Available: order" {
			t.Fatalf("failure %+v", f)
		}
		if _, ok := r.queued(c.Run, c.ID); ok {
			t.Fatal("still queued")
		}
	})
}

// renewing keeps an offer alive until it is stopped.
func (r *rig) renewing(req messages.OfferRequest) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(10 * time.Second):
				_, _ = r.admin.Request(r.t.Context(), messages.EndpointOffer, must(messages.EncodeService(req)))
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// takenAndLost plays a worker that gets the call and dies; it gives the
// sequence of the message.
func (r *rig) takenAndLost(c messages.Call) uint64 {
	r.t.Helper()
	for _, d := range must(r.admin.Fetch(r.t.Context(), messages.StreamCalls, r.names.LaneConsumer("q", messages.LaneNormal), 10, 0)) {
		if strings.Contains(d.Subject, c.ID) {
			return d.Sequence
		}
	}
	r.t.Fatal("not delivered")
	return 0
}

// started plays a worker that wrote a start or mark at subject and died.
func (r *rig) started(subject string, s messages.Start) {
	r.t.Helper()
	s.Token, s.Worker = "x", "dead"
	r.put(must(messages.EncodeStory(subject, s)))
}

// drained is the failure of a call that stood in a queue when its tool was
// withdrawn; nil for none.
func (r *rig) drained(effect messages.Effect, before func(r *rig, c messages.Call)) (messages.Call, *messages.Failure) {
	r.t.Helper()
	r.coordinator(func(c *coordination.Config) { c.WithdrawGrace = -1 })
	r.offer(offerOf("w", spec("t", func(s *messages.ToolSpec) { s.Effect = effect })))
	c := r.accept()
	before(r, c)
	r.offer(messages.OfferRequest{Worker: "w", Withdraw: true})
	pass(2*lease + 10*time.Second)
	if _, ok := r.queued(c.Run, c.ID); ok {
		r.t.Fatal("still queued")
	}
	m, err := r.admin.Get(r.t.Context(), r.names.FailureSubject(c.Run, c.ID, c.Dispatch))
	if errors.Is(err, messages.ErrNotFound) {
		return c, nil
	}
	return c, new(must(messages.DecodeFailure(must(m, err).Body)))
}

func TestDrainFollowsTheStepsOfAWorker(t *testing.T) {
	for _, c := range []struct {
		name   string
		effect messages.Effect
		before func(r *rig, c messages.Call)
		code   messages.Code // of the failure
		mark   int
	}{
		{"first delivery", messages.Idempotent, func(*rig, messages.Call) {}, messages.CodeToolNotFound, 0},
		{"first delivery, unsafe", messages.Unsafe, func(*rig, messages.Call) {}, messages.CodeToolNotFound, 0},
		{"second delivery", messages.Idempotent, func(r *rig, c messages.Call) { r.takenAndLost(c) }, messages.CodeToolNotFound, 1},
		{"all marks taken", messages.Keyed, func(r *rig, c messages.Call) {
			r.takenAndLost(c)
			for k := range messages.MaxMarks {
				r.started(r.names.MarkSubject(c.Run, c.ID, 0, k+1), messages.Start{})
			}
		}, messages.CodeWorkerLost, 3},
		{"started, unsafe", messages.Unsafe, func(r *rig, c messages.Call) {
			r.started(r.names.StartSubject(c.Run, c.ID, 0), messages.Start{Sequence: r.takenAndLost(c)})
		}, messages.CodeWorkerLost, 0},
		{"a coordinator died after its tombstone", messages.Unsafe, func(r *rig, c messages.Call) {
			r.takenAndLost(c)
			r.started(r.names.StartSubject(c.Run, c.ID, 0), messages.Start{Tombstone: "tool_not_found: other words"})
		}, messages.CodeToolNotFound, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				_, f := r.drained(c.effect, c.before)
				if f == nil || f.Code != c.code || f.Mark != c.mark || f.Executed != (c.code != messages.CodeToolNotFound) || f.Ambiguous != (c.code == messages.CodeWorkerLost) {
					t.Fatalf("failure %+v", f)
				}
			})
		})
	}
}

// The ack of its worker was lost, and then the tool was withdrawn.
func TestP7_09_DrainLooksForAnOutcomeFirst(t *testing.T) {
	t.Run("result", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, f := r.drained(messages.Idempotent, func(r *rig, c messages.Call) {
				r.takenAndLost(c)
				r.put(r.names.EncodeResult(messages.Result{Call: c.ID, Run: c.Run, Tool: "t", Status: messages.Succeeded}))
			})
			if f != nil {
				t.Fatalf("a call that was done failed: %+v", f)
			}
			if _, err := r.admin.Get(t.Context(), r.names.SettledSubject(c.Run, c.ID, 0)); err != nil {
				t.Fatalf("not settled: %v", err)
			}
		})
	})
	t.Run("failure", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, f := r.drained(messages.Idempotent, func(r *rig, c messages.Call) {
				r.takenAndLost(c)
				r.put(must(r.names.EncodeFailure(messages.Failure{Call: c, Input: c.Input, Code: messages.CodeToolError, Executed: true})))
			})
			if f == nil || f.Code != messages.CodeToolError {
				t.Fatalf("failure %+v", f)
			}
			if _, err := r.admin.Get(t.Context(), r.names.MarkSubject(c.Run, c.ID, 0, 1)); !errors.Is(err, messages.ErrNotFound) {
				t.Fatalf("a dispatch that has failed was buried: %v", err)
			}
		})
	})
}

func TestP7_16_DrainLeavesADuplicateMessageToTheOneThatStarted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		_, f := r.drained(messages.Unsafe, func(r *rig, c messages.Call) {
			r.started(r.names.StartSubject(c.Run, c.ID, 0), messages.Start{Sequence: r.takenAndLost(c) + 1000})
		})
		if f != nil {
			t.Fatalf("failure %+v", f)
		}
	})
}

func TestDrainLeavesCallsOfLateTools(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(func(c *coordination.Config) { c.WithdrawGrace = -1 })
		r.offer(offerOf("w1", spec("gone")))
		r.offer(offerOf("w2", spec("t")))
		late := r.accept()
		r.offer(messages.OfferRequest{Worker: "w1", Withdraw: true})
		pass(5 * time.Minute)
		r.wantQueued(late, 0)
		_, unacked, err := r.admin.Backlog(t.Context(), messages.StreamCalls, r.names.LaneConsumer("q", messages.LaneNormal))
		if err != nil || unacked > 1 {
			t.Fatalf("%d held, %v", unacked, err)
		}
	})
}

func TestWithdrawnToolIsBackWithTheNextRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.offer(offerOf("w", spec("t")))
		tool := r.registered("t")
		tool.Withdrawn = true // by a coordinator that had not seen the offer
		if err := r.admin.Put(t.Context(), messages.BucketTools, messages.ToolKey("t"), must(json.Marshal(tool)), 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if code := r.submitTo("t"); code != "" {
			t.Fatalf("refused while it is offered: %s", code)
		}
		r.offer(offerOf("w", spec("t")))
		if r.registered("t").Withdrawn {
			t.Fatal("still withdrawn")
		}
	})
}

func TestOfferIsToldWhenTheRegistryCannotBeWritten(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		for _, op := range []memory.Op{memory.OpLoad, memory.OpSave, memory.OpPut, memory.OpEnsureQueue} {
			m.broker.Fail(op, ">", 1, fmt.Errorf("the broker is not there"))
			if reply := r.offer(offerOf("w", spec("t"))); !strings.Contains(reply.Error, "the broker is not there") {
				t.Errorf("%s: %+v", op, reply)
			}
		}
		if reply := r.offer(offerOf("w", spec("t"))); reply.Error != "" {
			t.Errorf("reply %+v", reply)
		}
	})
}

func TestWhatAnOfferNamesNoMoreIsWithdrawn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.offer(offerOf("w1", spec("kept"), spec("gone"), spec("shared")))
		r.offer(offerOf("w2", spec("shared")))
		if reply := r.offer(offerOf("w1", spec("kept"), spec("new"))); reply.Error != "" {
			t.Fatal(reply.Error)
		}
		for name, withdrawn := range map[string]bool{"kept": false, "new": false, "gone": true, "shared": false} {
			if got := r.registered(name).Withdrawn; got != withdrawn {
				t.Errorf("%s: withdrawn is %t", name, got)
			}
		}
	})
}
