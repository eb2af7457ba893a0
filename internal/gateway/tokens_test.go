package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/internal/catalogue"
	"mulligan/internal/inbox"
	"mulligan/pkg/messages"
)

const (
	tokenA = "token-of-a-0123456789abcdef"
	tokenB = "token-of-b-0123456789abcdef"
)

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func TestTokensAreReadStrictly(t *testing.T) {
	good := "tokens:\n  - name: a\n    sha256: " + digestOf(tokenA) + "\n"
	for text, want := range map[string]string{
		"":                               "is no list",
		"tokens: []":                     "holds no token",
		good + "---\ntokens: []":         "more than one document",
		"tokens: [null]":                 "is empty",
		"token: [{}]":                    "not found",
		good + "    tool: [x]":           "not found",
		good + "    may: [everything]":   "none of answer, cancel, declare",
		good + "    rate: -1":            "0 for the default",
		good + "    at_once: -1":         "0 for the default",
		good + good[len("tokens:\n"):]:   "another one",
		good + "    token: " + tokenA:    "one of the two",
		"tokens: [{name: a}]":            "one of the two",
		"tokens: [{sha256: abc}]":        "name",
		"tokens: [{name: a, sha256: x}]": "64 hexadecimal digits",
		"tokens: [{name: a, token: x}]":  "can be guessed",
	} {
		if _, _, err := parseTokens([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A file that holds tokens as they are is for its owner's eyes alone.
func TestTheFileOfTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string, mode os.FileMode) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	plain, hashed := "tokens: [{name: a, token: "+tokenA+"}]", "tokens: [{name: a, sha256: "+digestOf(tokenA)+"}]"
	for _, c := range []struct {
		text string
		mode os.FileMode
		ok   bool
	}{{plain, 0o600, true}, {plain, 0o640, false}, {plain, 0o604, false}, {hashed, 0o644, true}} {
		write(c.text, c.mode)
		k, err := LoadTokens(path)
		if (err == nil) != c.ok || err != nil && strings.Contains(err.Error(), tokenA) {
			t.Errorf("%s with %v: %v", c.text, c.mode, err)
		}
		if c.ok && (k.find(tokenA) == nil || k.find(tokenA+"x") != nil || k.find("") != nil || k.list[0].Plain != "") {
			t.Errorf("%s: %+v", c.text, k.list[0])
		}
	}
	// What is cut off could be what holds the last token to its tools.
	begin := "tokens:\n  - name: a\n    sha256: " + digestOf(tokenA) + "\n"
	write(begin+strings.Repeat("#\n", maxTokens/2-len(begin)/2)+"    tools: [x]\n", 0o644)
	if _, err := LoadTokens(path); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

// Nobody outside is let in without tokens.
func TestAnAddressForAllNeedsTokens(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "localhost:0": true, "0.0.0.0:0": false, "[::]:0": false, ":0": false, "192.0.2.1:0": false, "example.org:0": false, "7070": false,
	} {
		if err := (Config{Address: address}).CheckAddress(); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := (Config{Address: "0.0.0.0:0", Tokens: tokens(t, "tokens: [{name: a, token: "+tokenA+"}]")}).CheckAddress(); err != nil {
		t.Error(err)
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	s := serve(t, func(c *Config) {
		c.Tokens = tokens(t, "tokens:\n  - {name: a, token: "+tokenA+", tools: [upper, asks], queues: [other]}\n  - {name: b, token: "+tokenB+", may: [answer, cancel]}\n")
	})
	for _, shown := range []string{"", "wrong", tokenA[:len(tokenA)-1]} {
		a := s.ask("GET", "/v1/tools", "", "Authorization", "Bearer "+shown)
		if problemIn(t, a, 401, codeUnauthorized); a.header.Get("WWW-Authenticate") == "" {
			t.Error("it does not say how to")
		}
	}
	problemIn(t, s.ask("GET", "/v1/tools", "", "Authorization", "Basic "+tokenA), 401, codeUnauthorized)
	if a := s.ask("GET", "/v1/health", ""); a.status != 200 {
		t.Errorf("health: %d", a.status)
	}

	a, b := *s, *s
	a.token, b.token = tokenA, tokenB
	var names []string
	for _, tl := range decode[[]catalogue.Tool](t, a.ask("GET", "/v1/tools", "").body) {
		names = append(names, tl.Name)
	}
	if strings.Join(names, " ") != "asks elsewhere upper" {
		t.Errorf("a sees %v", names)
	}
	for _, name := range []string{"upper", "elsewhere"} {
		if r := a.ask("POST", "/v1/calls?wait=60", `{"tool":"`+name+`","input":{"key":"t","text":"x"}}`); r.status != 200 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	problemIn(t, a.ask("POST", "/v1/calls", `{"tool":"once","input":{"key":"t"}}`), 403, codeForbidden)
	r := a.ask("POST", "/v1/tool_calls", `[{"type":"tool_use","id":"1","name":"once","input":{}},{"type":"tool_use","id":"2","name":"upper","input":{"key":"t","text":"y"}}]`)
	if !strings.Contains(r.body, "not available to this token") || !strings.Contains(r.body, `"content":"Y"`) {
		t.Errorf("%s", r.body)
	}
	// Of calls of other tools it sees nothing, and ends none.
	left := decode[accepted](t, b.ask("POST", "/v1/calls", `{"tool":"once","run":"of-b","input":{"key":"tb","text":"x"}}`).body)
	b.ask("GET", left.Location+"?wait=60", "")
	problemIn(t, a.ask("GET", left.Location, ""), 404, messages.CodeNotFound)
	problemIn(t, a.ask("GET", left.Location+"/story", ""), 404, messages.CodeNotFound)
	if r := a.ask("GET", "/v1/runs/of-b/results", ""); r.status != 200 || r.body != "" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := b.ask("GET", "/v1/runs/of-b/results", ""); strings.Count(r.body, "\n") != 1 {
		t.Errorf("%d %s", r.status, r.body)
	}
	problemIn(t, a.ask("GET", "/v1/runs/of-b/export", ""), 403, codeForbidden)
	if r := b.ask("GET", "/v1/runs/of-b/export", ""); r.status != 200 || strings.Count(r.body, "\n") != 3 || !strings.Contains(r.body, `{"end":true,"calls":1`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	problemIn(t, a.ask("POST", left.Location+"/cancel", ""), 403, codeForbidden)
	problemIn(t, a.ask("POST", "/v1/runs/of-b/cancel", ""), 403, codeForbidden)
	parked := decode[accepted](t, a.ask("POST", "/v1/calls", `{"tool":"asks","run":"of-a","policy":{"ask_user":"park"},"input":{"key":"i","order":"ORD-101"}}`).body)
	until(t, "it asks", func() bool {
		return len(decode[[]inbox.Question](t, a.ask("GET", "/v1/inbox?run=of-a", "").body)) == 1
	})
	path := strings.Replace(parked.Location, "/calls/", "/inbox/", 1) + "/answer"
	problemIn(t, a.ask("POST", path, `{"answer":"skip"}`), 403, codeForbidden)
	if r := b.ask("POST", path, `{"answer":"skip"}`); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	// A key belongs to its token.
	const body = `{"tool":"upper","input":{"key":"shared","text":"x"}}`
	a.ask("POST", "/v1/calls?wait=60", body, headerKey, "shared")
	b.ask("POST", "/v1/calls?wait=60", body, headerKey, "shared")
	if n := shared.ran.count("shared"); n != 2 {
		t.Errorf("ran %d times", n)
	}
	if text := s.logged(); strings.Contains(text, tokenA) || strings.Contains(text, tokenB) || strings.Contains(text, "ORD-101") || !strings.Contains(text, "token=a") {
		t.Errorf("the log says %s", text)
	}
}

func TestLimitsOfAToken(t *testing.T) {
	s := serve(t, func(c *Config) {
		c.Tokens = tokens(t, "tokens:\n  - {name: slow, token: "+tokenA+", rate: 0.001}\n  - {name: few, token: "+tokenB+", at_once: 1, calls: 2}\n")
	})
	slow, few := *s, *s
	slow.token, few.token = tokenA, tokenB
	if a := slow.ask("GET", "/v1/tools", ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a := slow.ask("GET", "/v1/tools", "")
	if p := problemIn(t, a, 429, codeTooManyAsked); p.RetryAfter <= 0 || a.header.Get("Retry-After") == "" {
		t.Errorf("%+v", p)
	}
	problemIn(t, few.ask("POST", "/v1/batches", lines(3, "few")), 413, codeTooManyCalls)
	problemIn(t, few.ask("POST", "/v1/tool_calls", `[{"type":"tool_use","id":"1","name":"upper","input":{}},{"type":"tool_use","id":"2","name":"upper","input":{}},{"type":"tool_use","id":"3","name":"upper","input":{}}]`), 413, codeTooManyCalls)
	if shared.ran.count("few-0") != 0 {
		t.Error("a part of it ran")
	}
	done := make(chan answer)
	go func() {
		done <- few.ask("POST", "/v1/calls?wait=60", `{"tool":"held","input":{"key":"few"}}`)
	}()
	until(t, "the first is under way", func() bool { return shared.ran.count("few") > 0 })
	if a := few.ask("GET", "/v1/tools", ""); a.header.Get("Retry-After") == "" {
		t.Errorf("%+v", a)
	} else {
		problemIn(t, a, 429, codeTooManyAsked)
	}
	close(shared.ran.gate("few"))
	if a := <-done; a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := few.ask("GET", "/v1/tools", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
