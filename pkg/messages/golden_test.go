package messages_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mulligan/pkg/messages"
)

var update = flag.Bool("update", false, "write the golden files anew")

// compactJSON compares raw JSON without regard to the indentation of a golden
// file; the bytes of an input or output are compared as they are.
var compactJSON = cmp.FilterPath(
	func(p cmp.Path) bool {
		a, b := p.Last().Values()
		return p.Last().Type() == reflect.TypeFor[json.RawMessage]() && a.Len()+b.Len() > 0
	},
	cmp.Transformer("compact", func(r json.RawMessage) string {
		var out bytes.Buffer
		if err := json.Compact(&out, r); err != nil {
			return string(r)
		}
		return out.String()
	}))

// form is one form of the wire with its example.
type form struct {
	name  string // of the golden file
	place string // subject, or bucket and key
	value any
	// encode gives headers and body as they travel, decode reads them back.
	encode func() (messages.Message, error)
	decode func(messages.Message) (any, error)
}

// render writes a message as the golden files and docs/wire.md show it: the
// place, the headers in order, an empty line, the body; JSON bodies indented.
func (f form) render(t *testing.T) string {
	t.Helper()
	m, err := f.encode()
	if err != nil {
		t.Fatalf("encode %s: %v", f.name, err)
	}
	var out strings.Builder
	fmt.Fprintln(&out, f.place)
	for _, k := range slices.Sorted(maps.Keys(m.Header)) {
		fmt.Fprintf(&out, "%s: %s\n", k, m.Header.Get(k))
	}
	out.WriteByte('\n')
	out.Write(f.show(m.Body))
	out.WriteByte('\n')
	return out.String()
}

// show indents what is one JSON document of ours; a tool's bytes and the lines
// of a chunk stay as they are.
func (f form) show(body []byte) []byte {
	var indented bytes.Buffer
	if f.name == "call" || f.name == "result" || f.name == "chunk" || json.Indent(&indented, body, "", "  ") != nil {
		return body
	}
	return indented.Bytes()
}

// parse reads a golden file back into a message.
func parse(t *testing.T, golden string) messages.Message {
	t.Helper()
	head, body, ok := strings.Cut(golden, "\n\n")
	if !ok {
		t.Fatal("golden file has no empty line")
	}
	lines := strings.Split(head, "\n")
	m := messages.Message{Subject: lines[0], Header: messages.Header{}, Body: []byte(strings.TrimSuffix(body, "\n"))}
	for _, l := range lines[1:] {
		k, v, _ := strings.Cut(l, ": ")
		m.Header.Set(k, v)
	}
	return m
}

// notHowItWasRead leaves out what only reading sets.
var notHowItWasRead = cmpopts.IgnoreFields(messages.Submission{}, "IsJSON")

func TestGolden(t *testing.T) {
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			path := filepath.Join("testdata", f.name+".golden")
			got := f.render(t)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s differs from the code (-file +code); -update writes it anew\n%s", path, diff)
			}
			back, err := f.decode(parse(t, string(want)))
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			if diff := cmp.Diff(f.value, back, cmpopts.EquateEmpty(), compactJSON, notHowItWasRead); diff != "" {
				t.Errorf("decoding the file does not give the value (-value +decoded)\n%s", diff)
			}
		})
	}
}

// TestGoldenFilesAreAllNamed finds a file that no form writes any more.
func TestGoldenFilesAreAllNamed(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range forms() {
		want = append(want, filepath.Join("testdata", f.name+".golden"))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("golden files (-forms +files)\n%s", diff)
	}
}
