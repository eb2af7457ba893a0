package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTheAgent runs examples/agent against a model that is a script: it calls a
// tool, then two at a time of which one is misspelt, and then answers.
func TestTheAgent(t *testing.T) {
	s := serve(t, func(c *Config) { c.Tokens = tokens(t, "tokens: [{name: agent, token: "+tokenA+"}]") })
	says := []string{
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"once","arguments":"{\"key\":\"agent\",\"text\":\"first\"}"}}]}`,
		`{"role":"assistant","content":"Now two.","tool_calls":[{"id":"c2","type":"function","function":{"name":"upper","arguments":"{\"key\":\"agent-2\",\"text\":\"second\"}"}},{"id":"c3","type":"function","function":{"name":"uper","arguments":"{}"}}]}`,
		`{"role":"assistant","content":"All done."}`,
	}
	var asked []string
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Messages []json.RawMessage `json:"messages"`
			Tools    []json.RawMessage `json:"tools"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Tools) == 0 || len(asked) == len(says) {
			t.Errorf("request %d of the agent: %v, %d tools", len(asked), err, len(request.Tools))
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		b, _ := json.Marshal(request.Messages) // it was read
		asked = append(asked, string(b))
		_, _ = w.Write([]byte(`{"choices":[{"message":` + says[len(asked)-1] + `}]}`))
	}))
	defer model.Close()
	cmd := exec.CommandContext(t.Context(), "python3", "../../examples/agent/agent.py", "Do it.")
	cmd.Env = append(os.Environ(), "MODEL_URL="+model.URL, "GATEWAY_URL="+s.url, "GATEWAY_TOKEN="+tokenA)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "All done." {
		t.Fatalf("the agent, which needs python3: %v\n%s", err, out)
	}
	if len(asked) != 3 {
		t.Fatalf("the model was asked %d times", len(asked))
	}
	for i, want := range []string{
		`[{"role":"user","content":"Do it."}]`,
		`{"role":"tool","tool_call_id":"c1","content":"FIRST"}]`,
		`{"role":"tool","tool_call_id":"c2","content":"SECOND"},{"role":"tool","tool_call_id":"c3","content":"tool 'uper' is not available. Did you mean 'upper'?"}]`,
	} {
		if got := strings.ReplaceAll(strings.ReplaceAll(asked[i], `": "`, `":"`), `, "`, `,"`); !strings.HasSuffix(got, want) {
			t.Errorf("turn %d: %s, want %s", i, got, want)
		}
	}
	if n := shared.ran.count("agent"); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}
