package dispatch

import (
	"encoding/json"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func TestS1_6_EscalateIgnoresItsInput(t *testing.T) {
	s := newScene(messages.ReadOnly)
	c := fix(`{"a":2}`)
	c.Type = messages.Escalate
	s.correction(c)
	wantNext(t, s.written(t), "t", `{"a":1}`)
}

func TestS1_10_AppliedAndEndedAreTwoFields(t *testing.T) {
	s := newScene(messages.ReadOnly)
	s.correction(fix(`{"a":2}`))
	r := s.written(t)
	wantApplication(t, r, messages.CorrectionApplied, "")
	if r.Corrections[0].Ended != "" {
		t.Fatalf("the corrected attempt has not ended: %+v", r.Corrections[0])
	}
	for _, c := range []struct {
		name      string
		ambiguous bool
		want      messages.AttemptEnd
	}{{"definite", false, messages.AttemptFailed}, {"ambiguous", true, messages.AttemptAmbiguous}} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(messages.ReadOnly)
			s.rec = r
			s.failure.Call, s.failure.Ambiguous = r.Call, c.ambiguous
			s.decision.Dispatch, s.decision.Action = 2, messages.Fail("no")
			if got := s.written(t).Corrections[0].Ended; got != c.want {
				t.Fatalf("ended %q, want %q", got, c.want)
			}
		})
	}
	v := Step(&r, Event{Trigger: messages.Trigger{Kind: messages.TriggerSettled, N: 2}},
		Facts{Result: &messages.Result{Status: messages.Succeeded}}, epoch)
	if got := v.Record.Corrections[0].Ended; got != messages.AttemptSucceeded {
		t.Fatalf("after a success: ended %q", got)
	}
}

func TestS3_1_AppliedInTheRecordAndPublishedAfterTheWait(t *testing.T) {
	s := newScene(messages.ReadOnly)
	s.decision.Action = messages.Retry(5 * time.Second)
	s.correction(fix(`{"a":2}`))
	r := s.written(t)
	wantNext(t, r, "t", `{"a":2}`)
	if r.State != messages.Waiting || !r.DueAt.Equal(epoch.Add(5*time.Second)) {
		t.Fatalf("got %s", show(r))
	}
	for _, e := range Effects(r) {
		if e.Kind == Publish {
			t.Fatal("published before the wait")
		}
	}
	v := Step(&r, Event{Trigger: messages.Trigger{Kind: messages.TriggerDue, N: 2}}, s.facts, epoch.Add(5*time.Second))
	es := Effects(v.Record)
	if v.Do != Write || len(es) != 2 || es[1].Kind != Publish || string(es[1].Call.Input.Inline) != `{"a":2}` {
		t.Fatalf("when due: %s, effects %v", v.Do, es)
	}
}

func TestS3_2_InputFix(t *testing.T) {
	for _, c := range []struct {
		name, input string
		schema      func([]byte) error
		known       bool
		want        string // input of the next dispatch; empty: the decision becomes fail
		result      messages.Applied
	}{
		{"an object replaces the input", `{"a":2}`, needs("a"), true, `{"a":2}`, messages.CorrectionApplied},
		{"null is dropped", `null`, needs("a"), true, `{"a":1}`, messages.CorrectionRejected},
		{"nothing is dropped", ``, needs("a"), true, `{"a":1}`, messages.CorrectionRejected},
		{"an array is dropped", `[{"a":2}]`, needs("a"), true, `{"a":1}`, messages.CorrectionRejected},
		{"half an object is dropped", `{"a":`, needs("a"), true, `{"a":1}`, messages.CorrectionRejected},
		{"breaking the schema is worse than nothing", `{"b":2}`, needs("a"), true, ``, messages.CorrectionRejected},
		{"a tool without schema takes any object", `{"b":2}`, nil, true, `{"b":2}`, messages.CorrectionApplied},
		{"an unknown tool has no schema", `{"b":2}`, nil, false, `{"b":2}`, messages.CorrectionApplied},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(messages.Idempotent)
			if c.known {
				s.tool("t", Tool{Validate: c.schema})
			}
			s.correction(fix(c.input))
			r := s.written(t)
			wantApplication(t, r, c.result, "")
			if c.want == "" {
				wantEnd(t, r, messages.Failed, messages.CodeRecoveryGaveUp)
				return
			}
			wantNext(t, r, "t", c.want)
		})
	}
}

func TestS3_3_ToolChange(t *testing.T) {
	spec := messages.ToolSpec{Name: "u", Queue: "q2", Effect: messages.Keyed}
	for _, c := range []struct {
		name    string
		to      *string
		input   string
		tool    Tool
		known   bool
		dropped string // why; empty: changed
		want    string
	}{
		{"keeps the input", ptr("u"), `null`, Tool{Spec: spec, Validate: needs("a")}, true, "", `{"a":1}`},
		{"brings its own", ptr("u"), `{"b":2}`, Tool{Spec: spec, Validate: needs("b")}, true, "", `{"b":2}`},
		{"brings one that does not fit", ptr("u"), `{"b":2}`, Tool{Spec: spec, Validate: needs("a")}, true, "", `{"a":1}`},
		{"fits neither way", ptr("u"), `{"b":2}`, Tool{Spec: spec, Validate: needs("c")}, true, "does not fit", ""},
		{"not registered", ptr("v"), `null`, Tool{Spec: spec}, true, "not registered", ""},
		{"excluded", ptr("u"), `null`, Tool{Spec: spec, Unusable: "excluded by policy"}, true, "excluded by policy", ""},
		{"no name", nil, `null`, Tool{Spec: spec}, true, "no alternative_tool", ""},
		{"the same tool", ptr("t"), `null`, Tool{Spec: spec}, true, "the tool that failed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(messages.ReadOnly)
			s.tool("u", c.tool)
			s.correction(messages.Correction{Type: messages.ToolChange, AlternativeTool: c.to, ModifiedInput: json.RawMessage(c.input)})
			r := s.written(t)
			if c.dropped != "" {
				wantApplication(t, r, messages.CorrectionRejected, c.dropped)
				wantNext(t, r, "t", `{"a":1}`)
				return
			}
			wantApplication(t, r, messages.CorrectionApplied, "")
			wantNext(t, r, "u", c.want)
			if r.Call.Queue != "q2" || r.Call.Effect != messages.Keyed || r.Call.OriginalTool != "t" {
				t.Fatalf("the next dispatch is not that of the new tool: %+v", r.Call)
			}
			if r.Spent != 2 || r.Call.Attempt != 2 {
				t.Fatalf("the budget stays with the call: spent %d, attempt %d", r.Spent, r.Call.Attempt)
			}
		})
	}
}

func TestS3_3_ExhaustedNamesTheOriginalTool(t *testing.T) {
	s := newScene(messages.ReadOnly)
	s.rec.Spent, s.rec.Call.Tool, s.rec.Call.OriginalTool = 5, "u", "t"
	s.failure.Call = s.rec.Call
	r := s.written(t)
	wantEnd(t, r, messages.Exhausted, messages.CodeExhausted)
	res := ResultOf(r, &s.failure, epoch)
	if hard := res.HardError(); hard == nil || hard.Tool != "t" || hard.Attempts != 6 {
		t.Fatalf("hard error %+v", hard)
	}
}

func TestS3_4_OtherCorrectionsChangeNothing(t *testing.T) {
	for _, kind := range []messages.CorrectionType{messages.PrerequisiteFix, messages.ApproachChange, messages.Escalate} {
		t.Run(string(kind), func(t *testing.T) {
			s := newScene(messages.Unsafe)
			c := fix(`{"a":2}`)
			c.Type, c.AlternativeTool, c.Guidance = kind, ptr("u"), ptr("do it by hand")
			s.tool("u", Tool{})
			s.correction(c)
			r := s.written(t)
			wantNext(t, r, "t", `{"a":1}`)
			wantApplication(t, r, messages.CorrectionNotApplicable, string(kind))
			if r.Call.Key != testCall {
				t.Fatalf("the key changed to %s", r.Call.Key)
			}
			s.decision.Action, s.decision.Guidance = messages.Fail("no"), ""
			if got := s.written(t).Outcome.Guidance; got != "do it by hand" {
				t.Fatalf("guidance %q", got)
			}
		})
	}
}

func TestS3_5_OnlyTheNextDispatchChanges(t *testing.T) {
	s := newScene(messages.ReadOnly)
	s.correction(fix(`{"a":2}`))
	before, _ := messages.EncodeRecord(s.rec)
	r := s.written(t)
	after, _ := messages.EncodeRecord(s.rec)
	if string(before) != string(after) || string(s.failure.Input.Inline) != `{"a":1}` {
		t.Fatal("the step changed what it was given")
	}
	s.rec, s.failure.Call, s.failure.Input = r, r.Call, r.Input
	s.facts.Input = r.Input.Inline
	s.decision.Analysis.Correction = nil
	if r = s.written(t); string(r.Input.Inline) != `{"a":2}` {
		t.Fatalf("a bare retry repeats the last input, got %s", r.Input.Inline)
	}
}

func TestS3_6_TriedInputIsRefused(t *testing.T) {
	for _, c := range []struct {
		name     string
		severity messages.Severity
		input    string
		retries  bool
	}{
		{"spacing makes no other input", messages.Medium, `{ "a" : 1 }`, false},
		{"an earlier one counts too", messages.High, `{"z":0}`, false},
		{"at low severity a bare retry remains", messages.Low, `{"a":1}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(messages.ReadOnly)
			s.rec.Tried = []string{recovery.Digest("t", []byte(`{"z":0}`))}
			s.decision.Analysis.Severity = c.severity
			s.correction(fix(c.input))
			r := s.written(t)
			wantApplication(t, r, messages.CorrectionRejected, "tried in this call already")
			if c.retries {
				wantNext(t, r, "t", `{"a":1}`)
				return
			}
			wantEnd(t, r, messages.Failed, messages.CodeRecoveryGaveUp)
		})
	}
	s := newScene(messages.ReadOnly)
	s.rec.Tried = []string{recovery.Digest("u", []byte(`{"a":2}`))}
	s.correction(fix(`{"a":2}`))
	wantNext(t, s.written(t), "t", `{"a":2}`) // another tool's input is no repetition
}
