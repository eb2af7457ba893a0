package format

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// variant is a line of testdata/variants.jsonl, which `make variants` writes
// from the libraries of the providers.
type variant struct {
	Package string          `json:"package"` // of those that follow
	Version string          `json:"version"`
	Module  string          `json:"module"`
	Of      string          `json:"of"`
	Variant string          `json:"variant"`
	Sample  json.RawMessage `json:"sample"`
}

const (
	chatBeside      = `{"id":"beside","type":"function","function":{"name":"t","arguments":"{}"}}`
	responsesBeside = `{"type":"function_call","call_id":"beside","name":"t","arguments":"{}"}`
	anthropicBeside = `{"type":"tool_use","id":"beside","name":"t","input":{}}`
)

// places are the lines that a variant of a type may stand in; %s is where, with
// a call beside it where there can be one.
var places = map[string][]string{
	"ChatCompletionMessageParam":          {`%s`},
	"ChatCompletionMessageToolCall":       {`%s`, `{"role":"assistant","content":null,"tool_calls":[%s,` + chatBeside + `]}`},
	"ChatCompletion":                      {`%s`},
	"ChatCompletion.Choice.finish_reason": {`{"object":"chat.completion","choices":[{"index":0,"finish_reason":%s,"message":{"role":"assistant","tool_calls":[` + chatBeside + `]}}]}`},
	"ResponseOutputItem":                  {`%s`, `{"object":"response","status":"completed","output":[%s,` + responsesBeside + `]}`},
	"ResponseInputItem":                   {`%s`},
	"Response.status":                     {`{"object":"response","status":%s,"output":[` + responsesBeside + `]}`},
	"ContentBlock":                        {`%s`, `{"role":"assistant","content":[%s,` + anthropicBeside + `]}`},
	"ContentBlockParam":                   {`%s`, `[%s,` + anthropicBeside + `]`},
	"Message.stop_reason":                 {`{"type":"message","role":"assistant","stop_reason":%s,"content":[` + anthropicBeside + `]}`},
	"MessageBatchResult":                  {`{"custom_id":"c","result":%s}`},
	"BetaContentBlock":                    {`%s`, `{"role":"assistant","content":[%s,` + anthropicBeside + `]}`},
	"BetaContentBlockParam":               {`%s`, `[%s,` + anthropicBeside + `]`},
	"BetaMessage.stop_reason":             {`{"type":"message","role":"assistant","stop_reason":%s,"content":[` + anthropicBeside + `]}`},
}

func variants(t *testing.T) []variant {
	t.Helper()
	f, err := os.Open("testdata/variants.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []variant
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var v variant
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// Every variant that the providers' libraries have for what holds calls is read
// as testdata/variants.golden says: a call, passed over, or refused with a
// reason. None hides the call beside it.
func TestVariants(t *testing.T) {
	var got bytes.Buffer
	seen := make(map[string]bool)
	for _, v := range variants(t) {
		if v.Package != "" {
			fmt.Fprintf(&got, "# %s %s\n", v.Package, v.Module)
			continue
		}
		seen[v.Of] = true
		if places[v.Of] == nil {
			t.Errorf("%s has no place", v.Of)
		}
		for _, place := range places[v.Of] {
			line := fmt.Sprintf(place, v.Sample)
			l := Read([]byte(line), Auto)
			where := "within"
			if place == "%s" {
				where = "alone"
			}
			fmt.Fprintf(&got, "%s %s, %s:%s\n", v.Of, v.Variant, where, outcome(l))
			if strings.Contains(place, "[%s,") {
				last := len(l.Calls) - 1
				if last < 0 || l.Calls[last].Ref != "beside" || l.Calls[last].Err != nil {
					t.Errorf("%s hides the call beside it: %s", v.Variant, outcome(l))
				}
			}
			if strings.Contains(place, "beside") && len(l.Calls) == 0 {
				t.Errorf("%s %s hides a call", v.Of, v.Variant)
			}
		}
	}
	for of := range places {
		if !seen[of] {
			t.Errorf("%s has no variant", of)
		}
	}
	const golden = "testdata/variants.golden"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant %s", got.String(), golden)
	}
}

func outcome(l Line) string {
	if len(l.Calls) == 0 {
		return " calls nothing"
	}
	var b strings.Builder
	for _, c := range l.Calls {
		fmt.Fprintf(&b, " %q", c.Ref)
		if c.Err != nil {
			fmt.Fprintf(&b, " refused (%.40s…)", c.Err)
		}
	}
	return b.String()
}
