package reflection

import (
	"encoding/json"
	"strings"
	"testing"

	"mulligan/pkg/messages"
)

// A recorded failure is judged by the policies and rules of the pool, as if a try
// were left, and within the bounds of every decision.
func TestS9_5_ARecordedFailureIsJudgedAsAFreshOne(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	tools := []messages.ToolSpec{{Name: "t", Schema: schema, Effect: messages.Unsafe}, {Name: "quiet", Schema: schema, Effect: messages.ReadOnly}}
	failure := func(tool, text string) messages.Failure {
		return messages.Failure{Call: messages.Call{Tool: tool, Queue: "q", Effect: messages.Unsafe, Attempt: 3, Dispatch: 3}, Error: text, Code: messages.CodeToolError, Executed: true}
	}
	wrongType := failure("t", `n: "5" is not an integer`)
	wrongType.Code, wrongType.Executed = messages.CodeInvalidArguments, false
	for name, tc := range map[string]struct {
		policy string
		f      messages.Failure
		input  string
		action messages.ActionType
		fixed  string
	}{
		"the form is mended":          {f: wrongType, input: `{"n":"5"}`, action: messages.ActRetry, fixed: `{"n":5}`},
		"also where nobody retries":   {policy: `{"pool":{"max_retries":0}}`, f: wrongType, input: `{"n":"5"}`, action: messages.ActRetry, fixed: `{"n":5}`},
		"not where recovery is off":   {policy: `{"pool":{"exclude_tools":["t"]}}`, f: wrongType, input: `{"n":"5"}`, action: messages.ActFail},
		"a rule of the pool is asked": {policy: `{"rules":[{"name":"blue","when":"error contains \"blue\"","recoverable":true,"severity":"low","cause":"it is blue"}]}`, f: failure("t", "all is blue"), input: `{}`, action: messages.ActRetry},
		"what nobody recognises":      {f: failure("t", "all is blue"), input: `{}`, action: messages.ActFail},
	} {
		var held messages.Entry
		if tc.policy != "" {
			b, err := messages.EncodePolicies(messages.PolicyEntry{Document: json.RawMessage(tc.policy), By: "test"})
			if err != nil {
				t.Fatal(err)
			}
			held = messages.Entry{Key: messages.PolicyKey, Value: b, Revision: 1}
		}
		j, err := NewJudge(Config{}, held, tools)
		if err != nil {
			t.Fatal(err)
		}
		d, err := j.Decide(t.Context(), tc.f, []byte(tc.input))
		if err != nil || d.Action.Type != tc.action {
			t.Errorf("%s: %s, %v", name, d.Action, err)
			continue
		}
		fixed := ""
		if d.Analysis != nil && d.Analysis.Correction != nil {
			fixed = string(d.Analysis.Correction.ModifiedInput)
		}
		if fixed != tc.fixed {
			t.Errorf("%s: %q, want %q", name, fixed, tc.fixed)
		}
	}
}

// Nothing is judged by other policies than those that the pool has.
func TestPoliciesThatCannotBeReadJudgeNothing(t *testing.T) {
	b, err := messages.EncodePolicies(messages.PolicyEntry{Document: json.RawMessage(`{"pool":{"of_tomorrow":1}}`), By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewJudge(Config{}, messages.Entry{Key: messages.PolicyKey, Value: b, Revision: 7}, nil); err == nil || !strings.Contains(err.Error(), "revision 7") {
		t.Error(err)
	}
}
