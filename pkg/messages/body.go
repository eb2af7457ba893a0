package messages

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Body is an input or an output: inline, or a reference into PAYLOADS when its
// encoded form is longer than [MaxInline]. Exactly one of the two counts; the
// zero Body is the empty inline one.
type Body struct {
	Inline []byte
	Ref    *PayloadRef
}

// Text makes an inline body of a string.
func Text(s string) Body { return Body{Inline: []byte(s)} }

// checkUTF8 names the first byte that is not UTF-8.
func checkUTF8(field string, b []byte) error {
	if utf8.Valid(b) {
		return nil
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return fmt.Errorf("%s is not valid UTF-8 at byte %d (0x%02x)", field, i, b[i])
		}
		i += n
	}
	return nil
}

// Size is the size in bytes of what the body stands for.
func (b Body) Size() int64 {
	if b.Ref != nil {
		return b.Ref.Size
	}
	return int64(len(b.Inline))
}

// textSize is what r takes in a JSON string as [marshal] writes it.
func textSize(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < ' ', r == utf8.RuneError, r == '\u2028', r == '\u2029': // invalid bytes read as RuneError
		return 6
	}
	return utf8.RuneLen(r)
}

type bodyJSON struct {
	Text    *string     `json:"text,omitempty"`
	Base64  []byte      `json:"base64,omitempty"`
	Payload *PayloadRef `json:"payload,omitempty"`
}

// MarshalJSON writes valid UTF-8 as text, other bytes as base64, a reference as payload.
func (b Body) MarshalJSON() ([]byte, error) {
	switch {
	case b.Ref != nil:
		return marshal(bodyJSON{Payload: b.Ref})
	case utf8.Valid(b.Inline):
		return appendText(make([]byte, 0, len(b.Inline)+len(b.Inline)/8+len(textBegins)+len(textEnds)), b.Inline), nil
	default:
		return marshal(bodyJSON{Base64: b.Inline})
	}
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Body) UnmarshalJSON(data []byte) error {
	if text, ok := plainText(data); ok {
		*b = Body{Inline: text}
		return nil
	}
	var j bodyJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	switch {
	case j.Payload != nil:
		*b = Body{Ref: j.Payload}
	case j.Text != nil:
		*b = Body{Inline: []byte(*j.Text)}
	default:
		*b = Body{Inline: j.Base64}
	}
	return nil
}

// FitsInline says that b may travel in its message: its encoded form is not
// longer than [MaxInline]. What fits at the worst is not looked at.
func (b Body) FitsInline() bool {
	return len(b.Inline) <= (MaxInline-16)/6 || b.EncodedSize() <= MaxInline
}

// EncodedSize is an upper bound of what b takes inside a JSON document, in
// bytes: the size that [MaxInline] gates, since quoting can multiply it.
func (b Body) EncodedSize() int {
	if b.Ref != nil {
		return 200
	}
	if !utf8.Valid(b.Inline) {
		return len(`{"base64":""}`) + base64.StdEncoding.EncodedLen(len(b.Inline))
	}
	n := len(`{"text":""}`)
	for _, r := range string(b.Inline) {
		n += textSize(r)
	}
	return n
}

// PayloadRef names a body in PAYLOADS by its content.
type PayloadRef struct {
	Digest string `json:"digest"` // SHA-256, 64 lower-case hexadecimal digits
	Size   int64  `json:"size"`   // bytes
	Chunks int    `json:"chunks"`
}

// Header writes the reference for a header: digest;size;chunks.
func (r PayloadRef) Header() string {
	return r.Digest + ";" + strconv.FormatInt(r.Size, 10) + ";" + strconv.Itoa(r.Chunks)
}

// Check tells why a reference cannot be followed.
func (r PayloadRef) Check() error {
	if len(r.Digest) != 64 || strings.Trim(r.Digest, "0123456789abcdef") != "" {
		return fmt.Errorf("payload digest %q is not 64 lower-case hexadecimal digits", truncateText(r.Digest, 80))
	}
	if r.Size < 0 || r.Size > MaxPayload {
		return fmt.Errorf("payload size %d is not from 0 to %d bytes", r.Size, MaxPayload)
	}
	if want := int((r.Size + PayloadChunk - 1) / PayloadChunk); r.Chunks != max(want, 1) {
		return fmt.Errorf("payload of %d bytes has %d chunks, not %d", r.Size, max(want, 1), r.Chunks)
	}
	return nil
}

// ParsePayloadRef reads what [PayloadRef.Header] writes.
func ParsePayloadRef(s string) (PayloadRef, error) {
	f := strings.Split(s, ";")
	if len(f) != 3 {
		return PayloadRef{}, fmt.Errorf("payload reference %q is not digest;size;chunks", truncateText(s, 120))
	}
	size, err1 := strconv.ParseInt(f[1], 10, 64)
	chunks, err2 := strconv.Atoi(f[2])
	if err1 != nil || err2 != nil {
		return PayloadRef{}, fmt.Errorf("payload reference %q is not digest;size;chunks", truncateText(s, 120))
	}
	r := PayloadRef{Digest: f[0], Size: size, Chunks: chunks}
	if err := r.Check(); err != nil {
		return PayloadRef{}, err
	}
	if r.Header() != s {
		return PayloadRef{}, fmt.Errorf("payload reference %q is not in its usual form %q", truncateText(s, 120), r.Header())
	}
	return r, nil
}

// UnmarshalJSON refuses a reference that [PayloadRef.Check] refuses, since its
// digest becomes part of a subject.
func (r *PayloadRef) UnmarshalJSON(b []byte) error {
	type plain PayloadRef
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*r = PayloadRef(p)
	return r.Check()
}

func (b Body) toMessage(h *headers) []byte {
	if b.Ref != nil {
		h.Set(HeaderPayload, b.Ref.Header())
		return nil
	}
	return b.Inline
}

func bodyOf(m Message) (Body, error) {
	v := m.Header.Get(HeaderPayload)
	if v == "" {
		return Body{Inline: m.Body}, nil
	}
	r, err := ParsePayloadRef(v)
	if err != nil {
		return Body{}, fmt.Errorf("header %s: %w", HeaderPayload, err)
	}
	return Body{Ref: &r}, nil
}
