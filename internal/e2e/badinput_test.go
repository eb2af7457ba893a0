package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/internal/calls"
	"mulligan/pkg/messages"
)

// badTools are commands as careless people write them.
const badTools = `tools:
  - {name: cat, effect: read_only, env: [PATH], command: [cat]}
  - {name: cat and fail, effect: read_only, env: [PATH], command: [sh, -c, "cat; exit 1"]}
  - {name: typed, effect: read_only, env: [PATH], command: [cat], schema: {type: object, required: [n], additionalProperties: false,
      properties: {n: {type: integer, minimum: 1}, c: {enum: [red, green]}}}}
  - {name: recursive, effect: read_only, env: [PATH], command: [cat], schema: {$ref: "#/$defs/q", $defs: {q: {type: object, anyOf: [
      {properties: {not: {$ref: "#/$defs/q"}}, required: [not, x]}, {properties: {not: {$ref: "#/$defs/q"}}, required: [not]}, {required: [is]}]}}}}
  - {name: texts, effect: read_only, env: [PATH], command: [cat], schema: {type: object, properties: {a: {type: array, items: {type: string}}}}}
  - {name: endless, effect: read_only, env: [PATH], command: ["yes", "and on and on"], max_output: 1MiB}
  - {name: endless errors, effect: read_only, env: [PATH], timeout: 500ms, command: [sh, -c, "yes oh no >&2"]}
  - {name: silent, effect: read_only, command: [sh, -c, "exit 1"]}
  - {name: sleeper, effect: read_only, env: [PATH], timeout: 300ms, command: [sleep, "1000"]}
  - {name: stubborn, effect: read_only, env: [PATH], timeout: 300ms, kill_after: 100ms, command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"]}
  - {name: stubborn and unsafe, env: [PATH], timeout: 300ms, kill_after: 100ms, command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"]}
  - {name: suicide, effect: read_only, command: [sh, -c, "kill -9 $$"]}
  - {name: parent, effect: read_only, env: [PATH], kill_after: 200ms, command: [sh, -c, "sleep 30 & echo born"]}
  - {name: deaf, effect: read_only, env: [PATH], command: ["true"]}
  - {name: bytes, effect: read_only, env: [PATH], command: [sh, -c, "printf 'a\\377\\000b'"]}
  - {name: failing bytes, effect: read_only, env: [PATH], command: [sh, -c, "printf 'a\\377\\000b'; exit 2"]}
  - {name: "größe/☃ *.>", effect: read_only, env: [PATH], command: [cat]}
  - {name: NAME300, effect: read_only, env: [PATH], command: [cat]}
`

type badCase struct {
	name, line string
	want       func(calls.Result) error
}

type badCases []badCase

func (b *badCases) add(name, line string, want func(calls.Result) error) {
	*b = append(*b, badCase{name, line, want})
}

// end wants a status and texts within the output, which is there for every
// call: the model that made it reads nothing else.
func end(status messages.Status, texts ...string) func(calls.Result) error {
	return func(r calls.Result) error {
		switch {
		case r.Status != status:
			return fmt.Errorf("ended %s: %.300s", r.Status, r.Reason)
		case r.IsError == (status == messages.Succeeded):
			return fmt.Errorf("is_error is %v", r.IsError)
		case r.Output == nil:
			return errors.New("has no output")
		}
		for _, t := range texts {
			if !strings.Contains(*r.Output, t) {
				return fmt.Errorf("says %.300q, which lacks %q", *r.Output, t)
			}
		}
		return nil
	}
}

// exactly wants an output byte for byte.
func exactly(status messages.Status, output string) func(calls.Result) error {
	return func(r calls.Result) error {
		if err := end(status)(r); err != nil {
			return err
		}
		if *r.Output != output {
			return fmt.Errorf("gave %d bytes, want %d: %.100q", len(*r.Output), len(output), *r.Output)
		}
		return nil
	}
}

// mended wants a success that took a correction.
func mended(output string) func(calls.Result) error {
	return func(r calls.Result) error {
		if err := exactly(messages.Succeeded, output)(r); err != nil {
			return err
		}
		if r.RecoveredBy == "" || r.Attempts != 2 {
			return fmt.Errorf("took %d attempts, recovered by %q", r.Attempts, r.RecoveredBy)
		}
		return nil
	}
}

func raw(status messages.Status, output string) func(calls.Result) error {
	return func(r calls.Result) error {
		if r.Status != status || r.Output != nil || string(r.OutputBase64) != output {
			return fmt.Errorf("ended %s with %q", r.Status, r.OutputBase64)
		}
		return nil
	}
}

func refused(texts ...string) func(calls.Result) error { return end(messages.Refused, texts...) }

func asJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func line(tool, input string) string {
	return fmt.Sprintf(`{"tool":%s,"input":%s}`, asJSON(tool), input)
}

func lineOfText(tool, text string) string {
	return fmt.Sprintf(`{"tool":%s,"input_text":%s}`, asJSON(tool), asJSON(text))
}

// with adds fields to a call of cat.
func with(fields string) string { return `{"tool":"cat","input":{},` + fields + `}` }

func (b *badCases) lines() {
	for name, c := range map[string]struct{ line, says string }{
		"garbage":                 {`garbage`, "is not JSON at byte 0"},
		"half an object":          {`{"tool":"cat"`, "ends within"},
		"an array":                {`[]`, "holds an array"},
		"two calls":               {line("cat", "{}") + line("cat", "{}"), "write one call a line"},
		"an unknown field":        {`{"tool":"cat","inputs":{}}`, `did you mean "input"?`},
		"a field twice":           {with(`"tool":"cat"`), "given twice"},
		"a NUL":                   {"\x00", "is not JSON"},
		"invalid UTF-8 in input":  {"{\"tool\":\"cat\",\"input\":{\"a\":\"\xff\"}}", "not valid UTF-8"},
		"invalid UTF-8 in a name": {"{\"tool\":\"c\xfft\",\"input\":{}}", "not valid UTF-8"},
		"half a character":        {with(`"ref":"\ud800"`), "half of a surrogate pair"},
		"a deep line":             {line("cat", strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)), "exceeded max depth"},
		"a line of 33 MiB":        {line("cat", `{"x":"`+strings.Repeat("x", 33<<20)+`"}`), "is longer than 33554432 bytes"},
		"a deadline in the past":  {with(`"deadline":"2001-01-01T00:00:00Z"`), "has passed"},
		"the zero deadline":       {with(`"deadline":"0001-01-01T00:00:00Z"`), "has passed"},
		"a deadline in 7,000 AD":  {with(`"deadline":"7000-01-01T00:00:00Z"`), "too far ahead"},
		"a garbled deadline":      {with(`"deadline":"soon"`), "RFC 3339"},
		"a negative time-out":     {with(`"timeout_ms":-1`), "timeout_ms"},
		"a time-out without end":  {with(`"timeout_ms":1e30`), "timeout_ms"},
		"a time-out in words":     {with(`"timeout_ms":"5s"`), "timeout_ms"},
		"the lane of retries":     {with(`"lane":"retry"`), "none of high, normal, low"},
		"large labels":            {with(`"labels":{"a":"` + strings.Repeat("x", 4000) + `"}`), "the limit is 2048"},
		"a label of no text":      {with(`"labels":{"a":1}`), "not a string"},
		"a task of 200 KiB":       {with(`"task":` + asJSON(strings.Repeat(`t"`, 100<<10))), "shorten the task"},
		"a run of 600 bytes":      {with(`"run":"` + strings.Repeat("x", 600) + `"`), "600 bytes long, the limit is 512"},
		"a ref of 600 bytes":      {with(`"ref":"` + strings.Repeat("x", 600) + `"`), "600 bytes long, the limit is 512"},
		"a tool of 600 bytes":     {line(strings.Repeat("x", 600), "{}"), "600 bytes long, the limit is 512"},
		"20 MiB":                  {line("cat", `{"x":"`+strings.Repeat("x", 20<<20)+`"}`), "the limit is 16777216"},
		"an unknown tool":         {line("ct", "{}"), "tool 'ct' is not available. Did you mean 'cat'?"},
		"an unknown long tool":    {line(strings.Repeat("a/b. ", 60), "{}"), "is not available"},
	} {
		b.add(name, c.line, refused(c.says))
	}
}

func (b *badCases) inputs() {
	const unread = "are not valid JSON"
	for input, says := range map[string]string{`[1]`: "not an array", `null`: "not null", `"x"`: "not a string", `7`: "not a number", `true`: "not a boolean"} {
		b.add("arguments "+input, line("cat", input), end(messages.Failed, "must be a JSON object", says))
	}
	b.add("a bracket too many", lineOfText("cat", "}{"), end(messages.Failed, unread))
	b.add("no arguments", lineOfText("typed", ""), end(messages.Failed, unread, "they are empty", `"required":["n"]`))
	b.add("15 MiB of quotes", lineOfText("cat", strings.Repeat(`"`, 15<<20)), end(messages.Failed, unread))
	b.add("15 MiB of brackets", lineOfText("cat", strings.Repeat("[", 15<<20)), end(messages.Failed, unread))
	b.add("a schema violation", line("typed", `{"n":"many","c":"blue"}`), end(messages.Failed, "/c: must be one of", "/n: must be integer, got string"))
	b.add("1e400", line("typed", `{"n":1e400}`), exactly(messages.Succeeded, `{"n":1e400}`))
	b.add("1e999999999", line("typed", `{"n":1e999999999}`), end(messages.Failed, "too large"))
	b.add("2^53+1", line("typed", `{"n":9007199254740993}`), exactly(messages.Succeeded, `{"n":9007199254740993}`))
	b.add("a key twice", line("typed", `{"n":1,"n":2}`), exactly(messages.Succeeded, `{"n":1,"n":2}`))
	b.add("a wrong type", line("typed", `{"n":"2"}`), mended(`{"n":2}`))
	b.add("a wrong case", line("typed", `{"n":2,"c":"RED"}`), mended(`{"c":"red","n":2}`))
	b.add("single quotes", lineOfText("typed", `{'n': 2,}`), mended(`{"n":2}`))
	b.add("a byte order mark", lineOfText("typed", "\uFEFF"+`{"n":2}`), mended(`{"n":2}`))
	deep := strings.Repeat(`{"a":`, 9000) + `1` + strings.Repeat(`}`, 9000)
	b.add("9,000 levels", line("cat", deep), exactly(messages.Succeeded, deep))
	b.add("an input that takes years to check", line("recursive", strings.Repeat(`{"not":`, 100)+`{"is":1}`+strings.Repeat(`}`, 100)), end(messages.Failed, "cannot be checked"))
	b.add("500,000 wrong elements", line("texts", `{"a":[`+strings.Repeat("1,", 500_000)+`1]}`), end(messages.Failed, "/a/0: must be string", "and at least"))
	for _, n := range []int{100 << 10, 128<<10 - 100, 128 << 10, 500 << 10, 1<<20 - 300, 1 << 20, 1100 << 10} {
		input := `{"q":` + asJSON(strings.Repeat(`"\`, n/4)) + `}`
		b.add(fmt.Sprintf("a result of %d bytes full of quotes", len(input)), line("cat", input), exactly(messages.Succeeded, input))
		b.add(fmt.Sprintf("a failure of %d bytes full of quotes", len(input)), line("cat and fail", input), exactly(messages.Failed, input))
	}
	largest := `{"x":"` + strings.Repeat("x", messages.MaxPayload-8) + `"}`
	b.add("16 MiB", line("cat", largest), exactly(messages.Succeeded, largest))
	b.add("16 MiB that nobody reads", line("deaf", largest), exactly(messages.Succeeded, ""))
}

func (b *badCases) names(long string) {
	for _, n := range []string{"/", ".", "..", " ", " a b ", "a.b.c", "*", ">", "$SYS", "ünï", "日本", "=2F", "-", "%2F", "a\tb", "a\r\nb: c", "\x00", long, strings.Repeat("☃", 170)} {
		fields := fmt.Sprintf(`"run":%s,"ref":%[1]s`, asJSON(n))
		b.add("the name "+n, with(fields), func(r calls.Result) error {
			if r.Run != n || r.Ref != n {
				return fmt.Errorf("came back as run %q and ref %q", r.Run, r.Ref)
			}
			return exactly(messages.Succeeded, "{}")(r)
		})
	}
	for _, n := range []string{"größe/☃ *.>", long} {
		b.add("the tool "+n, line(n, `{"a":1}`), exactly(messages.Succeeded, `{"a":1}`))
	}
	for i := range 2 {
		b.add("the same ref", with(fmt.Sprintf(`"ref":"same","labels":{"i":"%d"}`, i)), func(r calls.Result) error {
			if r.Ref != "same" || r.Labels["i"] != fmt.Sprint(i) {
				return fmt.Errorf("came back as %q with %v", r.Ref, r.Labels)
			}
			return nil
		})
	}
}

func (b *badCases) tools() {
	b.add("an endless output", line("endless", "{}"), end(messages.Failed, "printed more than 1048576 bytes"))
	b.add("endless errors", line("endless errors", "{}"), end(messages.Failed, "timed out after 0.5s"))
	b.add("silence and exit 1", line("silent", "{}"), end(messages.Failed, `Tool "silent" exited with code 1 and no output`))
	b.add("a tool that never returns", line("sleeper", "{}"), end(messages.Failed, "Tool 'sleeper' timed out after 0.3s"))
	b.add("a tool that ignores its end", line("stubborn", "{}"), end(messages.Failed, "Tool 'stubborn' timed out after 0.3s"))
	b.add("an unsafe tool that ignores its end", line("stubborn and unsafe", "{}"), end(messages.StatusUnknown, "timed out after 0.3s"))
	b.add("a tool that is killed", line("suicide", "{}"), end(messages.Failed, `Tool "suicide" panicked: its process ended by signal: killed`))
	b.add("a tool that panics", line("fail", `{"kind":"panic","text":"oh"}`), end(messages.Failed, `Tool "fail" panicked: oh`))
	b.add("a child that holds the output", line("parent", "{}"), exactly(messages.Succeeded, "born\n"))
	b.add("output that is no text", line("bytes", "{}"), raw(messages.Succeeded, "a\xff\x00b"))
	b.add("a failure that is no text", line("failing bytes", "{}"), raw(messages.Failed, "a\xff\x00b"))
	b.add("the longest sleep", `{"tool":"sleep","input":{"ms":9223372036854775807},"timeout_ms":200}`, end(messages.Failed, "timed out after 0.2s"))
	b.add("a good call after all that", line("cat", `{"last":true}`), exactly(messages.Succeeded, `{"last":true}`))
}

// TestBadInputEndsAsDocumented runs one file of everything that people, models
// and tools do wrong through two coordinators, workers and reflectors. Each
// line has its documented end, in the order of the file; nobody crashes.
func TestBadInputEndsAsDocumented(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long/name. ", 27) + "end"
	dir := t.TempDir()
	tools := writeFile(t, dir, "tools.yaml", strings.ReplaceAll(badTools, "NAME300", asJSON(long)))
	var cases badCases
	cases.lines()
	cases.inputs()
	cases.names(long)
	cases.tools()
	var file bytes.Buffer
	file.WriteString("\uFEFF")
	for i, c := range cases {
		file.WriteString(c.line + []string{"\n", "\r\n", "\n\n"}[i%3])
	}
	path := writeFile(t, dir, "calls.jsonl", strings.TrimRight(file.String(), "\r\n"))

	c := start(t, 2, "--builtin", "--tools", tools, "--slots", "8")
	c.serving(2)
	out := c.mulligan(3, "run", path)
	results := decodeResults(t, out)
	if len(results) != len(cases) {
		t.Fatalf("%d lines of results for %d calls", len(results), len(cases))
	}
	for i, r := range results {
		if err := cases[i].want(r); err != nil {
			t.Errorf("%.60q: %v", cases[i].name, err)
		}
		if r.Attempts > messages.MaxAttempts {
			t.Errorf("%.60q: %d attempts", cases[i].name, r.Attempts)
		}
	}
	c.unharmed()
	if again := c.mulligan(3, "run", path); again != out {
		t.Error("the journal has other results than were printed")
	}
}

func writeFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func decodeResults(t *testing.T, out string) []calls.Result {
	t.Helper()
	var all []calls.Result
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var r calls.Result
		if err := d.Decode(&r); err != nil {
			t.Fatalf("result %d: %v", len(all)+1, err)
		}
		all = append(all, r)
	}
	return all
}

// mulligan runs the command against the cluster, which must end with this
// code, and returns its standard output.
func (c *cluster) mulligan(code int, args ...string) string {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "mulligan"), args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "MULLIGAN_SERVER="+c.url, "MULLIGAN_TOKEN="+c.token)
	out, errs, got := runCommand(c.t, cmd)
	if got != code {
		c.t.Fatalf("mulligan %.200q ended with code %d, want %d:\n%s", args, got, code, tail([]byte(errs), 2000))
	}
	return out
}

func runCommand(t *testing.T, cmd *exec.Cmd) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// unharmed says that every process is still there and that none told of a
// panic of its own.
func (c *cluster) unharmed() {
	c.t.Helper()
	for _, p := range c.all() {
		select {
		case <-p.done:
			c.t.Errorf("%s has ended: %v", p.name, p.cmd.ProcessState)
		default:
		}
		b, err := os.ReadFile(p.log)
		if err != nil {
			c.t.Fatal(err)
		}
		if at := bytes.Index(b, []byte("goroutine ")); at >= 0 {
			c.t.Errorf("%s crashed or told of a panic:\n%.2000s", p.name, b[max(0, at-500):])
		}
	}
}
