package coordination

import (
	"fmt"
	"log/slog"
	"testing"

	"mulligan/internal/metrics"
	"mulligan/internal/policies"
	"mulligan/pkg/messages"
)

func quietHooks(tb testing.TB, document string) *Coordinator {
	tb.Helper()
	d, err := policies.Check([]byte(document))
	if err != nil {
		tb.Fatal(err)
	}
	log, m := slog.New(slog.DiscardHandler), metrics.NewCoordinator(nil)
	book, err := policies.NewBook(d, nil, log)
	if err != nil {
		tb.Fatal(err)
	}
	return &Coordinator{policies: book, log: log, metrics: m}
}

// A pool without hooks pays nothing for them, neither for a dispatch nor for a
// failure, and neither does one whose hooks are notes for a dispatch.
func TestNoHooksCostNothing(t *testing.T) {
	for _, document := range []string{`{}`, `{"hooks":[{"name":"n","when":"true","note":"x"}]}`} {
		c := quietHooks(t, `{"hooks":[{"name":"v","when":"true","veto":"no"}]}`)
		entry := fmt.Sprintf(`{"version":"1","document":%s,"by":"ops"}`, document)
		c.policies.Apply(messages.Entry{Key: messages.PolicyKey, Value: []byte(entry), Revision: 7})
		call := messages.Call{Tool: "t"}
		n := testing.AllocsPerRun(1000, func() {
			if c.policies.Hooks().Vetoes() {
				t.Error("vetoes")
			}
			if v, err := c.veto(t.Context(), call, nil); v != nil || err != nil {
				t.Error(v, err)
			}
			if document == `{}` {
				c.observe(messages.Failure{})
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", document, n)
		}
	}
}

// BenchmarkVeto is what hooks cost a dispatch: none, and ten that look into
// its input.
func BenchmarkVeto(b *testing.B) {
	for name, document := range map[string]string{"none": `{}`, "ten": ten()} {
		c := quietHooks(b, document)
		call, input := messages.Call{Tool: "t"}, []byte(`{"amount":10,"to":"ACC-12"}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v, err := c.veto(b.Context(), call, input); v != nil || err != nil {
					b.Fatal(v, err)
				}
			}
		})
	}
}

func ten() string {
	text := ""
	for i := range 10 {
		text += `,{"name":"n` + string(rune('0'+i)) + `","when":"tool == \"t\" && input.amount > 1000","veto":"no"}`
	}
	return `{"hooks":[` + text[1:] + `]}`
}
