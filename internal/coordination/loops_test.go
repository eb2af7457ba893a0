package coordination_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/internal/metrics"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// detecting gives a coordinator the shipped policy.
func detecting(cfg *coordination.Config) { cfg.Policies = recovery.Document{} }

// repeat submits the same call again, and gives it as it stands in CALLS, or
// false when it was stopped.
func (r *rig) repeat(change ...func(*messages.Submission)) (messages.Call, bool) {
	r.t.Helper()
	s := submission(change...)
	if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}}); reply.Error != "" || len(reply.Refused) > 0 {
		r.t.Fatalf("%+v", reply)
	}
	run := messages.NamedRun(s.Run)
	if c, ok := r.queued(run, s.Call); ok {
		return c, true
	}
	return messages.Call{ID: s.Call, Run: run}, false
}

// until repeats the call, lets each end by end, and gives the first that was
// stopped and its ordinal from 1; 0 when most went through.
func (r *rig) until(most int, end func(messages.Call), change ...func(*messages.Submission)) (int, messages.Call) {
	r.t.Helper()
	for i := range most {
		c, ok := r.repeat(change...)
		if !ok {
			return i + 1, c
		}
		end(c)
		pass(time.Second)
	}
	return 0, messages.Call{}
}

func answer(text string) func(r *rig, c messages.Call) {
	return func(r *rig, c messages.Call) {
		r.put(r.names.EncodeResult(messages.Result{Call: c.ID, Run: c.Run, Tool: c.Tool, Status: messages.Succeeded, Attempts: 1, Ended: time.Now(), Output: messages.Text(text)}))
		r.done(c)
	}
}

const stoppedText = "dispatch refused before execution: loop detected: tool 't' was called 10 times with the same arguments within the last 50 calls of the run, and nothing changed"

func (r *rig) wantStopped(c messages.Call) {
	r.t.Helper()
	res := r.wantResult(c, messages.Failed, messages.CodeLoopDetected)
	if string(res.Output.Inline) != stoppedText || !res.IsError || res.Attempts != 0 {
		r.t.Errorf("%+v", res)
	}
	if hard := res.HardError(); hard == nil || hard.Kind != messages.HardLoopDetected {
		r.t.Errorf("the hard end is %v", hard)
	}
}

// The tenth equal call is refused and its run is over: what is queued of it is
// cancelled, and nothing more is accepted. The keys of the input may change
// places.
func TestS10_2_TheTenthEqualCallStopsTheRun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		registry := prometheus.NewRegistry()
		r.coordinator(detecting, func(cfg *coordination.Config) { cfg.Metrics = metrics.NewCoordinator(registry) })
		r.tool("t", messages.ReadOnly)
		other := r.accept(input(`{"a":2}`))
		forms := []string{`{"a":1,"b":[1.0]}`, `{ "b": [1], "a": 1 }`}
		end, i := answer("the same"), 0
		at, c := r.until(20, func(c messages.Call) { end(r, c) }, func(s *messages.Submission) { s.Input, i = []byte(forms[i%2]), i+1 })
		if at != 10 {
			t.Fatalf("call %d was stopped", at)
		}
		r.wantStopped(c)
		pass(time.Minute)
		r.wantResult(other, messages.Cancelled, messages.CodeRunEnded)
		reply := r.send(messages.Chunk{Calls: []messages.Submission{submission(input(`{"a":3}`))}})
		if len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeRunIsOver {
			t.Errorf("%+v", reply)
		}
		if got := counted(t, registry, "mulligan_coordinator_loops_total"); !cmp.Equal(got, map[string]float64{"warn": 7, "stop": 1}) {
			t.Errorf("counted %v", got)
		}
		r.wantNoTriggers()
	})
}

func counted(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	out := make(map[string]float64)
	for _, f := range must(registry.Gather()) {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return out
}

func TestS6_T9_TheTextOfTheLoopDetector(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(detecting)
		r.tool("t", messages.Unsafe)
		end := answer("the same")
		at, c := r.until(20, func(c messages.Call) { end(r, c) })
		if at != 10 {
			t.Fatalf("call %d was stopped", at)
		}
		r.wantStopped(c)
		if _, err := r.admin.Get(t.Context(), r.names.FailureSubject(c.Run, c.ID, 0)); !errors.Is(err, messages.ErrNotFound) {
			t.Errorf("there is a failure to be reflected on: %v", err)
		}
	})
}

// What says something new is polled and no loop; nor is what a policy exempts,
// what is spread too thin, or what names no run.
func TestS10_2_WhatIsNoLoop(t *testing.T) {
	n := 0
	for name, tc := range map[string]struct {
		policy string
		end    func(r *rig, c messages.Call)
		change func(*messages.Submission)
	}{
		"new answers":        {end: func(r *rig, c messages.Call) { n++; answer(fmt.Sprint("step ", n))(r, c) }},
		"exempt":             {policy: `{"tools":{"t":{"loop_stop":0,"loop_warn":0}}}`, end: answer("running")},
		"switched off":       {policy: `{"pool":{"loop_stop":0}}`, end: answer("running")},
		"the caller says so": {end: answer("running"), change: func(s *messages.Submission) { s.Policy = []byte(`{"loop_stop":0}`) }},
		"replays": {end: answer("running"), change: func(s *messages.Submission) {
			s.Labels = messages.Labels{messages.LabelReplayOf: messages.NewCallID()}
		}},
		"a file of equal calls": {end: func(*rig, messages.Call) {}}, // nobody has heard an answer
		"no run":                {end: answer("running"), change: func(s *messages.Submission) { s.Run = "" }},
		"a run each":            {end: answer("running"), change: func(s *messages.Submission) { n++; s.Run = fmt.Sprint("r", n) }},
		"every sixth": {end: answer("running"), change: func(s *messages.Submission) {
			if n++; n%6 != 0 {
				s.Input = fmt.Appendf(nil, `{"a":%d}`, n)
			}
		}},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			r.coordinator(detecting)
			r.tool("t", messages.ReadOnly)
			if tc.policy != "" {
				r.setPolicy(tc.policy)
			}
			for i := range 70 {
				s := submission(func(s *messages.Submission) {
					if tc.change != nil {
						tc.change(s)
					}
				})
				r.send(messages.Chunk{Calls: []messages.Submission{s}})
				run := messages.UnnamedRun(r.batch)
				if s.Run != "" {
					run = messages.NamedRun(s.Run)
				}
				c, ok := r.queued(run, s.Call)
				if !ok {
					t.Fatalf("%s: call %d is not queued", name, i+1)
				}
				tc.end(r, c)
			}
		})
	}
}

// Coordinators share the run: whoever takes the tenth in has heard of the
// others. The first is stopped half way, and takes nothing with it.
func TestS10_2_CoordinatorsCountTogether(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator(detecting)
		r.coordinator(detecting, func(*coordination.Config) {})
		r.tool("t", messages.ReadOnly)
		end := answer("the same")
		if at, _ := r.until(6, func(c messages.Call) { end(r, c) }); at != 0 {
			t.Fatalf("call %d was stopped", at)
		}
		if first.broker.Count(memory.OpTell, messages.PeerCalls) != 3 {
			t.Error("the first did not take every other call")
		}
		first.stop()
		at, c := r.until(20, func(c messages.Call) { end(r, c) })
		if at != 4 {
			t.Fatalf("call %d was stopped", 6+at)
		}
		r.wantStopped(c)
	})
}

// A call with its retries, or sent again, counts once; and what may run already
// is not refused by its repetition.
func TestS10_2_ACallCountsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(detecting)
		r.tool("t", messages.ReadOnly)
		var last messages.Submission
		for range 9 {
			last = submission()
			for _, again := range []bool{false, true, true} {
				if reply := r.send(messages.Chunk{Calls: []messages.Submission{last}, Repeat: again}); len(reply.Refused) > 0 {
					t.Fatalf("%+v", reply)
				}
			}
			c, _ := r.queued(messages.NamedRun("r"), last.Call)
			r.fail(c)
			r.decide(c, messages.Retry(0))
			pass(time.Second)
			c, ok := r.queued(c.Run, c.ID)
			if !ok || c.Dispatch != 1 {
				t.Fatalf("no second dispatch: %+v", c)
			}
			answer("the same")(r, c)
		}
		unsure := submission()
		r.send(messages.Chunk{Calls: []messages.Submission{unsure}, Repeat: true})
		if _, ok := r.queued(messages.NamedRun("r"), unsure.Call); !ok {
			t.Error("what may be a repetition was stopped")
		}
		if c, ok := r.repeat(); ok {
			t.Error("the next one was not stopped")
		} else {
			r.wantResult(c, messages.Failed, messages.CodeLoopDetected)
		}
	})
}

// What has not ended is not asked for with each call that equals it.
func TestALoopDetectorAsksSeldomForWhatGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator(detecting)
		r.tool("t", messages.ReadOnly)
		m.broker.ResetCounts()
		for range 40 {
			r.accept()
		}
		if got := m.broker.Count(memory.OpGet, ">"); got > 40 {
			t.Errorf("%d reads", got)
		}
	})
}

// While nothing is repeated, nothing is read and nothing written.
func TestALoopDetectorCostsNoRequestOfWhatIsNew(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator(detecting)
		r.tool("t", messages.ReadOnly)
		m.broker.ResetCounts()
		for i := range 20 {
			c := r.accept(input(fmt.Sprintf(`{"a":%d}`, i/2)))
			answer("the same")(r, c)
		}
		if got := m.broker.Count(memory.OpGet, ">"); got != 0 {
			t.Errorf("%d reads", got)
		}
	})
}
