package exectool

import (
	"bytes"
	"strings"
	"testing"

	"mulligan/internal/fuzztest"
	"mulligan/internal/schema"
	"mulligan/pkg/tool"
)

// A declaration is refused in a text that can be shown and names the tool, or
// its schema can be compiled and its environment has no two of a name and none
// that would be cut.
func FuzzDeclaration(f *testing.F) {
	for _, s := range []string{
		"tools: [{name: x, command: [sh], exit_codes: {75: unavailable, 1: {outcome: retry_after, after: 5s, nothing_done: true}}, max_output: 1KiB, env: [PATH, A], set_env: {A: b, B: c}}]",
		"tools: [{name: x, command: [sh], schema: {type: object, properties: {a: {type: integer}}}}]", "tools: [{name: x, command: [sh], schema: {1: 2}}]", "tools: [{name: x, command: [sh], schema: {a: .nan}}]",
		"tools: [{name: x, command: [sh], exit_codes: {1: {outcome: unavailable, after: -1s}}}]", "tools: [{name: x, command: [sh], set_env: {MULLIGAN_KEY: a}}]", "tools: [{name: x, command: [\"\\0\"]}]", "tools: [{name: x, command: [sh], timeout: 9999999999h}]",
		"x: &a [sh,sh,sh,sh,sh,sh,sh,sh]\ntools: [{name: x, command: *a}]", "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\ntools: [{name: x, command: [sh], schema: {enum: [*b,*b,*b,*b,*b,*b,*b,*b]}}]",
		"tools: [{name: x, command: [sh], schema: &s {properties: {a: *s}}}]", "tools: [{name: " + strings.Repeat("n", 5000) + ", command: []}]", strings.Repeat("[", 10_000), "tools: [{? {a: b} : c}]", "tools: [{name: x, exit_codes: {1: {? [a] : b}}}]", "tools: [{<<: {name: x}, command: [sh]}]",
		"tools: [{name: x, http: {method: PUT, url: 'https://a/{b}', query: {c: '{d}'}, headers: {E: '${F}'}, body: [g], status: {409: ambiguous}, allow_addresses: [10.0.0.0/8]}}]", "tools: [{name: x, http: {url: 'https://a/{'}}]", "tools: [{name: x, http: {body: {a: b}}}]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bounded(t, len(b), func() {
			ds, err := Parse(b)
			if err != nil {
				if len(err.Error()) > 4*len(b)+fuzztest.MaxError {
					t.Fatalf("an error of %d bytes for %d: %.300s", len(err.Error()), len(b), err)
				}
				return
			}
			for _, d := range ds[:min(len(ds), 20)] {
				d.SchemaFile = "" // another file is read by another target
				checkDeclaration(t, d)
			}
		})
	})
}

func checkDeclaration(t *testing.T, d Declaration) {
	t.Helper()
	d = d.WithDefaults("/")
	if err := d.Validate(); err != nil {
		if !strings.Contains(err.Error(), "tool ") {
			t.Fatalf("it names no tool: %v", err)
		}
		return
	}
	raw, err := d.inputSchema("/")
	if err != nil {
		return
	}
	if _, err := schema.Compile(raw); err != nil {
		t.Fatalf("a schema that was taken: %v", err)
	}
	if d.HTTP != nil {
		return // package httptool has a target of its own
	}
	c := &command{d: d, program: d.Command[0]}
	names := make(map[string]bool)
	for _, v := range c.env(tool.Call{ID: "i", Key: "k", Ref: d.Name}) {
		name, _, ok := strings.Cut(v, "=")
		if !ok || name == "" || names[name] || strings.ContainsRune(v, 0) {
			t.Fatalf("variable %q", v)
		}
		names[name] = true
	}
}

// Whatever a command prints, and in whatever pieces, its beginning is kept up
// to the limit, the end of its standard error, and no more memory than these.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("what is printed"), 3, 5)
	f.Add([]byte("\xff\x00\n"), 0, 1)
	f.Add(bytes.Repeat([]byte("é"), 5000), 7000, 4096)
	f.Fuzz(func(t *testing.T, printed []byte, limit, piece int) {
		limit, piece = limit&0xffff, 1+piece&0xfff
		full := 0
		out, end := &capped{limit: limit, full: func() { full++ }}, &tail{limit: limit}
		for rest := printed; len(rest) > 0; {
			n := min(piece, len(rest))
			for _, w := range []interface{ Write(p []byte) (int, error) }{out, end} {
				if took, err := w.Write(rest[:n]); took != n || err != nil {
					t.Fatalf("took %d of %d, %v", took, n, err)
				}
			}
			rest = rest[n:]
		}
		n := min(limit, len(printed))
		if !bytes.Equal(out.bytes(), printed[:n]) || end.String() != string(printed[len(printed)-n:]) {
			t.Fatalf("of %d bytes %d and %d are kept", len(printed), len(out.bytes()), len(end.String()))
		}
		if over := len(printed) > limit; out.over() != over || full > 1 || (full == 1) != over {
			t.Fatalf("%d bytes are over %d: %t, told %d times", len(printed), limit, out.over(), full)
		}
		if out.buf.Cap() > 4*limit+1024 || cap(end.buf) > 4*(limit+piece)+1024 {
			t.Fatalf("%d and %d bytes are held for %d", out.buf.Cap(), cap(end.buf), limit)
		}
	})
}
