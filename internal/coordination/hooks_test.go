package coordination_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/internal/metrics"
	"mulligan/pkg/messages"
)

const noLargePayments = `{"hooks":[{"name":"large","when":"tool == \"t\" && (input.amount ?? 0) > 1000","veto":"ask a human"}]}`

func amount(n int) func(*messages.Submission) { return input(fmt.Sprintf(`{"amount":%d}`, n)) }

func wantVeto(t *testing.T, res messages.Result, hook, reason string) {
	t.Helper()
	if res.Reason != fmt.Sprintf("vetoed by hook %q: %s", hook, reason) || !res.IsError {
		t.Errorf("%+v", res)
	}
}

// A vetoed call is accepted and has ended: it never comes near a queue, its
// input is kept, and the others of its chunk go on.
func TestS6_T7_AVetoAtAdmission(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		r.setPolicy(noLargePayments)
		good, bad := submission(amount(10)), submission(amount(5000))
		if reply := r.send(messages.Chunk{Calls: []messages.Submission{bad, good}}); reply.Error != "" || len(reply.Refused) > 0 {
			t.Fatalf("%+v", reply)
		}
		c := messages.Call{ID: bad.Call, Run: messages.NamedRun("r")}
		res := r.wantResult(c, messages.Failed, messages.CodeHookVeto)
		wantVeto(t, res, "large", "ask a human")
		if string(res.Output.Inline) != "ask a human" || res.Attempts != 0 || res.Tool != "t" {
			t.Errorf("%+v", res)
		}
		if _, queued := r.queued(c.Run, c.ID); queued {
			t.Error("it is in a queue")
		}
		if rec := r.record(c); rec == nil || rec.State != messages.Ended || string(rec.Input.Inline) != `{"amount":5000}` || rec.Call.Key != c.ID {
			t.Errorf("its input is not kept for a replay: %+v", rec)
		}
		if _, queued := r.queued(c.Run, good.Call); !queued {
			t.Error("the other call of the chunk is not queued")
		}
		if reply := r.send(messages.Chunk{Calls: []messages.Submission{bad}, Repeat: true}); len(reply.Refused) > 0 {
			t.Errorf("sent again: %+v", reply)
		}
		if again := r.wantResult(c, messages.Failed, messages.CodeHookVeto); !again.Ended.Equal(res.Ended) {
			t.Errorf("it ended twice: %+v", again)
		}
		r.wantNoTriggers()
	})
}

// What was accepted before a hook was set is not vetoed by sending it again.
func TestAHookEndsNoCallThatIsQueued(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		s := submission(amount(5000))
		r.send(messages.Chunk{Calls: []messages.Submission{s}})
		r.setPolicy(noLargePayments)
		if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}, Repeat: true}); len(reply.Refused) > 0 {
			t.Errorf("%+v", reply)
		}
		c := messages.Call{ID: s.Call, Run: messages.NamedRun("r")}
		if r.result(c) != nil {
			t.Error("it ended while it is queued")
		}
		r.wantQueued(c, 0)
	})
}

// Hooks see what would run next: the corrected input, the other tool, the next
// attempt. The text stays that of the attempt before.
func TestS6_T7_AVetoBeforeARetry(t *testing.T) {
	change := func(d *messages.Decision) {
		other := "u"
		d.Analysis.Correction = &messages.Correction{Type: messages.ToolChange, Description: "another tool", AlternativeTool: &other}
	}
	for name, tc := range map[string]struct {
		when   string
		decide func(*messages.Decision)
	}{
		"corrected input": {`tool == "t" && input.amount > 1000`, correction(`{"amount":5000}`)},
		"tool change":     {`tool == "u" && original_tool == "t"`, change},
		"same again":      {`attempt > 0 && dispatch == 1`, func(*messages.Decision) {}},
	} {
		for _, delay := range []time.Duration{0, time.Minute} { // at once, and from SCHEDULE
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", messages.Idempotent)
				r.tool("u", messages.Idempotent)
				r.setPolicy(fmt.Sprintf(`{"hooks":[{"name":"guard","when":%q,"veto":"not that"}]}`, tc.when))
				c := r.accept(amount(10))
				r.fail(c)
				r.decide(c, messages.Retry(delay), tc.decide)
				pass(2 * time.Minute)
				res := r.wantResult(c, messages.Failed, messages.CodeHookVeto)
				wantVeto(t, res, "guard", "not that")
				if string(res.Output.Inline) != "error of 0" || res.Attempts != 1 {
					t.Errorf("%s after %s: %+v", name, delay, res)
				}
				if _, queued := r.queued(c.Run, c.ID); queued {
					t.Errorf("%s: it was dispatched", name)
				}
				r.wantNoTriggers()
			})
		}
	}
}

// A human's word does not lift a veto.
func TestS6_T7_AVetoOfWhatAHumanApproved(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		c := r.accept(amount(10))
		r.fail(c)
		r.decide(c, messages.AskUser("may I?"), park, correction(`{"amount":5000}`))
		pass(time.Second)
		r.setPolicy(noLargePayments)
		r.put(must(messages.EncodeStory(r.names.AnswerSubject(c.Run, c.ID, 0), messages.Answer{Kind: messages.AnswerApprove, By: "ann", At: time.Now()})))
		pass(time.Second)
		wantVeto(t, r.wantResult(c, messages.Failed, messages.CodeHookVeto), "large", "ask a human")
	})
}

// An effect that may have happened stays in sight.
func TestS7_7_AVetoOfADispatchAfterAnAmbiguousOne(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		c := r.accept(amount(10))
		r.fail(c, ambiguous)
		r.decide(c, messages.Retry(0), park)
		pass(time.Second)
		r.setPolicy(`{"hooks":[{"name":"guard","when":"attempt > 0","veto":"not twice"}]}`)
		r.put(must(messages.EncodeStory(r.names.AnswerSubject(c.Run, c.ID, 0), messages.Answer{Kind: messages.AnswerRetry, By: "ann", At: time.Now()})))
		pass(time.Second)
		if res := r.wantResult(c, messages.StatusUnknown, messages.CodeAmbiguous); !strings.Contains(res.Reason, `vetoed by hook "guard": not twice`) {
			t.Errorf("%+v", res)
		}
	})
}

// A change of the document holds from when the watch brings it, for all
// coordinators; one that cannot be used changes nothing.
func TestHooksAreLive(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		ended := func(want bool) {
			t.Helper()
			if c := r.give(amount(5000)); (r.result(c) != nil) != want {
				t.Errorf("vetoed %v, want %v", !want, want)
			}
		}
		ended(false)
		r.setPolicy(noLargePayments)
		ended(true)
		if reply := r.policy(`{"hooks":[{"name":"a","when":"tol == 1","veto":"no"}]}`, 0); !strings.Contains(reply.Error, "hooks: hook 1 (a): when") ||
			!strings.Contains(reply.Error, "unknown name tol") {
			t.Errorf("%+v", reply)
		}
		ended(true)
		r.setPolicy(strings.Replace(noLargePayments, "1000", "9000", 1))
		ended(false)
		r.setPolicy(`{"hooks":[{"name":"all","when":"true","veto":"no"}]}`)
		ended(true)
		r.setPolicy(`null`)
		ended(false)
	})
}

// Inputs and tasks that are kept apart are read for hooks that look into them,
// at admission and later. What is too large to look into is vetoed.
func TestS6_T7_HooksReadWhatIsKeptApart(t *testing.T) {
	large := func(n int) func(*messages.Submission) {
		return input(`{"x":"` + strings.Repeat("x", n) + `","amount":5}`)
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		r.setPolicy(`{"hooks":[{"name":"in","when":"dispatch == 1 && input.amount == 5","veto":"seen"},
			{"name":"task","when":"task endsWith \"forbidden\"","veto":"a task"},
			{"name":"look","when":"size > 1000000 && input.amount == 5","veto":"never"}]}`)
		c := r.accept(large(200_000))
		if c.Input.Ref == nil {
			t.Fatal("the input is not kept apart")
		}
		r.failAndDecide(c, messages.Retry(0))
		pass(time.Second)
		wantVeto(t, r.wantResult(c, messages.Failed, messages.CodeHookVeto), "in", "seen")

		task := func(s *messages.Submission) { s.Task = strings.Repeat("long ", 2000) + "forbidden" }
		wantVeto(t, r.wantResult(r.give(task), messages.Failed, messages.CodeHookVeto), "task", "a task")

		big := submission(func(s *messages.Submission) {
			ref := must(r.admin.PutPayload(t.Context(), []byte(`{"amount":5,"x":"`+strings.Repeat("x", 1<<20)+`"}`)))
			s.Input, s.Payload = nil, &ref
		})
		r.send(messages.Chunk{Calls: []messages.Submission{big}})
		res := r.wantResult(messages.Call{ID: big.Call, Run: messages.NamedRun("r")}, messages.Failed, messages.CodeHookVeto)
		if !strings.Contains(string(res.Output.Inline), `hook "look" could not say whether it may: the input is 1048`) {
			t.Errorf("%+v", res)
		}
	})
}

// An input that has expired cannot be looked into: nothing goes out.
func TestS6_T7_AnInputThatIsGoneIsVetoed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		r.setPolicy(`{"hooks":[{"name":"in","when":"dispatch == 1 && input.amount == 5","veto":"seen"}]}`)
		c := r.accept()
		c.Input = messages.Body{Ref: &messages.PayloadRef{Digest: strings.Repeat("0", 64), Size: 200_000, Chunks: 1}}
		r.failAndDecide(c, messages.Retry(0))
		pass(time.Second)
		if res := r.wantResult(c, messages.Failed, messages.CodeHookVeto); !strings.Contains(res.Reason, "not stored any more") {
			t.Errorf("%+v", res)
		}
	})
}

// A broker that fails a hook's question lets nothing out, and nothing end.
func TestAQuestionThatFailsIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept(func(s *messages.Submission) { s.Task = strings.Repeat("long ", 2000) })
		r.setPolicy(`{"hooks":[{"name":"task","when":"task contains \"forbidden\"","veto":"a task"}]}`)
		m.broker.Fail(memory.OpGet, r.names.PayloadSubject(c.TaskRef.Digest, 0), -1, errors.New("no answer"))
		r.failAndDecide(c, messages.Retry(0))
		pass(5 * time.Second)
		if _, queued := r.queued(c.Run, c.ID); queued || r.result(c) != nil {
			t.Error("it went out, or ended")
		}
		m.broker.Heal()
		pass(time.Minute)
		r.wantQueued(c, 1)
	})
}

// counts are those of counters with one label.
func counts(t *testing.T, reg *prometheus.Registry, names ...string) string {
	t.Helper()
	var out []string
	for _, f := range must(reg.Gather()) {
		for _, m := range f.GetMetric() {
			if slices.Contains(names, f.GetName()) {
				out = append(out, fmt.Sprintf("%s %v", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()))
			}
		}
	}
	return strings.Join(out, ", ")
}

// What coordinators store of attempts is shown to notes, and vetoes are counted.
func TestNotesSeeWhatCoordinatorsStore(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		reg := prometheus.NewRegistry()
		var log strings.Builder
		r.coordinator(func(cfg *coordination.Config) {
			cfg.Metrics, cfg.Log = metrics.NewCoordinator(reg), slog.New(slog.NewTextHandler(&log, nil))
		})
		r.tool("t", messages.Idempotent, func(s *messages.ToolSpec) { s.Schema = []byte(`{"type":"object","required":["amount"]}`) })
		r.setPolicy(`{"hooks":[{"name":"bad","when":"code == \"invalid_arguments\" && not executed","note":"arguments"},
			{"name":"odd","when":"input.x > 3","note":"undecided"},{"name":"no","when":"size > 20","veto":"too long"}]}`)
		r.give(input(`{}`))
		r.give(input(`{"amount":1}`))
		r.give(input(`{"amount":1,"and":"a lot more of it"}`))
		synctest.Wait()
		if got := counts(t, reg, "mulligan_coordinator_notes_total", "mulligan_coordinator_vetoes_total"); got != "bad 1, no 1" {
			t.Error(got)
		}
		for _, line := range []string{`"hook: arguments"`, "a note cannot say whether it is for an attempt", "a hook vetoed a call"} {
			if strings.Count(log.String(), line) != 1 {
				t.Errorf("the log does not say %s once:\n%s", line, log.String())
			}
		}
	})
}

func TestHooksOfTheConfigurationAreChecked(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		cfg := r.config("c")
		cfg.Policies.Hooks = append(cfg.Policies.Hooks, []byte(`{"name":"a","when":"true"}`))
		if _, err := coordination.New(cfg); err == nil || !strings.Contains(err.Error(), "hook 1 (a): veto, note: neither is set") {
			t.Error(err)
		}
	})
}
