package dispatch

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// scene is one failure and its decision, meeting a record at (n, dispatched).
type scene struct {
	rec      messages.Record
	failure  messages.Failure
	decision messages.Decision
	facts    Facts
	now      time.Time
}

func newScene(effect messages.Effect) *scene {
	w := newWorld(effect)
	s := &scene{now: epoch}
	s.rec = messages.Record{N: 1, State: messages.Dispatched, Call: w.call, Input: w.call.Input, Spent: 1, LastExecuted: 0}
	s.rec.Call.Dispatch, s.rec.Call.Attempt, s.rec.Call.Input = 1, 1, messages.Body{}
	s.failure = messages.Failure{Call: s.rec.Call, Input: s.rec.Input, Output: messages.Text("boom"), Code: messages.CodeToolError, Executed: true, Mark: 1, At: epoch}
	s.decision = messages.Decision{Dispatch: 1, By: "rules", Rule: "x", Guidance: "read the manual", MaxRetries: 3,
		Analysis: &messages.FailureAnalysis{IsRecoverable: true, RootCause: "why", Severity: messages.Medium}, Action: messages.Retry(0)}
	s.facts = Facts{Input: []byte(`{"a":1}`), Limits: w.limits, Claim: ClaimWon, Waited: true}
	return s
}

func (s *scene) correction(c messages.Correction) { s.decision.Analysis.Correction = &c }

func (s *scene) tool(name string, t Tool) {
	before := s.facts.Tool
	s.facts.Tool = func(n string) (Tool, bool) {
		if n == name {
			return t, true
		}
		if before == nil {
			return Tool{}, false
		}
		return before(n)
	}
}

func (s *scene) step() Verdict {
	f := s.facts
	f.Failure = &s.failure
	e := Event{Trigger: messages.Trigger{Kind: messages.TriggerDecision, N: s.rec.N}, Decision: &s.decision}
	return Step(&s.rec, e, f, s.now)
}

// written is the record that the step writes.
func (s *scene) written(t *testing.T) messages.Record {
	t.Helper()
	v := s.step()
	if v.Do != Write {
		t.Fatalf("the verdict is %s (%s), not write", v.Do, v.Why)
	}
	return v.Record
}

func wantEnd(t *testing.T, r messages.Record, status messages.Status, code messages.Code) {
	t.Helper()
	if r.State != messages.Ended || r.Outcome.Status != status || r.Outcome.Code != code {
		t.Fatalf("got %s, want the end %s (%s)", show(r), status, code)
	}
}

func wantNext(t *testing.T, r messages.Record, tool, input string) {
	t.Helper()
	if r.State != messages.Dispatched && r.State != messages.Waiting || r.N != 2 {
		t.Fatalf("got %s, want dispatch 2", show(r))
	}
	if r.Call.Tool != tool || string(r.Input.Inline) != input {
		t.Fatalf("got tool %s input %s, want %s %s", r.Call.Tool, r.Input.Inline, tool, input)
	}
}

func wantApplication(t *testing.T, r messages.Record, result messages.Applied, reason string) {
	t.Helper()
	if len(r.Corrections) == 0 {
		t.Fatal("nothing is noted about the correction")
	}
	a := r.Corrections[len(r.Corrections)-1]
	if a.N != 1 || a.Result != result || !strings.Contains(a.Reason, reason) {
		t.Fatalf("noted: %+v, want dispatch 1, %s, %q", a, result, reason)
	}
}

func needs(field string) func([]byte) error {
	return func(in []byte) error {
		var m map[string]any
		if json.Unmarshal(in, &m) != nil || m[field] == nil {
			return fmt.Errorf("%q is missing", field)
		}
		return nil
	}
}

func ptr(s string) *string { return &s }

func fix(input string) messages.Correction {
	return messages.Correction{Type: messages.InputFix, Description: "mend it", ModifiedInput: json.RawMessage(input)}
}
