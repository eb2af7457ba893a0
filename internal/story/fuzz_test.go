package story

import (
	"strings"
	"testing"
	"time"

	"mulligan/internal/fuzztest"
	"mulligan/pkg/messages"
)

// Whatever stands in the streams about a call, its story can be told, in a
// text that writes nothing to a terminal but letters and line ends.
func FuzzStory(f *testing.F) {
	f.Add([]byte(`{"version":"1","code":"tool_error","error":"\u001b[2J","stderr":"\u009b","worker":"\u001b]0;x\u0007","envelope":{"call":"019ca8bb-b5c0-7c3a-9f00-5a1f0c2b7d10","run":"r","tool":"t\u202e","queue":"q"},"input":{"text":"{\"\u001b\":1}"}}`),
		[]byte(`{"version":"1","envelope":{"call":"019ca8bb-b5c0-7c3a-9f00-5a1f0c2b7d10","run":"r","tool":"t","queue":"q"},"input":{"text":"{\"\u001b\":2}"},"code":"tool_error"}`))
	f.Add([]byte(`{"version":"1","why":"\u001b[31m","worker":"\u001b[31m","failure":null,"output":{"base64":"/w=="}}`), []byte(`{"version":"1","kind":"skip","by":"\u001b","reason":"\n\u001b"}`))
	f.Add([]byte(`{"version":"1","status":"cancelled","by":"\u001b","reason":"\u001b"}`), []byte(`{"version":"1","token":"x","worker":"\u001b","tombstone":"\u001b"}`))
	f.Add([]byte(`{"version":"1","action":{"type":"retry","prompt":"\u001b"},"by":"\u001b","rule":"\u001b","analysis":{"severity":"low","root_cause":"\u001b","correction":{"correction_type":"input_fix","description":"\u001b"}}}`), []byte(`{}`))
	f.Add([]byte(`{"version":"1","state":"dispatched","n":25,"envelope":{"call":"019ca8bb-b5c0-7c3a-9f00-5a1f0c2b7d10"},"due_at":"9999-01-01T00:00:00Z"}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		fuzztest.Bounded(t, len(first)+len(second), func() {
			m := &Material{Failures: map[int]messages.Failure{}, Decisions: map[int]messages.Decision{}, Answers: map[int]messages.Answer{}}
			for n, body := range [][]byte{first, second} {
				for _, kind := range []string{messages.KindFailure, messages.KindDecision, messages.KindAnswer, messages.KindStart, messages.KindCancel, messages.KindLate} {
					_ = m.add(messages.Address{Kind: kind, N: n}, messages.Stored{Message: messages.Message{Body: body}})
				}
				if r, err := messages.DecodeRecord(body); err == nil {
					m.Record = &r
				}
			}
			var text strings.Builder
			if err := Build(m, time.Unix(1e9, 0)).WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if i := strings.IndexFunc(text.String(), func(r rune) bool { return Hidden(r) && r != '\n' && r != '\t' }); i >= 0 {
				t.Fatalf("a hidden character: %q", text.String()[max(0, i-40):i+1])
			}
		})
	})
}

// A change that is told leads from the one input to the other, and the same
// inputs have none.
func FuzzChanges(f *testing.F) {
	f.Add(`{"a":1,"b":[1,2]}`, `{"a":2,"b":[1,3],"c":null}`)
	f.Add(`{`, `1`)
	f.Add(strings.Repeat(`[`, 9000)+`1`+strings.Repeat(`]`, 9000), strings.Repeat(`[`, 9000)+`2`+strings.Repeat(`]`, 9000))
	f.Fuzz(func(t *testing.T, a, b string) {
		fuzztest.Bounded(t, len(a)+len(b), func() {
			if c := Changes("t", a, "t", a); len(c) > 0 {
				t.Fatalf("%q to itself: %v", a, c)
			}
			forth, back := Changes("t", a, "t", b), Changes("t", b, "t", a)
			if len(forth) != len(back) {
				t.Fatalf("%d changes there and %d back", len(forth), len(back))
			}
			for i := range forth {
				if forth[i].From != back[i].To || forth[i].To != back[i].From || forth[i].Path != back[i].Path || forth[i].From == forth[i].To {
					t.Fatalf("%+v there, %+v back", forth[i], back[i])
				}
			}
		})
	})
}

func TestWhatAWorkerIsCalledDoesNotReachTheTerminalAsItIs(t *testing.T) {
	m := &Material{Late: []Late{{Late: messages.Late{Why: "\x1b[2J", Worker: "\u202e", Output: &messages.Body{}}}}, Cancel: &messages.Cancel{By: "\x1b]0;x\a"}}
	var text strings.Builder
	if err := Build(m, time.Unix(1e9, 0)).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`\x1b[2J`, `\u{202e}`, `\x1b]0;x\x07`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is not in %q", want, text.String())
		}
	}
}

func TestWhatDiffersTooDeepToBeNamedIsToldAsAWhole(t *testing.T) {
	a, b := strings.Repeat(`[`, 5000)+`1,1`+strings.Repeat(`]`, 5000), strings.Repeat(`[`, 5000)+`2,2`+strings.Repeat(`]`, 5000)
	c := Changes("t", a, "t", b)
	if len(c) != 1 || len(c[0].Path) > maxPath+10 || !strings.Contains(c[0].To, "2,2") {
		t.Errorf("%d changes, %.200v", len(c), c)
	}
}
