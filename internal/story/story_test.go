package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// fakeSource holds messages by subject and entries by key.
type fakeSource struct {
	messages.Pool
	stored           []messages.Stored
	entries          []messages.Entry
	waiting, unacked int
}

func (f *fakeSource) Names() messages.Pool { return f.Pool }

func (f *fakeSource) put(t *testing.T, m messages.Message, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	f.stored = append(f.stored, messages.Stored{Message: m, Sequence: uint64(len(f.stored) + 1)})
}

func (f *fakeSource) Get(_ context.Context, subject string) (messages.Stored, error) {
	for i := len(f.stored) - 1; i >= 0; i-- {
		if match(subject, f.stored[i].Subject) {
			return f.stored[i], nil
		}
	}
	return messages.Stored{}, fmt.Errorf("%s: %w", subject, messages.ErrNotFound)
}

func (f *fakeSource) List(_ context.Context, stream messages.Stream, filters []string, fn func(messages.Stored) bool) error {
	for _, m := range f.stored {
		if s, _ := f.StreamOf(m.Subject); s != stream {
			continue
		}
		for _, filter := range filters {
			if match(filter, m.Subject) && !fn(m) {
				return nil
			}
		}
	}
	return nil
}

func (f *fakeSource) Backlog(context.Context, messages.Stream, string) (int, int, error) {
	return f.waiting, f.unacked, nil
}

func (f *fakeSource) Entries(_ context.Context, _ messages.Bucket, filter string) ([]messages.Entry, error) {
	var out []messages.Entry
	for _, e := range f.entries {
		if match(filter, e.Key) {
			out = append(out, e)
		}
	}
	return out, nil
}

func match(filter, subject string) bool {
	ft, st := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, t := range ft {
		if t == ">" {
			return i < len(st)
		}
		if i >= len(st) || t != "*" && t != st[i] {
			return false
		}
	}
	return len(ft) == len(st)
}

var (
	callID = "01890000-0000-7000-8000-000000000001"
	start  = messages.CallTime(callID)
)

func at(d time.Duration) time.Time { return start.Add(d) }

func envelope(n int) messages.Call {
	return messages.Call{
		ID: callID, Ref: "r7", Run: messages.NamedRun("demo/1"), Tool: "list_flights", Queue: "default", Lane: messages.LaneNormal, Effect: messages.ReadOnly,
		Attempt: n, Dispatch: n, Key: callID, Task: "find a flight",
	}
}

func ms(n int) messages.Millis { return messages.Millis(time.Duration(n) * time.Millisecond) }

// failed puts the failure of dispatch n, with its input.
func failed(t *testing.T, f *fakeSource, n int, input, text string, change func(*messages.Failure)) {
	t.Helper()
	fail := messages.Failure{
		Call: envelope(n), Input: messages.Text(input), Output: messages.Text(text), Code: messages.CodeToolError, Error: text, Executed: true,
		Worker: fmt.Sprintf("w%d", n+1), Started: at(time.Duration(n) * time.Second), Duration: ms(120), At: at(time.Duration(n)*time.Second + 120*time.Millisecond),
	}
	if change != nil {
		change(&fail)
	}
	m, err := f.EncodeFailure(fail)
	f.put(t, m, err)
}

func decided(t *testing.T, f *fakeSource, n int, a messages.RecoveryAction, c *messages.Correction) {
	t.Helper()
	m, err := f.EncodeDecision(messages.Decision{
		Call: callID, Run: envelope(0).Run, Dispatch: n, By: "rules", Rule: "type_coercion", Reflector: "reflector-1", Action: a, MaxRetries: 3, At: at(time.Second),
		Analysis: &messages.FailureAnalysis{IsRecoverable: true, RootCause: "limit is a string", Severity: messages.Medium, Correction: c},
	})
	f.put(t, m, err)
}

func record(t *testing.T, f *fakeSource, r messages.Record) {
	t.Helper()
	r.Call = envelope(r.N)
	if r.Trigger.Kind == "" {
		r.Trigger = messages.Trigger{Kind: messages.TriggerDecision}
	}
	b, err := messages.EncodeRecord(r)
	if err != nil {
		t.Fatal(err)
	}
	f.entries = append(f.entries, messages.Entry{Key: messages.CallKey(r.Call.Run, callID), Value: b, Revision: 1})
}

func tell(t *testing.T, f *fakeSource, now time.Time) Story {
	t.Helper()
	m, err := Gather(t.Context(), f, callID)
	if err != nil {
		t.Fatal(err)
	}
	return Build(m, now)
}

func recovered(t *testing.T) *fakeSource {
	f := &fakeSource{}
	failed(t, f, 0, `{"limit":"5","to":"HKG"}`, `limit: "5" is not an integer`, func(x *messages.Failure) {
		x.Code, x.Executed, x.Worker, x.Duration = messages.CodeInvalidArguments, false, "", 0
	})
	decided(t, f, 0, messages.Retry(0), &messages.Correction{Type: messages.InputFix, Description: "limit as a number", ModifiedInput: json.RawMessage(`{"limit":5,"to":"HKG"}`)})
	failed(t, f, 1, `{"limit":5,"to":"HKG"}`, "503 \x1b[2Jfrom upstream\nretry later", nil)
	decided(t, f, 1, messages.Retry(500*time.Millisecond), nil)
	record(t, f, messages.Record{N: 2, State: messages.Ended, Spent: 3, Corrections: []messages.Application{{N: 0, Type: messages.InputFix, Result: messages.CorrectionApplied}}})
	f.put(t, f.EncodeResult(messages.Result{
		Call: callID, Ref: "r7", Run: envelope(0).Run, Tool: "list_flights", Status: messages.Succeeded, Attempts: 3, Dispatch: 2, RecoveredBy: "type_coercion",
		Worker: "w1", Duration: ms(80), Ended: at(3 * time.Second), Output: messages.Text(`["CX1"]`),
	}), nil)
	return f
}

func TestStoryOfARecoveredCall(t *testing.T) {
	s := tell(t, recovered(t), at(time.Hour))
	if s.State != Ended || s.Now != "succeeded after 3 attempts, recovered by type_coercion" || s.Attempts != 3 || len(s.Dispatches) != 3 {
		t.Fatalf("%+v", s)
	}
	if s.Tool != "list_flights" || s.Ref != "r7" || s.Run != "demo/1" || s.Task != "find a flight" || s.TimeInAll != ms(3000) || s.TimeInTools != ms(200) {
		t.Fatalf("%+v", s)
	}
	if want := []Change{{Path: "input.limit", From: `"5"`, To: "5"}}; !reflect.DeepEqual(s.Dispatches[1].Changes, want) {
		t.Fatalf("changes %+v", s.Dispatches[1].Changes)
	}
	if d := s.Dispatches[2]; d.Outcome != "succeeded" || d.Worker != "w1" || d.Attempt != 2 {
		t.Fatalf("%+v", d)
	}
	if d := s.Dispatches[1]; d.Waited != ms(1800) {
		t.Fatalf("waited %s", d.Waited.Duration())
	}
	if fmt.Sprint(s.Workers) != "[w2 w1]" {
		t.Fatalf("workers %v", s.Workers)
	}
	var b strings.Builder
	if err := s.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ref r7   run demo/1", "failed: invalid_arguments (nothing ran)", `input.limit: "5" became 5`, "rules/type_coercion: limit is a string (medium, recoverable)",
		"proposed    input_fix: limit as a number", "decided     retry after 500ms", `503 \x1b[2Jfrom upstream`, "                retry later", "waited      1.8s",
		"attempt 3    succeeded   worker w1   80ms", `output      ["CX1"]`, "3 attempts, 200ms in tools, 3s in all",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

// A dispatch that ran and failed is closed when a correction takes its place;
// one that nobody ran says so.
func TestStoryTellsAClosedDispatchFromOneThatNeverRan(t *testing.T) {
	f := recovered(t)
	for n := range 2 {
		m, err := messages.EncodeStory(f.StartSubject(envelope(0).Run, callID, n), messages.Start{At: at(time.Second), Tombstone: "bad_call: a correction takes its place"})
		f.put(t, m, err)
	}
	var b strings.Builder
	if err := tell(t, f, at(time.Hour)).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(b.String(), "attempt 2 ")
	if !strings.Contains(first, "    never ran   ") || !strings.Contains(second, "so that no late delivery runs it again: a correction takes its place\n") {
		t.Errorf("it says\n%s", b.String())
	}
}

// What models took is told for each analysis and in all, also where one failed.
func TestStoryTellsWhatModelsTook(t *testing.T) {
	f := &fakeSource{}
	for n, u := range []*messages.Usage{{Model: "m-1", Requests: 1, InputTokens: 100, OutputTokens: 20, CostMicros: 1400}, nil, {Model: "m-1", Requests: 3, InputTokens: 7}} {
		failed(t, f, n, `{}`, "no", nil)
		d := messages.Decision{Call: callID, Run: envelope(0).Run, Dispatch: n, By: "llm", Action: messages.Retry(0), MaxRetries: 3, At: at(time.Second), Usage: u}
		m, err := f.EncodeDecision(d)
		f.put(t, m, err)
	}
	s := tell(t, f, at(time.Hour))
	if want := (messages.Usage{Model: "m-1", Requests: 4, InputTokens: 107, OutputTokens: 20, CostMicros: 1400}); s.Usage == nil || *s.Usage != want {
		t.Fatalf("%+v, want %+v", s.Usage, want)
	}
	var b strings.Builder
	if err := s.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"    model       m-1: 1 request, 100 tokens in, 20 out, cost 0.001400\n", "    model       m-1: 3 requests, 7 tokens in, 0 out\n",
		"models       m-1: 4 requests, 107 tokens in, 20 out, cost 0.001400 in all\n"} {
		if strings.Count(b.String(), want) != 1 {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	j, err := json.Marshal(s)
	if err != nil || strings.Count(string(j), `"usage":{"model":"m-1","requests":`) != 3 {
		t.Errorf("%s, %v", j, err)
	}
}

func TestStoryOfACallThatSucceededAtOnce(t *testing.T) {
	f := &fakeSource{}
	f.put(t, f.EncodeResult(messages.Result{Call: callID, Run: "x", Tool: "echo", Status: messages.Succeeded, Attempts: 1, Worker: "w1", Output: messages.Text("hi")}), nil)
	s := tell(t, f, at(time.Hour))
	if len(s.Dispatches) != 1 || s.Dispatches[0].Outcome != "succeeded" || s.Dispatches[0].Input != nil || s.End.Output != "hi" {
		t.Fatalf("%+v", s)
	}
}

// Such a call has a record if it was submitted twice, made of its result: it
// holds neither the input nor the effect, also when the result is gone.
func TestStoryMakesUpNothingThatARecordLacks(t *testing.T) {
	r := messages.Record{
		State: messages.Ended, Spent: 1, LastExecuted: -1, Trigger: messages.Trigger{Kind: messages.TriggerSettled}, Outcome: &messages.Outcome{Status: messages.Succeeded, Verbatim: -1},
		Call: messages.Call{ID: callID, Ref: "r7", Run: "x", Tool: "echo", Lane: messages.LaneNormal, Effect: messages.Unsafe},
	}
	b, err := messages.EncodeRecord(r)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeSource{entries: []messages.Entry{{Key: messages.CallKey(r.Call.Run, callID), Value: b, Revision: 1}}}
	for _, gone := range []bool{true, false} {
		if !gone {
			f.put(t, f.EncodeResult(messages.Result{Call: callID, Ref: "r7", Run: "x", Tool: "echo", Status: messages.Succeeded, Attempts: 1, Worker: "w1"}), nil)
		}
		s := tell(t, f, at(time.Hour))
		if len(s.Dispatches) != 1 && !gone || s.Tool != "echo" || s.Ref != "r7" || s.Effect != "" || s.Lane != "" {
			t.Fatalf("gone %v: %+v", gone, s)
		}
		for _, d := range s.Dispatches {
			if d.Input != nil || d.Tool != "echo" {
				t.Errorf("gone %v: %+v", gone, d)
			}
		}
	}
}

// Where a call is, from what there is of it and nothing else.
func TestStoryKnowsWhereACallIs(t *testing.T) {
	queued := func(f *fakeSource, n int) { f.put(t, f.EncodeCall(envelope(n)), nil) }
	for _, tc := range []struct {
		name  string
		setup func(*fakeSource)
		state State
		now   string
	}{
		{"queued", func(f *fakeSource) { queued(f, 0); f.waiting = 4 }, Queued, "where 4 wait"},
		{"fetched", func(f *fakeSource) { queued(f, 0); f.unacked = 1 }, Running, "in the hands of a worker of queue default, lane normal"},
		{"started", func(f *fakeSource) {
			queued(f, 0)
			f.waiting, f.unacked = 9, 9
			m, err := messages.EncodeStory(f.StartSubject(envelope(0).Run, callID, 0), messages.Start{Worker: "w3", At: at(time.Second)})
			f.put(t, m, err)
		}, Running, "by worker w3"},
		{"failed", func(f *fakeSource) { failed(t, f, 0, "{}", "no", nil) }, Reflecting, "waits for a reflector"},
		{"decided", func(f *fakeSource) {
			failed(t, f, 0, "{}", "no", nil)
			decided(t, f, 0, messages.Fail("no"), nil)
		}, Reflecting, "about to act"},
		{"short wait", func(f *fakeSource) {
			failed(t, f, 0, "{}", "no", nil)
			decided(t, f, 0, messages.Retry(time.Millisecond), nil)
		}, Waiting, "for a moment"},
		{"waiting", func(f *fakeSource) {
			failed(t, f, 0, "{}", "no", nil)
			record(t, f, messages.Record{N: 1, State: messages.Waiting, DueAt: at(time.Minute), DueReason: "the tool asked for it"})
		}, Waiting, "in 30s (the tool asked for it)"},
		{"overdue", func(f *fakeSource) {
			record(t, f, messages.Record{N: 1, State: messages.Waiting, DueAt: at(time.Second)})
		}, Waiting, "29s ago"},
		{"parked", func(f *fakeSource) {
			failed(t, f, 0, "{}", "no", nil)
			record(t, f, messages.Record{N: 0, State: messages.Parked, Prompt: "refund?", AnswerBy: at(time.Hour)})
		}, Parked, "refund?; answer by"},
		{"dispatched again", func(f *fakeSource) {
			failed(t, f, 0, "{}", "no", nil)
			decided(t, f, 0, messages.Retry(time.Minute), nil)
			record(t, f, messages.Record{N: 1, State: messages.Dispatched})
			queued(f, 1)
			f.waiting = 1
		}, Queued, "lane retry"},
		{"about to be dispatched", func(f *fakeSource) {
			record(t, f, messages.Record{N: 1, State: messages.Dispatched})
		}, Queued, "dispatch 1 is on its way"},
		{"about to end", func(f *fakeSource) {
			record(t, f, messages.Record{N: 1, State: messages.Ended})
		}, Ended, "being written"},
		{"the result rules", func(f *fakeSource) {
			record(t, f, messages.Record{N: 1, State: messages.Parked})
			queued(f, 0)
			f.put(t, f.EncodeResult(messages.Result{Call: callID, Run: envelope(0).Run, Tool: "x", Status: messages.StatusUnknown, Attempts: 1}), nil)
		}, Ended, "its effect may have happened"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &fakeSource{}
			tc.setup(f)
			s := tell(t, f, at(30*time.Second))
			if s.State != tc.state || !strings.Contains(s.Now, tc.now) {
				t.Fatalf("%s: %s; want %s: …%s…", s.State, s.Now, tc.state, tc.now)
			}
			if err := s.WriteText(&strings.Builder{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestStoryKeepsWhatCameLateAndWhatItCannotRead(t *testing.T) {
	f := recovered(t)
	out := messages.Text("too late")
	m, err := messages.EncodeStory(f.LateSubject(envelope(0).Run, callID, 1, "tok"), messages.Late{Why: "the call had ended", Output: &out, Worker: "w2", At: at(time.Minute)})
	f.put(t, m, err)
	m, err = messages.EncodeStory(f.CancelSubject(envelope(0).Run, callID), messages.Cancel{Status: messages.Cancelled, Code: messages.CodeCancelled, By: "ann", Reason: "changed my mind", At: at(time.Second)})
	f.put(t, m, err)
	f.put(t, messages.Message{Subject: f.AnswerSubject(envelope(0).Run, callID, 1), Body: []byte(`{"version":"9"}`)}, nil)
	for k := range 2 {
		m, err = messages.EncodeStory(f.MarkSubject(envelope(0).Run, callID, 1, k+1), messages.Start{Worker: "w2", At: at(time.Second)})
		f.put(t, m, err)
	}
	s := tell(t, f, at(time.Hour))
	if len(s.Late) != 1 || !s.Late[0].Success || s.Late[0].Text != "too late" || s.Cancel == nil || len(s.Unreadable) != 1 || s.ExtraStarts != 1 {
		t.Fatalf("%+v", s)
	}
	var b strings.Builder
	if err := s.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a success of dispatch 1", "wished by ann", "version that this one does not read", "1 further executions"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

func TestStoryOfNothing(t *testing.T) {
	if _, err := Gather(t.Context(), &fakeSource{}, callID); !errors.Is(err, messages.ErrNotFound) {
		t.Fatalf("err %v", err)
	}
	if _, err := Gather(t.Context(), &fakeSource{}, "7"); err == nil || errors.Is(err, messages.ErrNotFound) {
		t.Fatalf("err %v", err)
	}
}

func TestChanges(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want []Change
	}{
		{`{"a":1}`, `{"a": 1}`, nil},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, []Change{{"input.a", "9007199254740993", "9007199254740992"}}},
		{`{"user":"x","b":{"c":[1,2]}}`, `{"user_id":"x","b":{"c":[1,3]}}`, []Change{{"input.b.c[1]", "2", "3"}, {"input.user", `"x"`, ""}, {"input.user_id", "", `"x"`}}},
		{`{"a":[1]}`, `{"a":[1,2]}`, []Change{{"input.a", "[1]", "[1,2]"}}},
		{`{"a":1,}`, `{"a":1}`, []Change{{"input", `{"a":1,}`, `{"a":1}`}}},
		{`{"a":"<"}`, `{"a":null}`, []Change{{"input.a", `"<"`, "null"}}},
	} {
		if got := Changes("t", tc.a, "t", tc.b); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s to %s: %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
	if got := Changes("a", "{}", "b", "{}"); !reflect.DeepEqual(got, []Change{{"tool", "a", "b"}}) {
		t.Errorf("a change of the tool: %v", got)
	}
}

// Who was asked what, who answered, and who was too late.
func TestS5_3_AStoryTellsWhoAnswered(t *testing.T) {
	f := &fakeSource{}
	failed(t, f, 0, `{"a":1}`, "no such order", nil)
	decided(t, f, 0, messages.Retry(0), nil)
	parked := messages.Record{N: 0, State: messages.Parked, Prompt: "may it be repeated?", AnswerBy: at(time.Hour)}
	record(t, f, parked)
	waits := tell(t, f, at(time.Minute))
	answer := messages.Answer{Kind: messages.AnswerEdit, Input: new(messages.Text(`{"a":2}`)), By: "anna", Reason: "it is 2", At: at(time.Minute)}
	m, err := messages.EncodeStory(f.AnswerSubject(envelope(0).Run, callID, 0), answer)
	f.put(t, m, err)
	late := messages.Answer{Kind: messages.AnswerFail, By: "bob\x1b[2J", At: at(2 * time.Minute)}
	m, err = messages.EncodeStory(f.LateSubject(envelope(0).Run, callID, 0, "x"), messages.Late{Why: "the question had been answered", Answer: &late})
	f.put(t, m, err)
	failed(t, f, 1, `{"a":2}`, "no", nil)
	f.entries = nil
	record(t, f, messages.Record{N: 1, State: messages.Dispatched})
	answered := tell(t, f, at(time.Hour))
	m, err = messages.EncodeStory(f.AnswerSubject(envelope(0).Run, callID, 1), messages.Answer{Kind: messages.AnswerTimedOut, By: "answer-by", At: at(time.Hour)})
	f.put(t, m, err)
	closed := tell(t, f, at(2*time.Hour))
	for _, tc := range []struct {
		s    Story
		want []string
	}{
		{waits, []string{"parked: waits for a human: may it be repeated?; answer by", "    asked       may it be repeated?"}},
		{answered, []string{"    answered    edit by anna at ", ": it is 2", "input.a: 1 became 2", `late         the answer fail by bob\x1b[2J at `, "to dispatch 0 changed nothing"}},
		{closed, []string{"    answered    nobody in time; closed at "}},
	} {
		var b strings.Builder
		if err := tc.s.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("lacks %q:\n%s", want, b.String())
			}
		}
	}
}

// A replay and its original each say the other's id.
func TestS11_1_AStoryTellsOfReplays(t *testing.T) {
	const other = "01890000-0000-7000-8000-000000000002"
	f := &fakeSource{}
	failed(t, f, 0, `{"a":1}`, "no", func(fl *messages.Failure) { fl.Call.Labels = messages.Labels{messages.LabelReplayOf: other} })
	b, err := json.Marshal(messages.Replay{Original: callID, Call: other, Run: messages.NamedRun("again"), By: "ann\x1b", At: at(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	f.entries = append(f.entries, messages.Entry{Key: messages.ReplayKey(callID, other), Value: b}, messages.Entry{Key: messages.ReplayKey(callID, "x"), Value: []byte("{}")})
	s := tell(t, f, at(2*time.Hour))
	if s.ReplayOf != other || len(s.Replays) != 1 || s.Replays[0].Call != other || s.Replays[0].Run != "again" || len(s.Unreadable) != 1 {
		t.Errorf("%+v", s)
	}
	var text strings.Builder
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  replays call " + other, "replayed     as call " + other, `by ann\x1b, run again`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("lacks %q:\n%s", want, text.String())
		}
	}
}
