package inbox

import (
	"strings"
	"testing"
	"time"

	"mulligan/internal/fuzztest"
	"mulligan/internal/story"
	"mulligan/pkg/messages"
)

// Whatever a record says, a human is asked in a text that shows all that there
// is to read, and hides nothing in it.
func FuzzQuestion(f *testing.F) {
	const call = `"envelope":{"call":"019ca8bb-b5c0-7c3a-9f00-5a1f0c2b7d10","run":"r","tool":"pay\u202e","queue":"q","ref":"\u001b[2J"}`
	f.Add([]byte(`{"version":"1","state":"parked","n":1,"prompt":"sure?\u200b","answer_by":"9999-12-31T00:00:00Z",` + call + `,"input":{"text":"{\"a\":\"\u001b\"}"},"proposed":{"correction_type":"input_fix","modified_input":{"a":"\u202e"},"description":"\u001b"}}`))
	f.Add([]byte(`{"version":"1","state":"parked","n":0,` + call + `,"input":{"base64":"/w=="},"proposed":{"correction_type":"tool_change","alternative_tool":"\u001b","modified_input":null}}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := messages.DecodeRecord(value)
		if err != nil {
			return
		}
		fuzztest.Bounded(t, len(value), func() {
			q := question(Place{Run: "r", Call: "c", Dispatch: r.N}, r)
			var text strings.Builder
			if err := q.WriteText(&text, time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
			if i := strings.IndexFunc(text.String(), func(r rune) bool { return story.Hidden(r) && r != '\n' && r != '\t' }); i >= 0 {
				t.Fatalf("a hidden character: %q", text.String()[max(0, i-40):i+1])
			}
			if q.Input == nil {
				return
			}
			for l := range strings.SplitSeq(strings.TrimRight(story.Visible(*q.Input), "\n"), "\n") {
				if !strings.Contains(text.String(), l) {
					t.Fatalf("%.200q of the input is not shown", l)
				}
			}
		})
	})
}
