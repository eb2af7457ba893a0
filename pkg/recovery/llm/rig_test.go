package llm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mulligan/internal/modeltest"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const flights = `{"type":"object","properties":{"to":{"type":"string"},"seats":{"type":"integer"},"note":{"type":"string"}},"required":["to"],"additionalProperties":false}`

func failure() recovery.Case {
	return recovery.Case{
		Tool: "flights/search", Schema: json.RawMessage(flights), Effect: messages.ReadOnly, Input: []byte(`{"to":"Zurich","seats":2}`),
		Code: messages.CodeToolError, Error: "unknown airport", Executed: true, MaxRetries: 3,
		Tools:   []messages.ToolSpec{{Name: "flights/search", Effect: messages.ReadOnly}, {Name: "airports/find", Effect: messages.ReadOnly}},
		Context: messages.ReflectionContext{Task: "fly two people to Zürich", Attempt: 1, MaxAttempts: messages.MaxRetries},
	}
}

// answer is one that fits, with some fields in place of its own.
func answer(fields map[string]any) string {
	all := map[string]any{"root_cause": "the code of the airport is wanted", "context": "", "is_recoverable": true, "severity": "medium",
		"correction": correction(map[string]any{})}
	for k, v := range fields {
		if all[k] = v; v == missing {
			delete(all, k)
		}
	}
	return encode(all)
}

type absent struct{}

var missing = absent{}

func correction(fields map[string]any) map[string]any {
	all := map[string]any{"description": "use the code ZRH", "guidance": nil, "correction_type": "input_fix", "alternative_tool": nil,
		"modified_input": map[string]any{"to": "ZRH", "seats": 2, "note": nil}}
	for k, v := range fields {
		if all[k] = v; v == missing {
			delete(all, k)
		}
	}
	return all
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func always(r modeltest.Response) func(modeltest.Request) modeltest.Response {
	return func(modeltest.Request) modeltest.Response { return r }
}

// reflector asks a scripted model.
func reflector(t testing.TB, s *modeltest.Server, change func(*llm.Config)) *llm.Reflector {
	t.Helper()
	cfg := llm.Config{BaseURL: s.BaseURL(), Model: "m-1", Key: "key-of-the-endpoint", Timeout: 5 * time.Second, PriceIn: 2, PriceOut: 10}
	if change != nil {
		change(&cfg)
	}
	r, err := llm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask puts one case to a model that always answers the same.
func ask(t testing.TB, c recovery.Case, r modeltest.Response) (recovery.Reflection, *modeltest.Server, error) {
	t.Helper()
	s := modeltest.Start(t, always(r))
	got, err := reflector(t, s, nil).Analyse(t.Context(), c)
	return got, s, err
}

// internal says whether an error is an internal reflection error that says this.
func internal(err error, says string) error {
	if err == nil || !strings.HasPrefix(err.Error(), "reflection internal error: ") || !strings.Contains(err.Error(), says) {
		return fmt.Errorf("got %v, want an internal error that says %q", err, says)
	}
	return nil
}

// lines are those of the user message, by what stands before the colon, without
// the markers.
func lines(t *testing.T, message string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for l := range strings.SplitSeq(message, "\n") {
		name, value, ok := strings.Cut(l, ": ")
		if !ok || out[name] != "" {
			t.Fatalf("a line that is none, or is there twice: %q", l)
		}
		if strings.HasPrefix(value, "<data-") {
			_, value, _ = strings.Cut(value, ">")
			value = value[:strings.LastIndex(value, "</")]
		}
		out[name] = value
	}
	return out
}

func equalJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && encode(x) == encode(y)
}
