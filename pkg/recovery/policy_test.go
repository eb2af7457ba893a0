package recovery_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func TestS2_6_DefaultsOfThePolicy(t *testing.T) {
	p := recovery.Policy{}.WithDefaults()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if *p.MaxRetries != 3 || p.InitialBackoff.Duration() != 500*time.Millisecond || p.Multiplier != 2 || p.MaxBackoff.Duration() != 30*time.Second ||
		p.BreakerThreshold != 5 || p.BreakerReset.Duration() != time.Minute || p.PromptTemplate == "" || len(p.IncludeTools)+len(p.ExcludeTools) != 0 || p.Jitter != 0 {
		t.Errorf("%+v", p)
	}
	b, err := p.Backoff(nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []time.Duration{500, 1000, 2000, 4000, 8000, 16000, 30000, 30000} {
		if got := b.Delay(n); got != want*time.Millisecond {
			t.Errorf("retry %d: %v", n, got)
		}
	}
}

func TestS2_6_ExcludeWinsOverInclude(t *testing.T) {
	for _, c := range []struct {
		include, exclude []string
		tool             string
		want             bool
	}{
		{nil, nil, "a", true},
		{[]string{"a"}, nil, "a", true},
		{[]string{"a"}, nil, "b", false},
		{nil, []string{"a"}, "a", false},
		{nil, []string{"a"}, "b", true},
		{[]string{"a"}, []string{"a"}, "a", false},
	} {
		p := recovery.Policy{IncludeTools: c.include, ExcludeTools: c.exclude}
		if got := p.Covers(c.tool); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestS2_6_NoRetriesIsLegalAndLessIsNot(t *testing.T) {
	p := recovery.Policy{MaxRetries: new(0)}.WithDefaults()
	if err := p.Validate(); err != nil || p.Retries() != 0 {
		t.Errorf("%v, %d", err, p.Retries())
	}
	b, err := p.Backoff(nil)
	if err != nil || b.Decide(analysis(true, messages.Low, false), 0, 5).Type != messages.ActFail {
		t.Errorf("%v", err)
	}
	if p := (recovery.Policy{MaxRetries: new(99)}).WithDefaults(); p.Validate() != nil || p.Retries() != 5 {
		t.Errorf("%v, %d", p.Validate(), p.Retries())
	}
	for _, c := range []struct {
		p    recovery.Policy
		says string
	}{
		{recovery.Policy{MaxRetries: new(-1)}, "max retries -1 is negative; 0 means no retries"},
		{recovery.Policy{InitialBackoff: messages.Millis(-time.Second)}, "initial backoff -1s"},
		{recovery.Policy{Multiplier: 0.1}, "multiplier 0.1"},
		{recovery.Policy{BreakerThreshold: -1}, "breaker_threshold -1"},
		{recovery.Policy{BreakerThreshold: 1001}, "breaker_threshold 1001 is above the limit of 1000"},
		{recovery.Policy{BreakerReset: messages.Millis(-time.Second)}, "breaker_reset_ms -1000"},
		{recovery.Policy{IncludeTools: []string{""}}, "empty name"},
		{recovery.Policy{PromptTemplate: strings.Repeat("x", 99999)}, "prompt_template is 99999 bytes"},
	} {
		if err := c.p.WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
		if _, err := recovery.NewDecider(nil, nil, c.p); err == nil {
			t.Errorf("%s: a decider takes it", c.says)
		}
	}
	if err := (recovery.Policy{}).Validate(); err == nil {
		t.Error("an unfilled policy is valid")
	}
}

func TestPolicyIsReadFromItsJSON(t *testing.T) {
	var p recovery.Policy
	text := `{"max_retries":0,"initial_backoff_ms":20,"multiplier":1.5,"max_backoff_ms":40,"breaker_threshold":2,"breaker_reset_ms":10,"prompt_template":"{error}","include_tools":["a"],"exclude_tools":["b"],"jitter":0.1,"ask_user":"park"}`
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	p = p.WithDefaults()
	if *p.MaxRetries != 0 || p.InitialBackoff.Duration() != 20*time.Millisecond || p.Multiplier != 1.5 || p.MaxBackoff.Duration() != 40*time.Millisecond || p.AskUser != recovery.AskPark || p.Jitter != 0.1 {
		t.Errorf("%+v", p)
	}
}

func TestS2_2_TheServicesOptInWithJitter(t *testing.T) {
	p := recovery.ServicePolicy()
	b, err := p.Backoff(func() float64 { return 0.5 })
	if err != nil || p.Jitter == 0 {
		t.Fatal(err, p.Jitter)
	}
	if got := b.Decide(analysis(true, messages.Low, false), 0, 5); got.String() != "retry after 375ms" {
		t.Errorf("%s", got)
	}
	if _, err := p.Backoff(nil); err == nil {
		t.Error("jitter without a source")
	}
}
