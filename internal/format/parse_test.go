package format

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func TestParseTakesEveryField(t *testing.T) {
	line := `{"ref":"r1","run":"a/b","tool":"x.y","input": {"big": 12345678901234567890, "k" : [1.50]} ,"lane":"high","timeout_ms":1500,` +
		`"deadline":"2031-02-03T04:05:06.7Z","not_before":"2031-02-03T03:00:00Z","after_ms":250,"task":"do it","labels":{"team":"a"},"policy": {"max_retries": 1,	"ask_user": "park"}}`
	got, err := Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	want := messages.Submission{
		Ref: "r1", Run: "a/b", Tool: "x.y", IsJSON: true, Input: []byte(`{"big": 12345678901234567890, "k" : [1.50]}`), Lane: messages.LaneHigh,
		Timeout: messages.Millis(1500 * time.Millisecond), Deadline: time.Date(2031, 2, 3, 4, 5, 6, 7e8, time.UTC),
		NotBefore: time.Date(2031, 2, 3, 3, 0, 0, 0, time.UTC), After: messages.Millis(250 * time.Millisecond), Task: "do it",
		Labels: messages.Labels{"team": "a"}, Policy: json.RawMessage(`{"max_retries":1,"ask_user":"park"}`),
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseKeepsTheInputByteForByte(t *testing.T) {
	for line, want := range map[string]string{
		`{"tool":"t","input_text":"{\"a\": 1,,}\n"}`:           "{\"a\": 1,,}\n",
		`{"tool":"t","input":{"b":2,  "a":"\u00e9<&>"}}`:       `{"b":2,  "a":"\u00e9<&>"}`,
		`{"tool":"t","input":[1, 2]}`:                          `[1, 2]`,
		`{"tool":"t","input":null}`:                            `null`,
		`{"tool":"t","input":"text"}`:                          `"text"`,
		`{"tool":"t","input":1e400}`:                           `1e400`,
		`{"tool":"t","input":null,"input_text":"x"}`:           "x",
		`{"tool":"t","input_text":"\ud83d\ude00 \ufffd"}`:      "😀 \uFFFD",
		`{"tool":"t","input":{},"run":null,"timeout_ms":null}`: `{}`,
		`{"tool":"t","input_text":"\\ud800"}`:                  `\ud800`,
	} {
		got, err := Parse([]byte(line))
		if err != nil || string(got.Input) != want {
			t.Errorf("%s: input %q, err %v", line, got.Input, err)
		}
	}
}

func TestParseNamesFieldValueAndWayOut(t *testing.T) {
	for _, tc := range []struct {
		line  string
		wants []string
	}{
		{`{"ref":"r","tool":"t","input":{},"timout_ms":5}`, []string{"timout_ms", "did you mean \"timeout_ms\"?"}},
		{`{"ref":"r","tool":"t","input":{},"Run":"x"}`, []string{"did you mean \"run\"?"}},
		{`{"ref":"r","tool":"t","input":{},"zebra":1}`, []string{"field zebra is not known", "known are ref, run"}},
		{`{"ref":"r","tool":"t","input":{},"call":"x"}`, []string{"field call", "your own goes into ref"}},
		{`{"ref":"r","tool":"t","arguments":{}}`, []string{"arguments go into input"}},
		{`{"ref":"r","tool":"t","input":{},"tool":"u"}`, []string{"field tool is given twice"}},
		{`{"ref":"r","tool":7,"input":{}}`, []string{"tool: 7 is not a string"}},
		{`{"ref":"r","tool":"t","input":{},"lane":"urgent"}`, []string{`lane: "urgent"`, "high, normal, low"}},
		{`{"ref":"r","tool":"t","input":{},"lane":"retry"}`, []string{`lane: "retry"`}},
		{`{"ref":"r","tool":"t","input":{},"timeout_ms":"5s"}`, []string{`timeout_ms: "5s"`, "5000"}},
		{`{"ref":"r","tool":"t","input":{},"timeout_ms":-1}`, []string{`timeout_ms: -1`}},
		{`{"ref":"r","tool":"t","input":{},"timeout_ms":1.5}`, []string{`timeout_ms: 1.5`}},
		{`{"ref":"r","tool":"t","input":{},"deadline":"tomorrow"}`, []string{`deadline: "tomorrow"`, "RFC 3339"}},
		{`{"ref":"r","tool":"t","input":{},"not_before":"soon"}`, []string{`not_before: "soon"`, "RFC 3339"}},
		{`{"ref":"r","tool":"t","input":{},"after_ms":"1m"}`, []string{`after_ms: "1m"`, "60000"}},
		{`{"ref":"r","tool":"t","input":{},"after_ms":-5}`, []string{`after_ms: -5`, "0 to"}},
		{`{"ref":"r","tool":"t","input":{},"deadline":17}`, []string{`deadline: 17`}},
		{`{"ref":"r","tool":"t","input":{},"deadline":"0001-01-01T00:00:00Z"}`, []string{`deadline: "0001-01-01T00:00:00Z" has passed`}},
		{`{"ref":"r","tool":"t","input":{},"timeout_ms":9223372036855}`, []string{`timeout_ms: 9223372036855`, "out of range"}},
		{`{"ref":"r","tool":"t","input":{},"labels":[]}`, []string{`labels: []`, "object of strings"}},
		{`{"ref":"r","tool":"t","input":{},"labels":"x"}`, []string{`labels: "x"`, "object of strings"}},
		{`{"ref":"r","tool":"t","input":{},"labels":{"a":1}}`, []string{`labels: a is 1`, "not a string"}},
		{`{"ref":"r","tool":"t","input":{},"labels":{"a":null}}`, []string{`labels: a is null`, "not a string"}},
		{`{"ref":"r","tool":"t","input":{},"labels":{"a":{"b":"c"}}}`, []string{`labels: a is {"b":"c"}`, "not a string"}},
		{`{"ref":"r","tool":"t","input":{},"labels":{"a":"1","a":"2"}}`, []string{`labels: a is given twice`}},
		{`{"ref":"r","tool":"t","input":{},"labels":{"a":"\udc00"}}`, []string{"labels: a", "surrogate"}},
		{`{"ref":"r","tool":"t","input":{},"labels":{"\ud800":"x"}}`, []string{"labels: the name", "surrogate"}},
		{`{"ref":"r","tool":"t","input":{},"policy":[]}`, []string{"policy is not a JSON object"}},
		{`{"ref":"r","tool":"t","input":{},"policy":{"max_retris":1}}`, []string{"policy", "max_retris", `did you mean "max_retries"?`}},
		{`{"ref":"r","tool":"t","input":{},"policy":{"max_retries":-1}}`, []string{"policy", "max retries -1"}},
		{`{"ref":"r","tool":"t","input":{},"policy":{"effect":"read_only"}}`, []string{"policy: effect is the operator's to set", "a call may set"}},
		{`{"ref":"r","tool":"t","input":{},"policy":{"jitter":0,"jitter":1}}`, []string{"policy: jitter is given twice"}},
		{`{"ref":"r","tool":"t","input":{},"input_text":"{}"}`, []string{"both input and input_text"}},
		{`{"ref":"r","tool":"t"}`, []string{"input is missing", `"input": {}`}},
		{`{"ref":"r","input":{}}`, []string{"tool is missing"}},
		{`{"ref":"r","tool":"","input":{}}`, []string{"tool is missing"}},
		{`{"ref":"r","tool":"t","input":{},}`, []string{"is not JSON at byte"}},
		{`{"ref":"r","tool":"t","input":{"a":tru}}`, []string{"field input", "is not JSON at byte", "input_text"}},
		{`{"ref":"r","tool":"t","input":{"a":1}`, []string{"ends within"}},
		{`{"ref":"r","tool":"t","input":{}} {"x":1}`, []string{"goes on after its object", "one call a line"}},
		{`{"ref":"r","tool":"t","input_text":"a\ud83d"}`, []string{"input_text", "surrogate"}},
		{`{"ref":"r","tool":"t","input_text":"\udc00\ud800"}`, []string{"input_text", "surrogate"}},
		{"{\"ref\":\"r\",\"tool\":\"t\",\"input\":{\"a\":\"\xff\"}}", []string{"byte 36", "0xff", "UTF-8"}},
		{`[1]`, []string{"an array"}}, {`"x"`, []string{"a string"}}, {`7`, []string{"a number"}}, {`null`, []string{"null"}}, {`true`, []string{"true"}},
		{`nonsense`, []string{"is not JSON at byte"}},
	} {
		got, err := Parse([]byte(tc.line))
		if err == nil {
			t.Errorf("%s was taken", tc.line)
			continue
		}
		for _, w := range tc.wants {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s\n  says %q\n  lacks %q", tc.line, err, w)
			}
		}
		if strings.HasPrefix(tc.line, `{"ref":"r"`) && got.Ref != "r" {
			t.Errorf("%s: its ref is lost", tc.line)
		}
		if len(err.Error()) > 400 {
			t.Errorf("%s: a text of %d bytes", tc.line, len(err.Error()))
		}
	}
}

func TestParseReadsTheRefBehindAFault(t *testing.T) {
	got, err := Parse([]byte(`{"toll":"t","input":{},"ref":"behind"}`))
	if err == nil || got.Ref != "behind" {
		t.Fatalf("ref %q, err %v", got.Ref, err)
	}
}

// A line that Parse takes means the same as the wire's own decoder makes of it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"tool":"t","input":{"a":1}}`, `{"tool":"t","input_text":"\ud83d\ude00"}`, `{"tool":"t","input":null,"labels":{"a":"b"}}`,
		`{"a`, `{"tool":"t","input":[[[]]],"deadline":"2031-02-03T04:05:06Z","timeout_ms":1,"lane":"low"}`, "{\"tool\":\"\xff\"}", `{"tool":"\ud800","input":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := Parse(line)
		if err != nil {
			return
		}
		if got.Tool == "" || got.Input == nil {
			t.Fatalf("%q was taken as %+v", line, got)
		}
		b, err := got.AppendJSON(nil)
		if err != nil {
			t.Fatalf("%q cannot be sent: %v", line, err)
		}
		var back messages.Submission
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%q was sent as %q: %v", line, b, err)
		}
		if string(back.Input) != string(got.Input) || back.Tool != got.Tool || back.Ref != got.Ref || back.Run != got.Run {
			t.Fatalf("%q came back as %+v", line, back)
		}
	})
}
