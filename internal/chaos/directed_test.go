//go:build unix

package chaos

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// TestDirected runs the directed trials on services as they are. `make mutants`
// runs them on services that lack a rule each.
func TestDirected(t *testing.T) {
	for _, name := range DirectedNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a trial waits most of the time
			var out bytes.Buffer
			violations, err := Directed{Out: &out}.Run(t.Context(), name)
			t.Log(out.String())
			if err != nil || violations > 0 {
				t.Errorf("%d promises were broken, %v", violations, err)
			}
		})
	}
	if _, err := NewDirected("nothing"); err == nil || !strings.Contains(err.Error(), "starts, waits") {
		t.Errorf("a trial that is none: %v", err)
	}
}

// An effect that may have happened stays the only one, unless a human asks for another.
func TestASecondEffectAfterDoubtIsSeen(t *testing.T) {
	for says, spoil := range map[string]func(*testing.T, *History){
		"took effect in dispatch 1, after dispatch 0": func(t *testing.T, h *History) {
			h.Results[0].Dispatch = 1
			h.Story = append(h.Story, doubtOf(t, *h, 0, 0))
			h.Effects = append(h.Effects, Effect{Call: h.Told[0].Call, Dispatch: 1, Attempt: 1})
		},
		"took effect under two keys, a and b": func(_ *testing.T, h *History) {
			h.Effects = append(h.Effects, Effect{Call: h.Told[1].Call, Dispatch: 1, Attempt: 1, Key: "b"})
		},
	} {
		h := sound(t)
		h.Effects[1].Key = "a"
		spoil(t, &h)
		if got := strings.Join(Check(h).Violations, "\n"); !strings.Contains(got, says) {
			t.Errorf("%q is not seen: %q", says, got)
		}
		for i := range h.Told[:2] {
			h.Story = append(h.Story, messages.Stored{Message: messages.Message{Subject: h.Names.AnswerSubject(h.Told[i].Run, h.Told[i].Call, 0)}})
		}
		if got := Check(h).Violations; len(got) > 0 {
			t.Errorf("a human asked for it: %q", got)
		}
	}
}

// doubtOf is a failure of which nobody knows whether it had its effect.
func doubtOf(t *testing.T, h History, i, n int) messages.Stored {
	t.Helper()
	m := failureOf(t, h, i, n)
	f, err := messages.DecodeFailure(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	f.Ambiguous = true
	if m.Message, err = h.Names.EncodeFailure(f); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAWaitThatHoldsItsPlaceIsSeen(t *testing.T) {
	h := sound(t)
	input, err := json.Marshal(Order{BusyMs: 8000})
	if err != nil {
		t.Fatal(err)
	}
	h.Plan.Wishes[1].Call.Input = input
	for stood, seen := range map[time.Duration]bool{0: false, 3 * time.Second: false, 7 * time.Second: true} {
		h.Stood = map[string]time.Duration{h.Told[0].Call: time.Minute, h.Told[1].Call: stood}
		if got := strings.Join(Check(h).Violations, "\n"); strings.Contains(got, "stood in its queue for 7s of 8s") != seen || !seen && got != "" {
			t.Errorf("%s: %q", stood, got)
		}
	}
}
