package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/internal/calls"
	"mulligan/pkg/messages"
)

const strangeTools = `
tools:
  - {name: cat, effect: read_only, env: [PATH], command: [cat]}
  - {name: endless, effect: read_only, env: [PATH], command: ["yes", "and on and on"], max_output: 1MiB}
  - {name: silent, effect: read_only, command: [sh, -c, "exit 1"]}
  - {name: sleeper, effect: read_only, env: [PATH], timeout: 300ms, command: [sleep, "1000"]}
  - {name: stubborn, effect: read_only, env: [PATH], timeout: 300ms, kill_after: 100ms, command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"]}
  - {name: stubborn unsafe, env: [PATH], timeout: 300ms, kill_after: 100ms, command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"]}
  - {name: suicide, effect: read_only, command: [sh, -c, "kill -9 $$"]}
  - {name: bytes, effect: read_only, env: [PATH], command: [sh, -c, "printf 'a\\377b'"]}
  - {name: "server.v1/say hello", effect: read_only, env: [PATH], command: [echo, hello]}
`

type strange struct {
	name string
	line string
	want func(calls.Result) error
}

func ended(status messages.Status, texts ...string) func(calls.Result) error {
	return func(r calls.Result) error {
		if r.Status != status {
			return fmt.Errorf("ended %s: %s", r.Status, r.Reason)
		}
		for _, t := range texts {
			if r.Output == nil || !strings.Contains(*r.Output, t) {
				return fmt.Errorf("says %.300q, which lacks %q", text(r), t)
			}
		}
		return nil
	}
}

func gives(output string) func(calls.Result) error {
	return func(r calls.Result) error {
		if r.Status != messages.Succeeded || r.Output == nil || *r.Output != output {
			return fmt.Errorf("ended %s with %d bytes, want %d: %.200s", r.Status, len(text(r)), len(output), r.Reason)
		}
		return nil
	}
}

func tooLong(r calls.Result) error { return ended(messages.Refused, "longer than 33554432 bytes")(r) }

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func strangeCalls() []strange {
	call := func(tool, input string) string { return fmt.Sprintf(`{"tool":%s,"input":%s}`, quoted(tool), input) }
	var out []strange
	add := func(name, line string, want func(calls.Result) error) { out = append(out, strange{name, line, want}) }
	for _, n := range []int{100 << 10, 128<<10 - 100, 128 << 10, 500 << 10, 1<<20 - 300, 1 << 20, 1100 << 10, 15 << 20} {
		input := `{"q":` + quoted(strings.Repeat(`"\`, n/4)) + `}`
		add(fmt.Sprintf("%d bytes full of quotes", n), call("cat", input), gives(input))
	}
	name := strings.Repeat("long/name. ", 27)
	add("20 MiB", call("cat", `{"x":"`+strings.Repeat("x", 20<<20)+`"}`), ended(messages.Refused, "input is 20971528 bytes long, the limit is 16777216"))
	add("a line of 40 MiB", call("cat", `{"x":"`+strings.Repeat("x", 40<<20)+`"}`), tooLong)
	add("an unknown tool with a long name", call(name, `{}`), ended(messages.Refused, "is not available"))
	add("a tool with a strange name", call("server.v1/say hello", `{}`), gives("hello\n"))
	add("a run with a strange name", fmt.Sprintf(`{"tool":"cat","input":{},"run":%q,"ref":"./ *>"}`, name), gives("{}"))
	add("a name above the limit", fmt.Sprintf(`{"tool":"cat","input":{},"run":%q}`, strings.Repeat("x", 600)), ended(messages.Refused, "600 bytes long, the limit is 512"))
	add("an endless output", call("endless", `{}`), ended(messages.Failed, "printed more than 1048576 bytes"))
	add("silence and exit 1", call("silent", `{}`), ended(messages.Failed, "silent"))
	add("a tool that never returns", call("sleeper", `{}`), ended(messages.Failed, "Tool 'sleeper' timed out after"))
	add("a tool that ignores its end", call("stubborn", `{}`), ended(messages.Failed, "Tool 'stubborn' timed out after"))
	add("an unsafe tool that ignores its end", call("stubborn unsafe", `{}`), ended(messages.StatusUnknown, "timed out after"))
	add("a tool that is killed", call("suicide", `{}`), ended(messages.Failed, "suicide"))
	add("bytes that are not text", call("bytes", `{}`), func(r calls.Result) error {
		if r.Status != messages.Succeeded || string(r.OutputBase64) != "a\xffb" || r.Output != nil {
			return fmt.Errorf("ended %s with %q", r.Status, r.OutputBase64)
		}
		return nil
	})
	add("arguments that are no object", call("cat", `[1]`), ended(messages.Failed, "object"))
	add("arguments that nobody can read", `{"tool":"cat","input_text":"}{"}`, ended(messages.Failed, "JSON"))
	add("a good call after all that", call("cat", `{"last":true}`), gives(`{"last":true}`))
	return out
}

// Every strange call gets its documented end, whatever its siblings do.
func TestStrangeCallsEndAsDocumented(t *testing.T) {
	p := newPlace(t)
	cases := strangeCalls()
	var file strings.Builder
	for _, c := range cases {
		file.WriteString(c.line + "\n")
	}
	p.write("calls.jsonl", file.String())
	p.write("tools.yaml", strangeTools)
	var out, errs bytes.Buffer
	code := Mulligan(t.Context(), IO{In: strings.NewReader(""), Out: &out, Err: &errs, Env: p.env, Dir: p.dir}, []string{
		"run", filepath.Join(p.dir, "calls.jsonl"), "--embedded", "--tools", filepath.Join(p.dir, "tools.yaml"), "--slots", "4", "--no-journal",
	})
	if code != exitSome {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	d := json.NewDecoder(&out)
	for _, c := range cases {
		var r calls.Result
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := c.want(r); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := d.Token(); err != io.EOF {
		t.Errorf("after the last result: %v", err)
	}
}
