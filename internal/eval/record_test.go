package eval

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"mulligan/examples/shop/corpus"
	"mulligan/internal/story"
	"mulligan/pkg/messages"
)

func attempts(end string, ds ...story.Dispatch) story.Story {
	for i := range ds {
		ds[i].N, ds[i].Tool = i, "book"
		if ds[i].Error == "" {
			ds[i].Outcome = "succeeded"
		}
	}
	return story.Story{Call: "c1", Dispatches: ds, End: &story.End{Status: messages.Status(end), Output: "booked with hush"}}
}

func attempt(input, failure string) story.Dispatch {
	return story.Dispatch{Input: &input, Error: failure}
}

func hideHush(s string) string { return strings.ReplaceAll(s, "hush", "[withheld]") }

// What is recorded is read again as a corpus, with what it says of each failure.
func TestRecordedFailuresAreACorpus(t *testing.T) {
	corrected := attempts("succeeded", attempt(`{"n": "2", "key": "hush"}`, "n is a string, hush"), attempt(`{"n": 2, "key": "hush"}`, ""))
	transient := attempts("succeeded", attempt(`{"n":1}`, "busy"), attempt(`{"n": 1}`, ""))
	lost := attempts("failed", attempt(`{n: 1`, "no JSON"))
	lost.End.Output = "no JSON"
	replay := attempts("succeeded", attempt(`{"n":1}`, "busy"), attempt(`{"n":3}`, ""))
	for _, tc := range []struct {
		name         string
		s, replayed  story.Story
		fails        int
		class, did   string
		input, error string
	}{
		{name: "corrected", s: corrected, fails: 1, did: corpus.CorrectedAlone, input: `{"n": "2", "key": "[withheld]"}`, error: "n is a string, [withheld]"},
		{name: "transient", s: transient, fails: 1, class: corpus.Transient, input: `{"n":1}`, error: "busy"},
		{name: "lost", s: lost, fails: 1, input: `"{n: 1"`, error: "no JSON"},
		{name: "replayed", s: attempts("failed", attempt(`{"n":0}`, "below 1")), replayed: replay, fails: 2, input: `{"n":0}`, error: "below 1"},
	} {
		lines, ok := Record(tc.s, tc.replayed, "pool", hideHush)
		if !ok {
			t.Errorf("%s: left out", tc.name)
			continue
		}
		var file bytes.Buffer
		for _, l := range lines {
			if err := json.NewEncoder(&file).Encode(l); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(file.String(), "hush") {
			t.Errorf("%s: the secret is in it: %s", tc.name, &file)
		}
		runs, err := corpus.Read(&file)
		if err != nil || len(runs) != 1 {
			t.Fatalf("%s: %d runs, %v", tc.name, len(runs), err)
		}
		fails := 0
		for _, c := range runs[0] {
			if c.IsError {
				fails++
			}
		}
		first := runs[0][0]
		want, _ := json.Marshal(json.RawMessage(tc.input))
		if fails != tc.fails || first.Class != tc.class || first.Did != tc.did || string(first.Input) != string(want) || first.Want() != tc.error {
			t.Errorf("%s: %d failures, first %+v with %s", tc.name, fails, first, first.Input)
		}
	}
}

func TestWhatWouldMisleadIsNotRecorded(t *testing.T) {
	gone := attempts("failed", attempt(`{}`, "no"))
	gone.Dispatches[0].Input = nil
	for name, s := range map[string]story.Story{
		"an input that is gone":        gone,
		"a success at once":            attempts("succeeded", attempt(`{}`, "")),
		"JSON that the secret breaks":  attempts("failed", attempt(`{"key":hush1}`, "no"), attempt(`{"a":12}`, "no")),
		"a call that never had an end": {Call: "c1", Dispatches: []story.Dispatch{{Tool: "book"}}},
	} {
		hide := hideHush
		if strings.HasPrefix(name, "JSON") {
			hide = func(s string) string { return strings.ReplaceAll(s, "12", "[x]") }
		}
		if lines, ok := Record(s, story.Story{}, "pool", hide); ok {
			t.Errorf("%s is recorded: %+v", name, lines)
		}
	}
}
