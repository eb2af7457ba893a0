package messages_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mulligan/pkg/messages"
)

// asPart encodes a body as it travels inside a failure, which is how it counts
// against the limit.
func asPart(t fataler, b messages.Body) []byte {
	t.Helper()
	f := exampleFailure()
	f.Output = b
	m, err := pool.EncodeFailure(f)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var parts struct {
		Output json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(m.Body, &parts); err != nil {
		t.Fatalf("%v", err)
	}
	return parts.Output
}

func TestEncodedSizeIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := anyBody().Draw(t, "body")
		got, bound := len(asPart(t, b)), b.EncodedSize()
		if got > bound {
			t.Fatalf("takes %d bytes, EncodedSize says %d", got, bound)
		}
		if b.Ref == nil && bound > 6*len(b.Inline)+16 {
			t.Fatalf("bound %d is far above %d", bound, got)
		}
	})
}

func TestEncodedSizeIsExactForText(t *testing.T) {
	for _, s := range []string{"", "plain", `"quoted\"`, "\n\r\t\b\f", "\x00\x1f\x7f", "<&>", "\u2028\u2029", "é日😀", "\ufffd"} {
		b := messages.Text(s)
		if got := len(asPart(t, b)); got > b.EncodedSize() || got < b.EncodedSize()-3 {
			t.Errorf("%q takes %d, EncodedSize says %d", s, got, b.EncodedSize())
		}
	}
}

func TestBodyKeepsEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyBody().Draw(t, "body")
		var got messages.Body
		if err := json.Unmarshal(asPart(t, want), &got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Inline, want.Inline) || (got.Ref == nil) != (want.Ref == nil) || got.Ref != nil && *got.Ref != *want.Ref {
			t.Fatalf("sent %+v, received %+v", want, got)
		}
	})
}

func TestPayloadRefRefuses(t *testing.T) {
	ok := messages.PayloadRef{Digest: digest, Size: messages.PayloadChunk + 1, Chunks: 2}
	if err := ok.Check(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		change func(*messages.PayloadRef)
		want   string
	}{
		{func(r *messages.PayloadRef) { r.Digest = strings.ToUpper(digest) }, "64 lower-case"},
		{func(r *messages.PayloadRef) { r.Digest = digest[1:] }, "64 lower-case"},
		{func(r *messages.PayloadRef) { r.Digest = ">." + digest[2:] }, "64 lower-case"},
		{func(r *messages.PayloadRef) { r.Size = -1 }, "payload size -1"},
		{func(r *messages.PayloadRef) { r.Size = messages.MaxPayload + 1 }, "payload size"},
		{func(r *messages.PayloadRef) { r.Chunks = 1 }, "has 2 chunks, not 1"},
		{func(r *messages.PayloadRef) { r.Size, r.Chunks = 0, 0 }, "has 1 chunks, not 0"},
	} {
		r := ok
		tc.change(&r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", r, err, tc.want)
		}
		if _, err := messages.ParsePayloadRef(r.Header()); err == nil {
			t.Errorf("ParsePayloadRef takes %q", r.Header())
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(`{"payload":`+string(b)+`}`), new(messages.Body)); err == nil {
			t.Errorf("a body takes the reference %s", b)
		}
	}
}

// TestFailureAlwaysFits: with both parts at the limit and texts of any length
// a failure stays below the broker's usual limit of 1 MiB.
func TestFailureAlwaysFits(t *testing.T) {
	for _, unit := range []string{"\x01", "a", "é", "\"", "\xff"} {
		part := messages.Text(strings.Repeat(unit, messages.MaxInline/6-16))
		if part.EncodedSize() > messages.MaxInline {
			t.Fatalf("%q: part takes %d", unit, part.EncodedSize())
		}
		f := exampleFailure()
		f.Input, f.Output = part, part
		f.Error, f.Stderr = strings.Repeat(unit, 1<<20), strings.Repeat(unit, 1<<20)
		m, err := pool.EncodeFailure(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Body) > 1<<19 {
			t.Errorf("%q: failure of %d bytes", unit, len(m.Body))
		}
		if back, err := messages.DecodeFailure(m.Body); err != nil || !bytes.Equal(back.Output.Inline, part.Inline) {
			t.Errorf("%q: output changed, %v", unit, err)
		}
	}
}
