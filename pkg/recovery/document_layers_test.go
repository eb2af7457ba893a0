package recovery_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// What is right in its own layer is never wrong in the company of others: the
// later layer stands, and the other delay follows it.
func TestDelaysOfSeveralLayersFollowTheLater(t *testing.T) {
	for text, want := range map[string]struct {
		initial, longest time.Duration
		from             map[string]string
	}{
		`{"queues": {"q": {"initial_backoff_ms": 60000}}, "tools": {"t": {"max_backoff_ms": 1000}}}`: {
			time.Second, time.Second, map[string]string{"initial_backoff_ms": `tool "t"`, "max_backoff_ms": `tool "t"`}},
		`{"pool": {"max_backoff_ms": 2000}, "tools": {"t": {"initial_backoff_ms": 5000}}}`: {
			5 * time.Second, 5 * time.Second, map[string]string{"initial_backoff_ms": `tool "t"`, "max_backoff_ms": `tool "t"`}},
		`{"pool": {"max_backoff_ms": 100}}`: {
			100 * time.Millisecond, 100 * time.Millisecond, map[string]string{"initial_backoff_ms": "pool", "max_backoff_ms": "pool"}},
		`{"pool": {"initial_backoff_ms": 60000}}`: {
			time.Minute, time.Minute, map[string]string{"initial_backoff_ms": "pool", "max_backoff_ms": ""}},
		`{"queues": {"q": {"initial_backoff_ms": 50, "max_backoff_ms": 90}}, "tools": {"t": {"initial_backoff_ms": 70}}}`: {
			70 * time.Millisecond, 90 * time.Millisecond, map[string]string{"initial_backoff_ms": `tool "t"`, "max_backoff_ms": `queue "q"`}},
	} {
		p, from, err := document(t, text).Effective("q", "t", nil)
		if err != nil || p.InitialBackoff.Duration() != want.initial || p.MaxBackoff.Duration() != want.longest {
			t.Errorf("%s: %v to %v, %v", text, p.InitialBackoff.Duration(), p.MaxBackoff.Duration(), err)
		}
		for field, layer := range want.from {
			if from[field] != layer {
				t.Errorf("%s: %s is from %q, want %q", text, field, from[field], layer)
			}
		}
	}
}

func TestADocumentIsRefusedForWhatNobodyMeant(t *testing.T) {
	long := strings.Repeat("x", messages.MaxName+1)
	for text, says := range map[string]string{
		`{"pool": {"effect": "idempotent"}}`:       "pool: effect is that of a tool; say it for a tool",
		`{"tools": {"": {"max_retries": 1}}}`:      "tools: tool is empty",
		`{"queues": {"` + long + `": {}}}`:         "queues: queue is",
		`{"tools": {"` + long + `": {}}}`:          "tools: tool is",
		`"` + strings.Repeat("x", 300<<10) + `"`:   "the limit is 262144",
		`{"pool": {"include_tools": ["a", ""]}}`:   "a list holds an empty name",
		`{"tools": {"x": {"multiplier": 0.5}}}`:    `tool "x"`,
		`{"queues": {"q": {"jitter": 2}}}`:         `queue "q"`,
		`{"pool": {"breaker_reset_ms": -1}}`:       "breaker_reset_ms: -1 cannot be used",
		`{"tools": {"t": {"answer_by_ms": "1h"}}}`: `tool "t": answer_by_ms: "1h" cannot be used`,
	} {
		if _, err := recovery.ReadDocument(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s: %v", text, err)
		}
	}
}

func TestADocumentSaysWhichFieldsItOverrides(t *testing.T) {
	d := document(t, `{"queues": {"q": {"effect": "keyed"}}, "tools": {"t": {"max_retries": 0}}}`)
	for field, want := range map[string]bool{"effect": true, "max_retries": true, "jitter": false} {
		if d.Overrides(field) != want {
			t.Errorf("%s: %v", field, !want)
		}
	}
}

// FuzzDocument: any bytes are an error, or a document of which every effective
// policy can be used.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, ``, `{"pool":{"max_retries":0,"jitter":1}}`,
		`{"queues":{"q":{"initial_backoff_ms":60000}},"tools":{"t":{"max_backoff_ms":1}}}`,
		`{"pool":{"max_backoff_ms":9},"queues":{"q":{"initial_backoff_ms":0}},"tools":{"t":{"initial_backoff_ms":8796093022208}}}`,
		`{"tools":{"t":{"reflectors":[],"include_tools":["a"],"effect":"","strategy":"none","ask_user":"park","breaker":"defer","multiplier":1e308}}}`,
		`{"pool":{"prompt_template":"{error}","allow_substance":true,"budget_tokens":1},"hooks":[1],"rules":[{}]}`,
	} {
		f.Add([]byte(seed), []byte(`{"max_retries":1,"max_backoff_ms":3}`))
	}
	f.Fuzz(func(t *testing.T, raw, call []byte) {
		d, err := recovery.ReadDocument(raw)
		if err != nil {
			return
		}
		values, err := recovery.CallValues(call)
		if err != nil {
			values = nil
		}
		for _, q := range some(d.Queues) {
			for _, tool := range some(d.Tools) {
				p, _, err := d.Effective(q, tool, values)
				if err != nil {
					t.Fatalf("queue %q, tool %q, call %s: %v", q, tool, call, err)
				}
				s, err := p.Choose(func() float64 { return 0.5 })
				if err != nil {
					t.Fatalf("queue %q, tool %q: %v", q, tool, err)
				}
				a := s.Decide(messages.FailureAnalysis{IsRecoverable: true, Severity: messages.Low}, 3, messages.MaxRetries)
				if a.Delay < 0 || a.Delay.Duration() > p.MaxBackoff.Duration() {
					t.Fatalf("queue %q, tool %q: waits %v, at most %v", q, tool, a.Delay.Duration(), p.MaxBackoff.Duration())
				}
			}
		}
	})
}

// some names of a layer, and one that it does not have.
func some(layer map[string]recovery.Values) []string {
	names := []string{"another"}
	for name := range layer {
		if len(names) < 5 {
			names = append(names, name)
		}
	}
	return names
}
