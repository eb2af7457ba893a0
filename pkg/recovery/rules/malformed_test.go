package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

type malformed struct {
	ID          string          `json:"id"`
	Kind        string          `json:"kind"`
	Raw         string          `json:"raw"`
	Expected    json.RawMessage `json:"expected"`
	Recoverable bool            `json:"recoverable"`
}

// What is repaired must be what was meant, and where content was lost nothing
// may be proposed; how much is repaired comes second.
func TestRecordedMalformedArguments(t *testing.T) {
	r := rules.New()
	var objects, repaired, right, lost, guessed, other int
	kinds := map[string][2]int{}
	for _, m := range corpus[malformed](t, "malformed_args.jsonl") {
		got, err := r.Analyse(t.Context(), recovery.Case{Tool: "t", Effect: messages.Unsafe, Input: []byte(m.Raw), Code: messages.CodeInvalidArguments, Error: "not JSON"})
		if err != nil {
			t.Fatal(err)
		}
		proposed := got.IsRecoverable
		object := strings.HasPrefix(strings.TrimSpace(string(m.Expected)), "{")
		k := kinds[m.Kind]
		k[1]++
		switch {
		case !m.Recoverable:
			lost++
			if proposed {
				guessed++
				t.Errorf("%s %s: guessed %s from %q", m.ID, m.Kind, got.Correction.ModifiedInput, m.Raw)
			}
		case !object:
			other++
			if proposed {
				t.Logf("%s %s: %s, where an array was expected, from %q", m.ID, m.Kind, got.Correction.ModifiedInput, clip(m.Raw))
			}
		default:
			objects++
			if proposed {
				repaired++
				k[0]++
				if recovery.Digest("", m.Expected) == recovery.Digest("", got.Correction.ModifiedInput) {
					right++
				} else {
					t.Logf("%s %s: %s instead of %s from %q", m.ID, m.Kind, got.Correction.ModifiedInput, m.Expected, m.Raw)
				}
			} else {
				t.Logf("%s %s: not repaired (%s): %q", m.ID, m.Kind, got.Correction.Description, clip(m.Raw))
			}
		}
		kinds[m.Kind] = k
	}
	t.Logf("recoverable objects: %d, repaired %d, as expected %d; lost content: %d, guessed %d; other: %d", objects, repaired, right, lost, guessed, other)
	if right < 56 || repaired-right > 2 {
		t.Errorf("only %d of %d repairs are what was meant", right, repaired)
	}
	t.Logf("by kind, repaired of all: %v", kinds)
}
