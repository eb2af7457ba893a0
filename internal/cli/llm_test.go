package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/internal/modeltest"
)

// reflectorSays runs the program reflector against a broker that is not there,
// and returns what it says before that.
func reflectorSays(t *testing.T, env []string, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	io := IO{In: strings.NewReader(""), Out: &out, Err: &out, Dir: t.TempDir(), Env: append(env, "HOME="+t.TempDir())}
	code := Reflector(t.Context(), io, append([]string{"--server", "nats://127.0.0.1:1"}, args...))
	return out.String(), code
}

func TestFlagsOfTheModelThatCannotBeUsed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	both := []string{"--llm-url", "http://localhost:1/v1", "--llm-model", "m"}
	for says, args := range map[string][]string{
		"--llm-url without --llm-model":     {"--llm-url", "http://localhost:1/v1"},
		"--llm-model without --llm-url":     {"--llm-model", "m"},
		"--llm-rpm -1 is negative":          append(both, "--llm-rpm", "-1"),
		"--llm-timeout 1ms is not":          append(both, "--llm-timeout", "1ms"),
		"--llm-key-file: open":              append(both, "--llm-key-file", empty+"2"),
		"is empty; leave the flag out":      append(both, "--llm-key-file", empty),
		"--llm-system-prompt: open":         append(both, "--llm-system-prompt", empty+"2"),
		"is no regular expression":          append(both, "--llm-redact", "(,"),
		"MaxTokens 5 is less than 64":       append(both, "--llm-max-tokens", "5"),
		`"ftp://x/v1" is not an address of`: {"--llm-url", "ftp://x/v1", "--llm-model", "m"},
	} {
		got, code := reflectorSays(t, nil, args...)
		if code != exitUsage || !strings.Contains(got, says) {
			t.Errorf("%v: exit code %d, %s", args, code, got)
		}
	}
}

func TestTheKeyOfTheModel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("from-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  []string
		file string
		want string
	}{
		{nil, "", ""},
		{[]string{"MULLIGAN_LLM_KEY=from-the-environment"}, "", "from-the-environment"},
		{[]string{"MULLIGAN_LLM_KEY=from-the-environment"}, file, "from-a-file"},
		{[]string{"OPENAI_API_KEY=of-somebody-else"}, "", ""},
	} {
		o := &llmOptions{keyFile: c.file}
		if got, err := o.key(&app{IO: IO{Env: c.env}}); err != nil || got != c.want {
			t.Errorf("%v %s: %q, %v", c.env, c.file, got, err)
		}
	}
}

// scriptedModel is an endpoint for scripts, until it is killed: its address
// stands in model.url, and what it was asked in asked.txt. It wants every
// airport to be ZRH.
func scriptedModel() {
	asked, err := os.Create("asked.txt")
	if err != nil {
		panic(err)
	}
	s := modeltest.New(func(r modeltest.Request) modeltest.Response {
		fmt.Fprintf(asked, "%s\n%s\n", r.Header.Get("Authorization"), r.User())
		return modeltest.Says(`{"root_cause":"the code of the airport is wanted","context":"","is_recoverable":true,"severity":"low","correction":` +
			`{"description":"use ZRH","guidance":null,"correction_type":"input_fix","alternative_tool":null,"modified_input":{"to":"ZRH","password":null}}}`)
	})
	if err := os.WriteFile("model.url", []byte(s.BaseURL()), 0o600); err != nil {
		panic(err)
	}
	fmt.Println("serving")
	select {}
}
