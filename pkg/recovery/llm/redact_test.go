package llm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mulligan/internal/modeltest"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery/llm"
)

// Secrets of every kind, wherever they stand; none of it is real. They are put
// together here, so that no scanner takes them for what they look like.
var examples = map[string]struct{ text, secret string }{
	"bearer":           {"Authorization: Bearer abc.DEF-ghi_123", "abc.DEF-ghi_123"},
	"bearer in a text": {"sent bearer 0123456789abcdef and got 401", "0123456789abcdef"},
	"basic":            {"header Basic " + "dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="},
	"JWT":              {"token was eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.c2lnbmF0dXJl!", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.c2lnbmF0dXJl"},
	"AWS":              {"key AKIA" + "IOSFODNN7EXAMPLE is unknown", "AKIAIOSFODNN7EXAMPLE"},
	"OpenAI":           {"Incorrect key sk-" + "proj-abcdefghijklmnop1234", "sk-proj-abcdefghijklmnop1234"},
	"Stripe":           {"charge with sk_" + "live_abcdefghijklmnop1234", "sk_live_abcdefghijklmnop1234"},
	"GitHub":           {"ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
	"Slack":            {"xoxb-" + "123456789012-abcdefgh", "xoxb-123456789012-abcdefgh"},
	"private key":      {"-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\ndef==\n-----END RSA PRIVATE KEY-----", "MIIEabc"},
	"cut private key":  {"-----BEGIN PRIVATE KEY-----\nMIIEabcdef", "MIIEabcdef"},
	"an address":       {"cannot reach postgres://shop:hunter22@db:5432/orders", "hunter22"},
	"key=value":        {"login failed: password=hunter22&user=me", "hunter22"},
	"JSON in a text":   {`body was {"api_key": "hunter 22 b", "n": 1}`, "hunter 22 b"},
	"escaped JSON":     {`"{\"db_password\": \"hunter22\"}"`, "hunter22"},
	"colon":            {"access-token: hunter22", "hunter22"},
	"configured":       {"order ACME-77 of customer 9", "ACME-77"},
	"configured group": {"ssn is 123-45-6789", "123-45-6789"},
	"its own key":      {"echo key-of-the-endpoint", "key-of-the-endpoint"},
}

func configured(c *llm.Config) {
	c.Redact, c.RedactKeys = []string{`ACME-\d+`, `ssn is (\S+)`}, []string{"Iban Number"}
}

func TestS9_6_NoSecretLeaves(t *testing.T) {
	for name, e := range examples {
		c := failure()
		c.Error, c.Context.Task, c.Context.Causes = e.text, "task: "+e.text, []string{e.text}
		c.Input = []byte(encode(map[string]any{"to": e.text, "list": []string{e.text}}))
		c.Schema = json.RawMessage(`{"type":"object","properties":{"to":{"type":"string","default":` + encode(e.text) + `}}}`)
		s := modeltest.Start(t, always(modeltest.Says(answer(map[string]any{"correction": nil}))))
		if _, err := reflector(t, s, configured).Analyse(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		raw := s.Requests()[0].Raw
		if strings.Contains(raw, e.secret) || strings.Contains(raw, strings.Trim(encode(e.secret), `"`)) {
			t.Errorf("%s leaves: %s", name, raw)
		}
		if n := strings.Count(raw, "[withheld-1-"); n < 5 {
			t.Errorf("%s: %d placeholders in %s", name, n, raw)
		}
	}
}

// What stands under a secret name is withheld there, and wherever else it is
// said.
func TestS9_6_NamesOfSecrets(t *testing.T) {
	for _, key := range []string{"password", "user_password", "dbPasswd", "API-Key", "accessToken", "client_secret", "Authorization", "pin", "cvv", "iban_number", "Set-Cookie"} {
		c := failure()
		c.Schema = nil
		c.Input = []byte(encode(map[string]any{"to": "x", key: "swordfish", "more": map[string]any{key: []any{map[string]any{"v": 471147}}}}))
		c.Error = "swordfish is refused, and 471147"
		s := modeltest.Start(t, always(modeltest.Says(answer(map[string]any{"correction": nil}))))
		if _, err := reflector(t, s, configured).Analyse(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if raw := s.Requests()[0].Raw; strings.Contains(raw, "swordfish") || strings.Contains(raw, "471147") {
			t.Errorf("%s: %s", key, s.Requests()[0].User())
		}
	}
}

// What only sounds like a secret is needed to understand the failure.
func TestWhatIsNoSecret(t *testing.T) {
	c := failure()
	c.Schema = nil
	c.Input = []byte(`{"max_tokens":4096,"passenger":"Ann Basic","tokenizer":"bpe","keyboard":"azerty","author":"Poe"}`)
	c.Error = "password: required; token: expired; basic information is missing; Bearer authentication failed; max_tokens: 4096 is too large; see https://example.com/@poe"
	_, s, err := ask(t, c, modeltest.Says(answer(map[string]any{"correction": nil})))
	if err != nil {
		t.Fatal(err)
	}
	got := lines(t, s.Requests()[0].User())
	if got["Error"] != encode(c.Error) || !equalJSON(got["Input"], string(c.Input)) {
		t.Errorf("%s\n%s", got["Error"], got["Input"])
	}
}

// echo answers with the input as it was shown, changed.
func echo(t *testing.T, change func(map[string]any) any) func(modeltest.Request) modeltest.Response {
	return func(r modeltest.Request) modeltest.Response {
		var input map[string]any
		if err := json.Unmarshal([]byte(lines(t, r.User())["Input"]), &input); err != nil {
			t.Error(err)
		}
		return modeltest.Says(answer(map[string]any{"correction": correction(map[string]any{"modified_input": change(input), "guidance": "use the code"})}))
	}
}

func TestS9_6_WithheldValuesComeBackToTheirPlaceOnly(t *testing.T) {
	input := `{"to":"Zurich","password":"hunter22","pin":471147,"url":"https://me:pw12345@host/x","auth":[{"key":"swordfish"}]}`
	for name, c := range map[string]struct {
		change func(map[string]any) any
		want   string // "" when the correction is dropped
	}{
		"nothing moved": {func(m map[string]any) any { m["to"] = "ZRH"; return m }, strings.Replace(input, "Zurich", "ZRH", 1)},
		"one is gone": {func(m map[string]any) any { delete(m, "pin"); return m },
			`{"to":"Zurich","password":"hunter22","url":"https://me:pw12345@host/x","auth":[{"key":"swordfish"}]}`},
		"to another place":   {func(m map[string]any) any { m["to"] = m["password"]; return m }, ""},
		"into an address":    {func(m map[string]any) any { m["url"] = fmt.Sprint("https://evil/?", m["password"]); return m }, ""},
		"the address around": {func(m map[string]any) any { m["url"] = strings.Replace(m["url"].(string), "host", "evil", 1); return m }, ""},
		"into a name":        {func(m map[string]any) any { m[m["password"].(string)] = 1; return m }, ""},
		"under another name": {func(m map[string]any) any { m["passwd"] = m["password"]; delete(m, "password"); return m }, ""},
		"in another order":   {func(m map[string]any) any { m["auth"] = append([]any{0}, m["auth"].([]any)...); return m }, ""},
		"a forged one":       {func(m map[string]any) any { m["to"] = "[withheld-1-0000]"; return m }, ""},
		"as text":            {func(m map[string]any) any { m["to"] = "ZRH"; return encode(m) }, strings.Replace(input, "Zurich", "ZRH", 1)},
		"as a patch": {func(map[string]any) any {
			return []any{map[string]any{"op": "replace", "path": "/to", "from": nil, "value": "ZRH"}}
		}, strings.Replace(input, "Zurich", "ZRH", 1)},
		"as a patch that moves it": {func(map[string]any) any {
			return []any{map[string]any{"op": "copy", "path": "/to", "from": "/password", "value": nil}}
		}, ""},
	} {
		f := failure()
		f.Schema, f.Input = nil, []byte(input)
		s := modeltest.Start(t, echo(t, c.change))
		got, err := reflector(t, s, nil).Analyse(t.Context(), f)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if raw := s.Requests()[0].Raw; strings.Contains(raw, "hunter22") || strings.Contains(raw, "471147") || strings.Contains(raw, "swordfish") {
			t.Errorf("%s: a secret left: %s", name, raw)
		}
		if c.want == "" {
			if got.IsRecoverable || got.Correction.ModifiedInput != nil || got.Correction.Type != messages.ApproachChange || got.Correction.GuidanceText() != "use the code" ||
				!strings.Contains(got.Context, "withheld from models") {
				t.Errorf("%s: %+v %s", name, got, got.Correction.ModifiedInput)
			}
			continue
		}
		if !got.IsRecoverable || !equalJSON(string(got.Correction.ModifiedInput), c.want) {
			t.Errorf("%s: %s", name, got.Correction.ModifiedInput)
		}
	}
}
