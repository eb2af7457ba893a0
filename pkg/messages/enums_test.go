package messages_test

import (
	"encoding"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mulligan/pkg/messages"
)

func TestS1_1_SeverityIsOrdered(t *testing.T) {
	order := []messages.Severity{messages.Low, messages.Medium, messages.High, messages.Critical}
	names := []string{"low", "medium", "high", "critical"}
	if !slices.IsSorted(order) {
		t.Errorf("not ordered: %v", order)
	}
	for i, s := range order {
		b, err := json.Marshal(s)
		if err != nil || string(b) != `"`+names[i]+`"` || s.String() != names[i] {
			t.Errorf("%d travels as %s and prints %q, %v; want %q", s, b, s, err, names[i])
		}
		var back messages.Severity
		if err := json.Unmarshal(b, &back); err != nil || back != s {
			t.Errorf("%s reads as %v, %v", b, back, err)
		}
	}
}

// keys are the fields of v on the wire.
func keys(t *testing.T, v any) []string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(m))
}

func TestS1_2_AnalysisHasFiveFields(t *testing.T) {
	want := []string{"context", "correction", "is_recoverable", "root_cause", "severity"}
	for _, a := range []messages.FailureAnalysis{{Severity: messages.Low}, {IsRecoverable: true, RootCause: "r", Severity: messages.High, Correction: exampleCorrection(), Context: "c"}} {
		if got := keys(t, a); !slices.Equal(got, want) {
			t.Errorf("fields %v, want %v", got, want)
		}
	}
}

func TestS1_3_EveryCombinationIsLegal(t *testing.T) {
	for _, recoverable := range []bool{true, false} {
		for s := messages.Low; s <= messages.Critical; s++ {
			d := messages.Decision{Call: callID, Run: run, Action: messages.Fail("x"), Analysis: &messages.FailureAnalysis{IsRecoverable: recoverable, Severity: s}}
			m, err := pool.EncodeDecision(d)
			if err != nil {
				t.Fatal(err)
			}
			back, err := messages.DecodeDecision(m.Body)
			if err != nil || back.Analysis.IsRecoverable != recoverable || back.Analysis.Severity != s {
				t.Errorf("recoverable %t with severity %s: %+v, %v", recoverable, s, back.Analysis, err)
			}
		}
	}
}

func TestS1_4_CorrectionHasFiveFields(t *testing.T) {
	want := []string{"alternative_tool", "correction_type", "description", "guidance", "modified_input"}
	for _, c := range []messages.Correction{{Type: messages.Escalate}, *exampleCorrection()} {
		if got := keys(t, c); !slices.Equal(got, want) {
			t.Errorf("fields %v, want %v", got, want)
		}
	}
	for _, text := range []string{`{"correction_type":"escalate","modified_input":null}`, `{"correction_type":"escalate"}`} {
		var c messages.Correction
		if err := json.Unmarshal([]byte(text), &c); err != nil || c.ModifiedInput != nil {
			t.Errorf("%s: modified input %q, %v, want none", text, c.ModifiedInput, err)
		}
	}
	if got := (*messages.Correction)(nil).GuidanceText(); got != "" {
		t.Errorf("guidance of no correction: %q", got)
	}
	if got := exampleCorrection().GuidanceText(); got != "Give dates as YYYY-MM-DD." {
		t.Errorf("guidance %q", got)
	}
}

func TestS1_5_CorrectionTypes(t *testing.T) {
	want := []messages.CorrectionType{"input_fix", "tool_change", "prerequisite_fix", "approach_change", "escalate"}
	if got := messages.CorrectionTypes(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestS1_7_ActionsPrint(t *testing.T) {
	for _, tc := range []struct {
		action     messages.RecoveryAction
		text, wire string
	}{
		{messages.Retry(500 * time.Millisecond), "retry after 500ms", `{"action":"retry","delay_ms":500}`},
		{messages.Retry(0), "retry after 0s", `{"action":"retry"}`},
		{messages.Skip("not needed"), "skip: not needed", `{"action":"skip","reason":"not needed"}`},
		{messages.AskUser("which one?"), "ask user: which one?", `{"action":"ask_user","prompt":"which one?"}`},
		{messages.Fail("no way"), "fail: no way", `{"action":"fail","reason":"no way"}`},
	} {
		b, err := json.Marshal(tc.action)
		if err != nil || string(b) != tc.wire || tc.action.String() != tc.text {
			t.Errorf("prints %q and travels as %s, %v; want %q and %s", tc.action, b, err, tc.text, tc.wire)
		}
		var back messages.RecoveryAction
		if err := json.Unmarshal(b, &back); err != nil || back != tc.action {
			t.Errorf("%s reads as %+v, %v", b, back, err)
		}
	}
}

func TestS1_9_ReflectionErrorsPrint(t *testing.T) {
	for _, tc := range []struct {
		err  messages.ReflectionError
		want string
	}{
		{messages.ReflectionError{Skipped: true, Reason: "tool is excluded"}, "reflection skipped: tool is excluded"},
		{messages.ReflectionError{Reason: "model timed out"}, "reflection internal error: model timed out"},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestS1_10_ApplicationAndItsEndAreSeparate(t *testing.T) {
	a := messages.Application{N: 1, Type: messages.InputFix, Result: messages.CorrectionApplied, Ended: messages.AttemptFailed}
	if got, want := keys(t, a), []string{"correction_type", "ended", "n", "result"}; !slices.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
	a = messages.Application{Type: messages.InputFix, Result: messages.CorrectionRejected, Reason: "breaks the schema"}
	if got, want := keys(t, a), []string{"correction_type", "n", "reason", "result"}; !slices.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
}

// sets are the closed sets that travel as text.
func sets() map[string]encoding.TextUnmarshaler {
	return map[string]encoding.TextUnmarshaler{
		"severity": new(messages.Severity), "correction_type": new(messages.CorrectionType), "action": new(messages.ActionType),
		"effect": new(messages.Effect), "lane": new(messages.Lane), "status": new(messages.Status), "state": new(messages.State),
		"answer": new(messages.AnswerKind), "due kind": new(messages.DueKind), "trigger": new(messages.TriggerKind),
		"application": new(messages.Applied), "attempt end": new(messages.AttemptEnd), "hard error": new(messages.HardKind),
	}
}

func TestS1_11_UnknownValuesAreNamedErrors(t *testing.T) {
	for set, dst := range sets() {
		for _, text := range []string{"bogus", "LOW", "retry ", strings.Repeat("x", 500)} {
			var unknown *messages.UnknownValueError
			if err := dst.UnmarshalText([]byte(text)); !errors.As(err, &unknown) || unknown.Set != set || unknown.Value != text || len(unknown.Known) < 3 {
				t.Errorf("%s: %q gives %v", set, text, err)
			} else if len(err.Error()) > 300 {
				t.Errorf("%s: the error is %d bytes long", set, len(err.Error()))
			}
		}
	}
	if new(messages.Severity).UnmarshalText(nil) == nil {
		t.Error("the empty severity is taken")
	}
	if _, err := json.Marshal(messages.FailureAnalysis{}); err == nil {
		t.Error("an analysis without a severity is written")
	}
}

// TestS1_11_MissingValuesAreNamedErrors: a closed set that is absent is not
// taken for its first value.
func TestS1_11_MissingValuesAreNamedErrors(t *testing.T) {
	head := `{"version":"1","call":"` + callID + `","run":"r","dispatch":0,`
	decision := func(b []byte) error { _, err := messages.DecodeDecision(b); return err }
	for _, tc := range []struct {
		set, body string
		decode    func([]byte) error
	}{
		{"action", head + `"action":{}}`, decision},
		{"severity", head + `"action":{"action":"retry"},"analysis":{"is_recoverable":true}}`, decision},
		{"severity", head + `"action":{"action":"retry"},"analysis":{"severity":""}}`, decision},
		{"correction_type", head + `"action":{"action":"retry"},"analysis":{"severity":"low","correction":{"description":"d"}}}`, decision},
		{"state", `{"version":"1","n":0}`, func(b []byte) error { _, err := messages.DecodeRecord(b); return err }},
		{"status", `{"version":"1"}`, func(b []byte) error { _, err := messages.DecodeStory[messages.Cancel](b); return err }},
		{"answer", `{"version":"1"}`, func(b []byte) error { _, err := messages.DecodeStory[messages.Answer](b); return err }},
		{"due kind", `{"version":"1","run":"r"}`, func(b []byte) error { _, err := messages.DecodeStory[messages.Due](b); return err }},
	} {
		var unknown *messages.UnknownValueError
		if err := tc.decode([]byte(tc.body)); !errors.As(err, &unknown) || unknown.Set != tc.set {
			t.Errorf("%s: %v, want an unknown %s", tc.body, err, tc.set)
		}
	}
}

// TestWhatCannotBeReadIsNotWritten: a writer's fault is an error at the writer.
func TestWhatCannotBeReadIsNotWritten(t *testing.T) {
	_, decision := pool.EncodeDecision(messages.Decision{Call: callID, Run: run})
	_, failure := pool.EncodeFailure(messages.Failure{})
	_, cancel := messages.EncodeStory("s", messages.Cancel{})
	_, record := messages.EncodeRecord(messages.Record{})
	_, correction := messages.EncodeRecord(messages.Record{State: messages.Ended, Corrections: []messages.Application{{N: 1}}})
	_, outcome := messages.EncodeRecord(messages.Record{State: messages.Ended, Outcome: &messages.Outcome{}})
	_, proposed := messages.EncodeRecord(messages.Record{State: messages.Parked, Proposed: &messages.Correction{}})
	_, wish := messages.EncodeRecord(messages.Record{State: messages.Parked, Cancelling: &messages.Cancel{}})
	_, request := messages.EncodeService(messages.CancelRequest{})
	for name, err := range map[string]error{
		"decision": decision, "failure": failure, "cancel": cancel, "record": record, "correction": correction,
		"outcome": outcome, "proposed": proposed, "wish": wish, "request": request,
	} {
		if err == nil {
			t.Errorf("%s: an empty one is written", name)
		}
	}
}

func TestS1_11_TimesAreRFC3339(t *testing.T) {
	b, err := json.Marshal(messages.Settled{At: at})
	if err != nil || !strings.Contains(string(b), `"at":"2026-03-01T09:30:00.25Z"`) {
		t.Errorf("%s, %v", b, err)
	}
	c := exampleCall()
	c.Deadline = at.In(time.FixedZone("", 3600))
	if got := pool.EncodeCall(c).Header.Get(messages.HeaderDeadline); got != "2026-03-01T09:30:00.25Z" {
		t.Errorf("deadline travels as %s", got)
	}
}

func TestS7_1_UndeclaredIsUnsafe(t *testing.T) {
	if got := (messages.ToolSpec{Name: "t"}).WithDefaults(); got.Effect != messages.Unsafe || got.Queue != "default" {
		t.Errorf("defaults: %+v", got)
	}
	var e messages.Effect
	if err := e.UnmarshalText(nil); err != nil || e != messages.Unsafe {
		t.Errorf("the empty effect reads as %q, %v", e, err)
	}
	f := strings.Replace(mustFailure(t), `"effect":"idempotent",`, "", 1)
	back, err := messages.DecodeFailure([]byte(f))
	if err != nil || back.Call.Effect != messages.Unsafe {
		t.Errorf("a failure without an effect reads as %q, %v", back.Call.Effect, err)
	}
	o, err := messages.DecodeService[messages.OfferRequest]([]byte(`{"version":"1","worker":"w","tools":[{"name":"t"}]}`))
	if err != nil || o.Tools[0].Effect != messages.Unsafe {
		t.Errorf("an offer without an effect reads as %+v, %v", o.Tools, err)
	}
}

func mustFailure(t *testing.T) string {
	t.Helper()
	m, err := pool.EncodeFailure(exampleFailure())
	if err != nil {
		t.Fatal(err)
	}
	return string(m.Body)
}

// TestS10_1_HardErrors: the set is closed, and nothing that a tool answers is one.
func TestS10_1_HardErrors(t *testing.T) {
	want := []messages.HardKind{"cancelled", "context_exceeded", "loop_detected", "user_input_required", "tool_recovery_exhausted", "fallback_exhausted"}
	if got := messages.HardKinds(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, s := range messages.Ends() {
		r := messages.Result{Status: s, Tool: "b", OriginalTool: "a", Attempts: 6, IsError: true, Code: messages.CodeExhausted, Output: messages.Text("tool recovery exhausted")}
		hard := r.HardError()
		if (hard != nil) != (s == messages.Exhausted) {
			t.Errorf("%s: hard error %v", s, hard)
		}
		if hard != nil && (hard.Kind != messages.HardToolExhausted || hard.Tool != "a" || hard.Attempts != 6) {
			t.Errorf("hard error %+v", hard)
		}
	}
	e := &messages.HardError{Kind: messages.HardToolExhausted, Tool: "book", Attempts: 6}
	if got := e.Error(); got != `tool recovery exhausted: "book" failed in all of 6 attempts` {
		t.Errorf("%q", got)
	}
	if got := (&messages.HardError{Kind: messages.HardLoopDetected, Reason: "10 times"}).Error(); got != "run ended: loop detected: 10 times" {
		t.Errorf("%q", got)
	}
}

// TestCodes holds the closed set: append-only, textual, each once.
func TestCodes(t *testing.T) {
	want := strings.Fields(`tool_error panic timeout invalid_arguments tool_not_found worker_lost connection_lost rate_limited
		unavailable output_too_large drained recovery_gave_up ask_user not_analysed exhausted cancelled run_ended deadline ambiguous
		denied answer_by breaker_open hook_veto loop_detected unknown_tool too_large bad_call deadline_passed queue_full too_old run_is_over not_stored unknown_version run_closed run_full budget_spent
		answered not_parked not_found bad_run run_differs run_not_over`)
	var got []string
	for _, c := range messages.Codes() {
		got = append(got, string(c))
		if !c.Known() {
			t.Errorf("%s is not known", c)
		}
		if err := new(messages.Code).UnmarshalText([]byte(c)); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("codes\n%v\nwant\n%v\nA code is never renamed or taken away, since it stands in stored messages.", got, want)
	}
}

func TestUnknownCodesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := messages.Code(rapid.StringMatching(`[a-z][a-z0-9_]{0,63}`).Draw(t, "code"))
		f := exampleFailure()
		f.Code = code
		m, err := pool.EncodeFailure(f)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := messages.DecodeFailure(m.Body); err != nil || back.Code != code {
			t.Fatalf("failure: %q, %v", back.Code, err)
		}
		if back, err := pool.DecodeResult(pool.EncodeResult(messages.Result{Call: callID, Run: run, Status: messages.Failed, Code: code})); err != nil || back.Code != code {
			t.Fatalf("result: %q, %v", back.Code, err)
		}
	})
	if messages.Code("colour").Known() {
		t.Error("an unknown code is known")
	}
	for _, bad := range []string{"Timeout", "a b", "1a", "a\r\nX: y", strings.Repeat("a", 65)} {
		if new(messages.Code).UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is taken for a code", bad)
		}
	}
}
