package reflection_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"mulligan/internal/reflection"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// policies sets the document of the pool, as a coordinator does.
func (r *rig) policies(document string) {
	r.Helper()
	b, err := messages.EncodePolicies(messages.PolicyEntry{Document: json.RawMessage(document), By: "ops", At: time.Now()})
	if err != nil {
		r.Fatal(err)
	}
	if err := r.pool.Put(r.Context(), messages.BucketControl, messages.PolicyKey, b, messages.Forever); err != nil {
		r.Fatal(err)
	}
	r.pass(0)
}

func TestADecisionFollowsThePoliciesOfItsMoment(t *testing.T) {
	bubble(t, func(r *rig) {
		r.policies(`{"pool":{"max_retries":2,"jitter":0},"queues":{"q":{"initial_backoff_ms":1500}},"tools":{"tool":{"ask_user":"park","answer_by_ms":60000}}}`)
		r.start(with(func(context.Context, recovery.Case) (recovery.Reflection, error) { return answer(), nil }))
		d := r.decision(r.failed(nil))
		if d.MaxRetries != 2 || d.Action.String() != "retry after 1.5s" || !d.Park || d.AnswerBy.Duration() != time.Minute {
			r.Errorf("%+v", d)
		}
		own := r.failed(func(f *messages.Failure) { f.Call.Policy = json.RawMessage(`{"strategy":"none","ask_user":"return"}`) })
		if d := r.decision(own); d.Action.String() != "fail: cause" || d.Park {
			r.Errorf("what the call brings: %+v", d)
		}
		r.policies(`{"tools":{"tool":{"exclude_tools":["tool"]}}}`)
		if d := r.decision(r.failed(nil)); d.By != "policy" || d.Action.Type != messages.ActFail {
			r.Errorf("after the change: %+v", d)
		}
		r.policies(`{"tools":{"tool":{"max_retries":9,"moons":1}}}`)
		if d := r.decision(r.failed(nil)); d.By != "policy" {
			r.Errorf("a document of a newer version: %+v", d)
		}
		r.policies(`null`)
		if d := r.decision(r.failed(nil)); d.MaxRetries != 3 || d.Park {
			r.Errorf("after it was taken away: %+v", d)
		}
	})
}

// S2.2: a service that retries says so when it starts, and by which policy.
func TestS2_2_AServiceSaysThatItRetries(t *testing.T) {
	bubble(t, func(r *rig) {
		r.policies(`{"pool":{"max_retries":2}}`)
		var log bytes.Buffer
		r.start(func(c *reflection.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		if got := log.String(); !strings.Contains(got, "failures are decided by the policies of the pool") || !strings.Contains(got, `reflectors="[rules llm]"`) ||
			!strings.Contains(got, "max_retries=2") || !strings.Contains(got, "jitter=0.5") {
			r.Error(got)
		}
	})
}

// The rules of the document are asked before those that are shipped, from the
// moment that it holds until it holds no more.
func TestRulesOfTheDocumentAreAskedFirst(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start(nil)
		busy := func(f *messages.Failure) { f.Error = "503 Service Unavailable" }
		if d := r.decision(r.failed(busy)); d.Rule != "server-error" || d.Action.Type != messages.ActRetry {
			r.Fatalf("as shipped: %+v", d)
		}
		r.policies(`{"rules":[{"name":"night","when":"error contains \"503\"","cause":"closed for the night","recoverable":false}]}`)
		if d := r.decision(r.failed(busy)); d.Rule != "night" || d.Action.String() != "fail: closed for the night: 503 Service Unavailable" {
			r.Errorf("with a rule of one's own: %+v", d)
		}
		r.policies(`{"rules":[{"name":"night","when":"error contains \"503\"","cause":"until six","recoverable":false}]}`)
		if d := r.decision(r.failed(busy)); d.Action.String() != "fail: until six: 503 Service Unavailable" {
			r.Errorf("the rule as it was before: %+v", d)
		}
		r.policies(`{"pool":{"reflectors":["noop"]},"rules":[{"name":"night","when":"true","recoverable":true}]}`)
		if d := r.decision(r.failed(busy)); d.Rule != "" || d.Action.Type != messages.ActFail {
			r.Errorf("rules are asked where nobody asks for them: %+v", d)
		}
		r.policies(`{}`)
		if d := r.decision(r.failed(busy)); d.Rule != "server-error" {
			r.Errorf("after they were taken away: %+v", d)
		}
	})
}

// A tool that policies take for unsafe is not changed to by machine, whatever
// it declares (S3.7).
func TestTheEffectOfAPolicyCountsForAChangeOfTool(t *testing.T) {
	bubble(t, func(r *rig) {
		r.offer(messages.ToolSpec{Name: "tool", Queue: "q", Effect: messages.Idempotent}, messages.ToolSpec{Name: "other", Queue: "q", Effect: messages.ReadOnly})
		other := "other"
		r.start(with(func(context.Context, recovery.Case) (recovery.Reflection, error) {
			a := answer()
			a.Correction = &messages.Correction{Type: messages.ToolChange, Description: "the other one", AlternativeTool: &other}
			return a, nil
		}))
		if d := r.decision(r.failed(nil)); d.Action.Type != messages.ActRetry {
			r.Fatalf("to a tool that changes nothing: %+v", d)
		}
		r.policies(`{"tools":{"other":{"effect":"unsafe"}}}`)
		if d := r.decision(r.failed(nil)); d.Action.Type != messages.ActAskUser {
			r.Errorf("to one that policies take for unsafe: %+v", d)
		}
	})
}
