package rules_test

import (
	"context"
	"encoding/json"
	"fmt"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

// A call that names a parameter almost right is mended and retried; a recipient
// that does not exist is for the caller to mend.
func Example() {
	policy := recovery.Policy{} // the defaults, without jitter
	backoff, err := policy.Backoff(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	decider, err := recovery.NewDecider(rules.New(), backoff, policy)
	if err != nil {
		fmt.Println(err)
		return
	}
	send := recovery.Case{
		Tool:    "send_mail",
		Schema:  json.RawMessage(`{"type":"object","properties":{"to":{"type":"array","items":{"type":"string"}},"subject":{"type":"string"}},"required":["to","subject"],"additionalProperties":false}`),
		Effect:  messages.Unsafe,
		Input:   []byte(`{"to":"ann@example.com","Subject":"hello"}`),
		Code:    messages.CodeInvalidArguments,
		Error:   "the arguments do not fit",
		Context: messages.ReflectionContext{MaxAttempts: messages.MaxRetries},
	}
	d := decider.Decide(context.Background(), send)
	fmt.Println(d.Action, "with", string(d.Analysis.Correction.ModifiedInput))

	send.Input = []byte(`{"to":["ann@example.com"],"subject":"hello"}`)
	send.Code, send.Error, send.Executed = messages.CodeToolError, "mailbox not found", true
	d = decider.Decide(context.Background(), send)
	fmt.Println(d.Action)
	// Output:
	// retry after 500ms with {"subject":"hello","to":["ann@example.com"]}
	// fail: the object that was named does not exist: mailbox not found
}
