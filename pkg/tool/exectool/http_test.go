package exectool_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/exectool"
)

func load(t *testing.T, text string) ([]*tool.Tool, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tools.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return exectool.Load(path)
}

// A tool that is a request stands beside one that is a command.
func TestLoadARequest(t *testing.T) {
	t.Setenv("TOKEN_OF_THE_TEST", "s3cret")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Authorization"), body)
	}))
	defer s.Close()
	tools, err := load(t, `
tools:
  - name: request
    queue: web
    effect: keyed
    timeout: 90s
    max_output: 10
    schema: {type: object}
    http:
      method: PATCH
      url: `+s.URL+`/orders/{id}
      query: {notify: "{notify}"}
      headers: {Authorization: "Bearer ${TOKEN_OF_THE_TEST}"}
      body: [address]
      status: {409: success, 423: {outcome: unavailable, after: 5s}}
      redirects: 0
      allow_addresses: [127.0.0.1]
      proxy: false
  - name: command
    command: [cat]
`)
	if err != nil {
		t.Fatal(err)
	}
	if spec := tools[0].Spec(); spec.Queue != "web" || spec.Effect != messages.Keyed || spec.Timeout.Duration() != 90*time.Second || string(spec.Schema) != `{"type":"object"}` {
		t.Errorf("%+v", spec)
	}
	in := []byte(`{"id": "a/b", "notify": true, "address": "x"}`)
	f := execute(t.Context(), tools[0], tool.Call{Input: in}).Failure
	if f == nil || f.Code != messages.CodeOutputTooLarge || !strings.Contains(f.Text, "more than 10 bytes") {
		t.Errorf("max_output: %+v", f)
	}
	big, err := load(t, `tools: [{name: request, http: {method: PATCH, url: "`+s.URL+`/orders/{id}", query: {notify: "{notify}"}, headers: {Authorization: "Bearer ${TOKEN_OF_THE_TEST}"}, body: [address], status: {409: success}, allow_addresses: [127.0.0.1]}}]`)
	if err != nil {
		t.Fatal(err)
	}
	e := execute(t.Context(), big[0], tool.Call{Input: in})
	if want := `PATCH /orders/a%2Fb?notify=true Bearer s3cret {"address":"x"}`; string(e.Output.Body) != want {
		t.Errorf("%s, %+v", e.Output.Body, e.Failure)
	}
	if e := execute(t.Context(), tools[1], tool.Call{Input: in}); string(e.Output.Body) != string(in) {
		t.Errorf("the command: %+v", e)
	}
}

func TestRequestsThatCannotBeUsed(t *testing.T) {
	one := func(fields string) string {
		return "tools:\n  - name: x\n    http:\n      url: https://api.example.com/things\n" + fields
	}
	at := func(url string) string { return "tools: [{name: x, http: {url: '" + url + "'}}]" }
	for text, want := range map[string]string{
		"tools: [{name: x, http: [a]}]":                             "line 1: a list is not a mapping that declares a request",
		"tools: [{name: x, http: {}}]":                              `tool "x": http: url: "" does not begin with https://host`,
		one("      verb: GET\n"):                                    "line 5: field verb is not known",
		one("      methods: GET\n"):                                 `line 5: field methods is not known; did you mean "method"?`,
		one("    command: [sh]\n"):                                  "command belongs to a tool that is a command",
		one("    dir: /\n"):                                         "dir belongs to a tool that is a command",
		one("    env: [PATH]\n"):                                    "env belongs to",
		one("    set_env: {A: b}\n"):                                "set_env belongs to",
		one("    kill_after: 1s\n"):                                 "kill_after belongs to",
		one("    error_from: stderr\n"):                             "error_from belongs to",
		one("    exit_codes: {1: ambiguous}\n"):                     "exit_codes belongs to",
		one("    max_output: 17MiB\n"):                              "max_output is 17825792 bytes",
		one("    timeout: -1s\n"):                                   "is negative",
		one("      method: get\n"):                                  `method "get" is not known: give one of [GET HEAD`,
		one("      method: CONNECT\n"):                              `method "CONNECT" is not known`,
		one("      body: input\n"):                                  "body: GET has none",
		one("      body: all\n"):                                    "line 5: body is input, none or a list",
		one("      body: {a: b}\n"):                                 "line 5: body is input, none or a list",
		one("      method: PUT\n      body: ['']\n"):                "the name of a field is empty",
		one("      redirects: 11\n"):                                "redirects is 11: give 0 to 10",
		one("      redirects: -1\n"):                                "redirects is -1",
		one("      redirects: 1\n      method: POST\n"):             "redirects are followed for GET and HEAD, not for POST",
		one("      status: {99: definite}\n"):                       "status: 99: give statuses from 200 to 599",
		one("      status: {404: permanent}\n"):                     `status: 404: outcome "permanent" is not known: give one of [success definite`,
		one("      status: {404: {outcome: success, after: 1s}}\n"): "after has no meaning for success",
		one("      status: {a: definite}\n"):                        `line 5: "a" is not a whole number`,
		one("      allow_addresses: [localhost]\n"):                 `allow_addresses: "localhost" is neither an address nor a prefix`,
		one("      allow_addresses: ['::ffff:10.0.0.0/104']\n"):     "is neither an address nor a prefix",
		one("      headers: {Host: a}\n"):                           "headers: Host: it is set by the worker",
		one("      headers: {idempotency-key: a}\n"):                "it is set by the worker",
		one("      headers: {'a b': a}\n"):                          "headers: a b: it is not the name of a header",
		one("      headers: {x-a: a, X-A: b}\n"):                    "it is given twice",
		one("      headers: {X-A: \"a\\nb\"}\n"):                    "holds a line break",
		one("      headers: {X-A: '${NO_SUCH_VARIABLE}'}\n"):        "headers: X-A: the worker's environment has no variable NO_SUCH_VARIABLE: set it",
		one("      headers: {X-A: '${}'}\n"):                        "${} names nothing",
		one("      headers: {X-A: '{'}\n"):                          "holds a brace that belongs to no {field}",
		one("      query: {a: '{}'}\n"):                             "query: a: {} names nothing",
		one("      query: {a: '${TOKEN}'}\n"):                       "query: a: ${TOKEN}: variables belong to headers",
		at("ftp://a/b"):                                             "does not begin with https://host",
		at("https://u:p@a/b"):                                       "url: it holds a user: send them in a header",
		at("https://{host}/b"):                                      "does not begin with https://host",
		at("https://a.{domain}/b"):                                  "has no / after its host",
		at("https://a/b?c=d"):                                       "give parameters under query",
		at("https://a/b#c"):                                         "give parameters under query",
		at("https://a/%zz"):                                         "is not an address",
		at("https://:80/a"):                                         "is not an address",
		at("https://a:b/"):                                          "is not an address",
		at("https://a/{b"):                                          "holds a brace",
		at("https://a/${TOKEN}"):                                    "variables belong to headers",
	} {
		_, err := load(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "tool.") {
			t.Errorf("%q:\n got %v\nwant %q", text, err, want)
		}
	}
	t.Setenv("BAD_VARIABLE", "s3cret\n")
	if _, err := load(t, one("      headers: {X-A: '${BAD_VARIABLE}'}\n")); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a variable with a line break: %v", err)
	}
}
