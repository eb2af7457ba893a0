package rules_test

import (
	"testing"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

// Only what a reader of the task may know better is a guess: facts and what a
// text says beyond doubt stand.
func TestWhichRulesAreGuesses(t *testing.T) {
	for _, c := range []struct {
		text  string
		rule  string
		guess bool
	}{
		{"the frobnicator is sulking", "unknown", true},
		{"user not found", "not-found", true},
		{"field required", "missing-input", true},
		{"the number of seats and passengers should match", "lengths", true},
		{"Too many requests", "rate-limit", false},
		{"Permission denied", "no-permission", false},
		{"insufficient funds", "funds", false},
		{"the order cannot be cancelled", "state", false},
		{"out of stock", "not-available", false},
	} {
		got, err := rules.New().Analyse(t.Context(), recovery.Case{Tool: "t", Input: []byte(`{}`), Code: messages.CodeToolError, Error: c.text, Executed: true})
		if err != nil || got.Rule != c.rule || got.Guess != c.guess {
			t.Errorf("%s: rule %s, guess %v, %v", c.text, got.Rule, got.Guess, err)
		}
	}
}
