package inbox_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mulligan/internal/inbox"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// asked puts a parked call into a pool, as a coordinator does: record, failure,
// schedule.
func asked(t *testing.T, b *memory.Broker, run string, i int, change func(*messages.Record)) inbox.Place {
	t.Helper()
	call := messages.Call{
		ID: messages.NewCallID(), Ref: fmt.Sprintf("r%d", i), Run: messages.NamedRun(run), Tool: "refund", Queue: "default", Lane: messages.LaneNormal,
		Effect: messages.Unsafe, Dispatch: 1, Key: "k",
	}
	r := messages.Record{
		N: 1, State: messages.Parked, Call: call, Input: messages.Text(`{"order":"ORD-101","amount":1}`), Prompt: "may it be?", Spent: 2,
		AnswerBy: time.Now().Add(time.Duration(i+1) * time.Hour).UTC(), Updated: time.Now().UTC(),
		Proposed: &messages.Correction{Type: messages.InputFix, Description: "the order", ModifiedInput: json.RawMessage(`{"order":"ORD-1001","amount":1}`)},
	}
	if change != nil {
		change(&r)
	}
	value, err := messages.EncodeRecord(r)
	if err == nil {
		err = b.Put(t.Context(), messages.BucketAttempts, messages.CallKey(call.Run, call.ID), value, 0)
	}
	if err == nil {
		err = b.Schedule(t.Context(), messages.Due{Kind: messages.DueAnswerBy, Run: call.Run, Call: call.ID, N: 1, At: r.AnswerBy})
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := b.Names().EncodeFailure(messages.Failure{Call: call, Input: r.Input, Code: messages.CodeToolError, Error: "order not found\x1b[2J", Executed: true})
	if err == nil {
		_, err = b.PutOnce(t.Context(), m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return inbox.Place{Run: call.Run, Call: call.ID, Dispatch: 1, AnswerBy: r.AnswerBy}
}

func pool(t *testing.T) *memory.Broker {
	t.Helper()
	return memory.New(memory.Config{Lease: time.Minute})
}

func TestPlacesAreInTheOrderOfTheirTime(t *testing.T) {
	b := pool(t)
	late, soon := asked(t, b, "a", 5, nil), asked(t, b, "b", 1, nil)
	// What is scheduled otherwise is no question.
	if err := b.Schedule(t.Context(), messages.Due{Kind: messages.DueRetry, Run: soon.Run, Call: soon.Call, N: 2, At: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	all, err := inbox.Places(t.Context(), b, inbox.AnyRun)
	if err != nil || len(all) != 2 || all[0].Call != soon.Call || all[1].Call != late.Call || all[1].Dispatch != 1 || !all[1].AnswerBy.Equal(late.AnswerBy) {
		t.Fatalf("%+v, %v", all, err)
	}
	of, err := inbox.Places(t.Context(), b, messages.NamedRun("a"))
	if err != nil || len(of) != 1 || of[0].Call != late.Call {
		t.Fatalf("%+v, %v", of, err)
	}
}

func TestFindByIdPrefixAndRef(t *testing.T) {
	b := pool(t)
	p, other := asked(t, b, "a", 1, nil), asked(t, b, "a", 2, nil)
	for _, tc := range []struct {
		word string
		want int
	}{
		{p.Call, 1}, {p.Call[:len(p.Call)-1], 1}, {other.Call[:4], 2}, {p.Call[:3], 0}, {"r1", 1}, {"r3", 0}, {"01890000-0000-7000-8000-000000000001", 0},
	} {
		got, err := inbox.Find(t.Context(), b, tc.word)
		if err != nil || len(got) != tc.want || tc.want == 1 && got[0].Call != p.Call {
			t.Errorf("%s: %+v, %v", tc.word, got, err)
		}
	}
}

// One record of another version does not keep the others from being read.
func TestAQuestionThatCannotBeReadIsNamedAndLeftOut(t *testing.T) {
	b := pool(t)
	asked(t, b, "a", 1, nil)
	broken, other := asked(t, b, "a", 2, nil), asked(t, b, "a", 3, nil)
	if err := b.Put(t.Context(), messages.BucketAttempts, messages.CallKey(broken.Run, broken.Call), []byte(`{"version":"99"`), 0); err != nil {
		t.Fatal(err)
	}
	places, err := inbox.Places(t.Context(), b, inbox.AnyRun)
	if err != nil || len(places) != 3 {
		t.Fatalf("%+v, %v", places, err)
	}
	var left []string
	got, err := inbox.Read(t.Context(), b, places, 0, nil, func(e *inbox.UnreadableError) { left = append(left, e.Error()) })
	if err != nil || len(got) != 2 || len(left) != 1 || !strings.Contains(left[0], broken.Call) {
		t.Errorf("%d read, left out %q, %v", len(got), left, err)
	}
	if found, err := inbox.Find(t.Context(), b, "r3"); err != nil || len(found) != 1 || found[0].Call != other.Call {
		t.Errorf("by ref: %+v, %v", found, err)
	}
}

// A call that was answered is found by the same words as one that waits.
func TestAnsweredIsFoundByPrefixAndRef(t *testing.T) {
	b := pool(t)
	p := asked(t, b, "a", 1, nil)
	asked(t, b, "a", 2, nil)
	m, err := messages.EncodeStory(b.Names().AnswerSubject(p.Run, p.Call, p.Dispatch), messages.Answer{Kind: messages.AnswerSkip, By: "ann", Token: "t", At: time.Now().UTC()})
	if err == nil {
		_, err = b.PutOnce(t.Context(), m)
	}
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]int{"r1": 1, p.Call[:len(p.Call)-1]: 1, "r2": 0, "": 0, p.Call[:3]: 0} {
		got, err := inbox.Answered(t.Context(), b, word)
		if err != nil || len(got) != want || want == 1 && (got[0].Call != p.Call || got[0].Dispatch != p.Dispatch || got[0].Run != p.Run) {
			t.Errorf("%q: %+v, %v", word, got, err)
		}
	}
}

// An empty variable of a shell must not answer the one call that waits.
func TestAnEmptyWordMeansNoCall(t *testing.T) {
	b := pool(t)
	asked(t, b, "a", 1, func(r *messages.Record) { r.Call.Ref = "" })
	if got, err := inbox.Find(t.Context(), b, ""); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// What a terminal would hide, or show elsewhere, is read before it is approved.
func TestAQuestionHidesNothing(t *testing.T) {
	b := pool(t)
	q, err := inbox.Ask(t.Context(), b, asked(t, b, "a", 1, func(r *messages.Record) {
		r.Prompt = "pay \u202e1001\u202c\u200b to ann\U000e0041"
		r.Proposed.ModifiedInput = json.RawMessage("{\"order\":\"ORD-1\u2066001\",\"amount\":1}")
	}))
	if err != nil || q == nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := q.WriteText(&out, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`pay \u{202e}1001\u{202c}\u{200b} to ann\u{e0041}`, `"ORD-101" becomes "ORD-1\u{2066}001"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
}

func TestAQuestionIsWhole(t *testing.T) {
	b := pool(t)
	q, err := inbox.Ask(t.Context(), b, asked(t, b, "trip/1", 1, nil))
	if err != nil || q == nil {
		t.Fatalf("%+v, %v", q, err)
	}
	if q.Run != "trip/1" || q.Ref != "r1" || q.Attempts != 2 || q.Code != messages.CodeToolError || *q.Input != `{"order":"ORD-101","amount":1}` || len(q.Changes) != 1 ||
		fmt.Sprint(q.Answers) != "[approve edit retry skip fail]" {
		t.Fatalf("%+v", q)
	}
	var out strings.Builder
	if err := q.WriteText(&out, q.AnswerBy.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"run trip/1   ref r1", "asks       may it be?", `said       order not found\x1b[2J`, "proposed   input_fix: the order", `input.order: "ORD-101" becomes "ORD-1001"`,
		"2 of 6 spent", "in 1h0m0s; then it ends failed", "approve, edit, retry, skip, fail",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
}

// Statement 4.7, as the inbox shows it; 7.7, as it warns.
func TestS4_7_TheInboxOffersWhatIsLeft(t *testing.T) {
	b := pool(t)
	q, err := inbox.Ask(t.Context(), b, asked(t, b, "a", 1, func(r *messages.Record) { r.Spent, r.Ambiguous = messages.MaxAttempts, []int{0} }))
	if err != nil || fmt.Sprint(q.Answers) != "[skip fail]" {
		t.Fatalf("%+v, %v", q, err)
	}
	var out strings.Builder
	if err := q.WriteText(&out, time.Now()); err != nil || !strings.Contains(out.String(), "then it ends unknown") || !strings.Contains(out.String(), "an effect may have happened") {
		t.Fatalf("%s, %v", out.String(), err)
	}
}

func TestAnInputThatIsKeptApartIsFetchedToBeSeen(t *testing.T) {
	b := pool(t)
	large := `{"order":"` + strings.Repeat("x", messages.MaxInline) + `"}`
	ref, err := b.PutPayload(t.Context(), []byte(large))
	if err != nil {
		t.Fatal(err)
	}
	q, err := inbox.Ask(t.Context(), b, asked(t, b, "a", 1, func(r *messages.Record) { r.Input = messages.Body{Ref: &ref} }))
	if err != nil || q.Input != nil || q.Size != int64(len(large)) {
		t.Fatalf("%+v, %v", q, err)
	}
	if err := q.AddInput(t.Context(), b); err != nil || q.Input == nil || *q.Input != large || len(q.Changes) == 0 {
		t.Fatalf("%v", err)
	}
}

// What is answered by now is no question, though its schedule may still be there.
func TestReadLeavesOutWhatIsAnswered(t *testing.T) {
	b := pool(t)
	for i := range 100 {
		asked(t, b, "a", i, func(r *messages.Record) {
			if i%2 == 0 {
				r.State = messages.Dispatched
			}
		})
	}
	places, err := inbox.Places(t.Context(), b, inbox.AnyRun)
	if err != nil || len(places) != 100 {
		t.Fatalf("%d places, %v", len(places), err)
	}
	for limit, want := range map[int]int{0: 50, 7: 7, 60: 50} {
		got, err := inbox.Read(t.Context(), b, places, limit, nil, nil)
		if err != nil || len(got) != want || got[0].Ref != "r1" || got[6].Ref != "r13" {
			t.Errorf("limit %d: %d questions, %v", limit, len(got), err)
		}
	}
	got, err := inbox.Read(t.Context(), b, places, 2, func(q *inbox.Question) bool { return q.Ref >= "r5" }, nil)
	if err != nil || len(got) != 2 || got[0].Ref != "r5" || got[1].Ref != "r7" {
		t.Errorf("%+v, %v", got, err)
	}
}
