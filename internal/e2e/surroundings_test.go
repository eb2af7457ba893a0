package e2e_test

import (
	"encoding/json"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// outside is a command that must end in one way.
type outside struct {
	name string
	args []string
	env  []string
	code int
	says string // on standard error
}

func (b *bench) ends(o outside) (stdout string) {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "mulligan"), o.args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), o.env...)
	out, errs, code := runCommand(b.t, cmd)
	if code != o.code || !strings.Contains(errs, o.says) {
		b.t.Errorf("%s: %.200q ended with %d and said %.300q; want %d and %q", o.name, o.args, code, errs, o.code, o.says)
	}
	return out
}

// TestTheCommandInBadSurroundings: exit codes are honest and texts say what to do.
func TestTheCommandInBadSurroundings(t *testing.T) {
	b := newBench(t, 1)
	addr, err := embedded.ReadAddress(filepath.Join(b.dir, ".mulligan"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(addr.URL)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, b.dir, "file", "")
	for _, o := range []outside{
		{name: "a second up", args: []string{"up"}, code: 2, says: "another process uses the state folder"},
		{name: "a port in use", args: []string{"up", "--state", "other", "--port", u.Port()}, code: 2, says: "port " + u.Port()},
		{name: "a state that is a file", args: []string{"up", "--state", "file"}, code: 2, says: "give another one with --state"},
		{name: "no token", args: []string{"tools", "--server", addr.URL}, code: 5, says: "Authorization"},
		{name: "a wrong token", args: []string{"tools", "--server", addr.URL}, env: []string{"MULLIGAN_TOKEN=wrong"}, code: 5, says: "Authorization"},
		{name: "no server", args: []string{"call", "echo", "{}", "--server", "nats://127.0.0.1:1"}, code: 5, says: "does not answer"},
		{name: "no pool", args: []string{"call", "echo", "{}", "--state", "nowhere"}, code: 5, says: "mulligan up"},
		{name: "another pool", args: []string{"call", "echo", "{}", "--pool", "other"}, code: 5, says: `no pool "other"`},
		{name: "no such call", args: []string{"explain", messages.NewCallID()}, code: 6, says: "not found"},
		{name: "no call", args: []string{"explain", "it"}, code: 2, says: "UUID"},
		{name: "no such tool", args: []string{"tools", "show", "ech"}, code: 6, says: `did you mean "echo"?`},
		{name: "an unknown tool", args: []string{"call", "ech", "{}"}, code: 3, says: "Did you mean 'echo'?"},
		{name: "no file", args: []string{"run", "nothing.jsonl"}, code: 6, says: "nothing.jsonl"},
		{name: "a folder", args: []string{"run", "."}, code: 2, says: "is a folder"},
		{name: "an empty file", args: []string{"run", "file"}, code: 0, says: "0 calls"},
		{name: "an unwritable result", args: []string{"run", "calls.jsonl", "--out", "no/where"}, code: 2, says: "--out"},
		{name: "not in time", args: []string{"call", "sleep", `{"ms":5000}`, "--wait", "50ms"}, code: 4, says: "not finished in time"},
		{name: "a failure", args: []string{"call", "fail", `{}`}, code: 3, says: "failed after 1 attempt"},
		{name: "a wrong flag", args: []string{"run", "--frob"}, code: 2, says: "--help"},
		{name: "a wrong command", args: []string{"frob"}, code: 2, says: "unknown command"},
	} {
		b.ends(o)
	}
}

// TestEveryJSONParses: with -o json standard output is JSON and nothing else,
// for every command and however it ends.
func TestEveryJSONParses(t *testing.T) {
	b := newBench(t, 3)
	jsons := func(o outside) (docs []map[string]any) {
		t.Helper()
		o.args = append(o.args, "-o", "json")
		d := json.NewDecoder(strings.NewReader(b.ends(o)))
		for {
			var v any
			err := d.Decode(&v)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: after %d documents: %v", o.name, len(docs), err)
			}
			list, isList := v.([]any)
			if !isList {
				list = []any{v}
			}
			for _, v := range list {
				m, _ := v.(map[string]any)
				docs = append(docs, m)
			}
		}
		if len(docs) == 0 || docs[0] == nil {
			t.Errorf("%s: no JSON object", o.name)
		}
		return docs
	}
	called := jsons(outside{name: "call", args: []string{"call", "fail", `{"text":"<\"&>\u2028"}`, "--ref", "\"\n\u2028", "--run", "\"\n"}, code: 3})
	id, _ := called[0]["call"].(string)
	for _, o := range []outside{
		{name: "run", args: []string{"run", "calls.jsonl"}},
		{name: "run of the journal", args: []string{"run", "calls.jsonl", "--order", "done"}},
		{name: "refused call", args: []string{"call", "nothing", "{}"}, code: 3},
		{name: "explain", args: []string{"explain", id}},
		{name: "cancel of an ended call", args: []string{"cancel", id}},
		{name: "cancel of a run", args: []string{"cancel", "--run", "\"\n"}},
		{name: "tools", args: []string{"tools"}},
		{name: "tools list", args: []string{"tools", "list"}},
		{name: "tools show", args: []string{"tools", "show", "fail"}},
		{name: "version", args: []string{"version"}},
		{name: "demo", args: []string{"demo"}},
		{name: "bench", args: []string{"bench", "throughput", "--calls", "400"}},
	} {
		jsons(o)
	}
}
