package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"mulligan/internal/calls"
	"mulligan/pkg/messages"
)

// Eight calls of one message: a 403, one that hangs, one that would need a
// human, and five fine. Eight answers, in their order.
func TestEightSiblings(t *testing.T) {
	s := serve(t, nil)
	var uses []string
	use := func(id, name, input string) {
		uses = append(uses, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, name, input))
	}
	use("a", "upper", `{"key":"8a","text":"a"}`)
	use("b", "forbidden", `{"key":"8b"}`)
	use("c", "upper", `{"key":"8c","text":"c"}`)
	use("d", "hangs", `{"key":"8d"}`)
	use("e", "asks", `{"key":"8e","order":"ORD-101"}`)
	use("f", "upper", `{"key":"8f","text":"f"}`)
	use("g", "upper", `{"key":"8g","text":"g"}`)
	use("h", "upper", `{"key":"8h","text":"h"}`)
	a := s.ask("POST", "/v1/tool_calls", `{"role":"assistant","content":[{"type":"text","text":"let me see"},`+strings.Join(uses, ",")+`]}`)
	reply := decode[[]struct {
		Role    string `json:"role"`
		Content []struct {
			Type    string `json:"type"`
			ID      string `json:"tool_use_id"`
			Content string `json:"content"`
			IsError bool   `json:"is_error"`
		} `json:"content"`
	}](t, a.body)
	if a.status != 200 || len(reply) != 1 || reply[0].Role != "user" || len(reply[0].Content) != 8 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for i, want := range []string{"a A", "b 403 Forbidden", "c C", "d ", "e order ORD-101 not found", "f F", "g G", "h H"} {
		got := reply[0].Content[i]
		id, text, _ := strings.Cut(want, " ")
		if bad := id == "b" || id == "d" || id == "e"; got.ID != id || !strings.HasPrefix(got.Content, text) || got.Content == "" || got.IsError != bad {
			t.Errorf("answer %d: %+v, want %q", i, got, want)
		}
	}
}

func TestToolCallsOfEachFormat(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct{ body, want string }{
		{`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"upper","arguments":"{\"key\":\"f\",\"text\":\"x\"}"}}]}`,
			`[{"role":"tool","tool_call_id":"c1","content":"X"}]`},
		{`{"object":"response","output":[{"type":"reasoning"},{"type":"function_call","call_id":"c2","name":"upper","arguments":"{\"key\":\"f\",\"text\":\"y\"}"}]}`,
			`[{"type":"function_call_output","call_id":"c2","output":"Y"}]`},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"upper","arguments":{"key":"f","text":"z"}}}`,
			`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"Z"}],"isError":false}}`},
		{`{"role":"assistant","content":"done"}`, `[]`},
	} {
		if a := s.ask("POST", "/v1/tool_calls", c.body); a.status != 200 || strings.TrimSpace(a.body) != c.want {
			t.Errorf("%d %s, want %s", a.status, a.body, c.want)
		}
	}
	// A call that cannot be read is refused, and its sibling runs.
	a := s.ask("POST", "/v1/tool_calls", `{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"nosuch","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"upper","arguments":"{\"key\":\"g\",\"text\":\"x\"}"}}]}`)
	if r := decode[[]struct{ Content string }](t, a.body); len(r) != 2 || !strings.Contains(r[0].Content, "nosuch") || r[1].Content != "X" {
		t.Errorf("%s", a.body)
	}
	problemIn(t, s.ask("POST", "/v1/tool_calls", `{"role":"user","content":"hi"}`), 400, codeBroken)
	problemIn(t, s.ask("POST", "/v1/tool_calls?format=xml", `{}`), 400, codeBadParameter)
}

// A message whose calls take longer than the wait is asked for again with its key.
func TestToolCallsAreWaitedForAgain(t *testing.T) {
	s := serve(t, nil)
	const body = `[{"type":"function_call","call_id":"1","name":"once","arguments":"{\"key\":\"tc1\",\"text\":\"x\"}"},{"type":"function_call","call_id":"2","name":"held","arguments":"{\"key\":\"tc2\"}"}]`
	a := s.ask("POST", "/v1/tool_calls?wait=1", body, headerKey, "turn-1")
	u := decode[unfinished](t, a.body)
	if a.status != 202 || len(u.Calls) != 2 || u.Calls[1].Location == "" || a.header.Get("Retry-After") == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	until(t, "both run", func() bool { return shared.ran.count("tc1") > 0 && shared.ran.count("tc2") > 0 })
	close(shared.ran.gate("tc2"))
	a = s.ask("POST", "/v1/tool_calls", body, headerKey, "turn-1")
	if r := decode[[]struct{ Output string }](t, a.body); a.status != 200 || len(r) != 2 || r[0].Output != "X" || r[1].Output != "let go" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if shared.ran.count("tc1") != 1 || shared.ran.count("tc2") != 1 {
		t.Fatalf("ran %d and %d times", shared.ran.count("tc1"), shared.ran.count("tc2"))
	}
}

func lines(n int, key string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"tool":"once","ref":"%d","input":{"key":"%s-%d","text":"t%d"}}`+"\n", i, key, i, i)
	}
	return b.String()
}

func TestABatchIsAnsweredInOrder(t *testing.T) {
	s := serve(t, nil)
	const n = window + 300
	body := lines(n, "batch") + "\n" + `{"tool":"nosuch","ref":"bad","input":{}}` + "\n" + `{"role":"assistant","content":"done"}` + "\n" + "no JSON\n"
	for i, order := range []string{"input", "done"} {
		a := s.ask("POST", "/v1/batches?order="+order, body, "Content-Type", "application/jsonl", headerKey, "batch-1")
		got := strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
		if a.status != 200 || len(got) != n+3 || a.header.Get("Content-Type") != typeLines {
			t.Fatalf("%d, %d lines, the last: %s\n%s", a.status, len(got), got[len(got)-1], tail(s.logged()))
		}
		refs := make(map[string]bool)
		for k, l := range got {
			if l == "[]" {
				continue
			}
			r := decode[calls.Result](t, l)
			if r.Status == messages.Succeeded && order == "input" && (r.Ref != fmt.Sprint(k) || *r.Output != fmt.Sprintf("T%d", k)) {
				t.Fatalf("line %d: %s", k, l)
			}
			refs[string(r.Status)+r.Ref] = true
		}
		if !refs["refusedbad"] || len(refs) != n+2 {
			t.Fatalf("%d refs", len(refs))
		}
		if i == 1 { // the second time nothing ran
			for k := range n {
				if c := shared.ran.count(fmt.Sprintf("batch-%d", k)); c != 1 {
					t.Fatalf("call %d ran %d times", k, c)
				}
			}
		}
	}
	problemIn(t, s.ask("POST", "/v1/batches", lines(1, "other"), headerKey, "batch-1"), 422, codeKeyReused)
}

// A batch that is not waited for is accepted as a whole, and its run has the results.
func TestABatchIsLeft(t *testing.T) {
	s := serve(t, nil)
	for _, run := range []string{"", "?run=left%2Fbatch"} {
		a := s.ask("POST", "/v1/batches"+run, lines(40, "left"+run)+`{"tool":"nosuch","ref":"bad","input":{}}`+"\n", "Prefer", "respond-async")
		l := decode[left](t, a.body)
		if a.status != 202 || l.Accepted != 40 || len(l.Refused) != 1 || l.Refused[0].Ref != "bad" || a.header.Get("Location") != l.Location {
			t.Fatalf("%d %s", a.status, a.body)
		}
		until(t, "all have ended", func() bool {
			b := s.ask("GET", l.Location, "")
			return b.status == 200 && strings.Count(b.body, "\n") == 40
		})
		events(t, s, l.Location, 40)
	}
}

// events reads the events of a run, half of them over a second connection.
func events(t *testing.T, s *served, location string, n int) {
	t.Helper()
	last, seen := "", make(map[string]bool)
	for _, most := range []int{n / 2, n - n/2} {
		ctx, stop := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+location, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", typeEvents)
		if last != "" {
			req.Header.Set(headerLastEvent, last)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(resp.Body)
		for got := 0; got < most && in.Scan(); {
			if id, ok := strings.CutPrefix(in.Text(), "id: "); ok {
				last = id
			}
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				r := decode[calls.Result](t, data)
				if seen[r.Call] {
					t.Fatalf("result of %s came twice", r.Call)
				}
				seen[r.Call] = true
				got++
			}
		}
		stop()
		_ = resp.Body.Close()
	}
	if len(seen) != n {
		t.Fatalf("%d results of %d", len(seen), n)
	}
}

// When the wait is over before all lines are answered, the last line says so,
// and the same request with the same key gives them all.
func TestABatchThatIsNotFinished(t *testing.T) {
	s := serve(t, nil)
	body := lines(2, "unfinished") + `{"tool":"held","input":{"key":"unfinished"}}` + "\n"
	a := s.ask("POST", "/v1/batches?wait=1", body, headerKey, "unfinished")
	got := strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
	if p := decode[problem](t, got[len(got)-1]); a.status != 200 || p.Code != codeNotFinished || p.Status != 504 || p.RequestID == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	close(shared.ran.gate("unfinished"))
	a = s.ask("POST", "/v1/batches", body, headerKey, "unfinished")
	if strings.Count(a.body, `"status":"succeeded"`) != 3 || shared.ran.count("unfinished-0") != 1 || shared.ran.count("unfinished") > 1 {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

// Nothing runs of a batch that did not come as a whole.
func TestABatchThatBreaksOff(t *testing.T) {
	s := serve(t, nil)
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, lines(10, "broken"))
		w.CloseWithError(errors.New("gone"))
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/batches", r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", typeLines)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Fatalf("status %d", resp.StatusCode)
	}
	s.ask("POST", "/v1/calls?wait=60", `{"tool":"once","input":{"key":"broken-0"}}`) // whatever came before it would have run by now
	if n := shared.ran.count("broken-0"); n != 1 {
		t.Fatalf("ran %d times", n)
	}
}

func tail(s string) string { return s[max(0, len(s)-3000):] }
