package messages

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// trickyLines are those that a cut in the wrong place would misread.
var trickyLines = []string{
	`{"tool":"a","input":{"b":1}}`,
	`{"tool":"a","input": {"b":1} }`,
	`{"input":{"b":1},"tool":"a"}`,
	`{"tool":"x,\"input\":y","input":{}}`,
	`{"tool":"a","labels":{"k":"v","input":{"no":"it is a label"}}}`,
	`{"tool":"a","labels":{"k":"v","input":"l"},"input":{"b":1}}`,
	`{"tool":"a","input":{"b":1},"ref":"r"}`,
	`{"tool":"a","input":{"b":1},"input":{"b":2}}`,
	`{"tool":"a","input":null}`,
	`{"tool":"a","input":"text, not an object"}`,
	`{"tool":"a","input":}`,
	`{"tool":"a","input":{"b":1}`,
	`{"tool":"a","input":{"b":1}}}`,
	`{"tool":"a","input_text":"t","input":{}}`,
	`{,"input":{}}`, ` { ,"input":{}}`, `{"tool":"a","INPUT":{"b":1},"input":{}}`,
	`{"tool":"a"`, `{`, ``, `{"tool":1,"input":{}}`,
}

func TestALineReadsTheSameHoweverItIsCut(t *testing.T) {
	for _, line := range trickyLines {
		checkLine(t, []byte(line))
	}
}

func FuzzDecodeLine(f *testing.F) {
	for _, line := range trickyLines {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if !bytes.ContainsRune(line, '\n') {
			checkLine(t, line)
		}
	})
}

// checkLine holds decodeLine to encoding/json.
func checkLine(t *testing.T, line []byte) {
	t.Helper()
	before := bytes.Clone(line)
	var want Submission
	wantErr := json.Unmarshal(line, &want)
	got, err := decodeLine(line)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v, but encoding/json says %v", line, err, wantErr)
	}
	if err == nil {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q: %s", line, diff)
		}
	}
	if !bytes.Equal(line, before) {
		t.Fatalf("the line was changed from %q to %q", before, line)
	}
}

func BenchmarkDecodeChunk(b *testing.B) {
	c := Chunk{Batch: "01900000-0000-7000-8000-000000000000"}
	for range 256 {
		c.Calls = append(c.Calls, Submission{Call: NewCallID(), Tool: "noop", Input: []byte(`{"p":"` + strings.Repeat("x", 1000) + `"}`)})
	}
	chunk, err := EncodeChunk(c)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if _, err := DecodeChunk(chunk); err != nil {
			b.Fatal(err)
		}
	}
}

func TestOnlyInputThatStoodAsJSONIsTakenForJSON(t *testing.T) {
	for line, want := range map[string]bool{
		`{"tool":"a","input":{"b":1}}`: true, `{"input":[1],"tool":"a"}`: true,
		`{"tool":"a","input_text":"{}"}`: false, `{"tool":"a"}`: false,
	} {
		if s, err := decodeLine([]byte(line)); err != nil || s.IsJSON != want {
			t.Errorf("%s: %v, %v", line, s.IsJSON, err)
		}
	}
}
