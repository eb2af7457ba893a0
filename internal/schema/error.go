package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"mulligan/internal/excerpt"
)

// Bounds of the texts for models.
const (
	// MaxEcho is how much of the input an error repeats, in characters (S6).
	MaxEcho = 800
	// maxSchemaText is how much of the schema stands in the error of an input that is not JSON, in bytes.
	maxSchemaText = 4 << 10
	// maxViolations bounds how many are listed; the rest is counted.
	maxViolations = 20
	// maxViolationText bounds one of them, in bytes.
	maxViolationText = 400
)

// Kind says in which of three ways an input cannot be used.
type Kind int

// The kinds of [Error].
const (
	NotJSON   Kind = iota + 1 // it does not parse
	NotObject                 // it parses and is something else than an object
	Misfit                    // an object that breaks the schema
)

// Error says why an input cannot be used. Error() is the text for the model.
type Error struct {
	Kind       Kind
	Violations []Violation // of Misfit, at most 20, in the order of their place
	More       int         // how many further ones are known
	Stopped    bool        // there may be more than these: not all of the input was looked at
	// Offset is the byte at which parsing stopped (NotJSON).
	Offset int
	// Unfinished: the input ended where JSON had to go on (NotJSON).
	Unfinished bool

	spent  bool // the check was given up
	got    string
	why    string
	schema json.RawMessage
	input  []byte
}

// Violation is one thing that does not fit.
type Violation struct {
	Path    []string // from the input's root
	Keyword string   // of the schema: type, required, enum, additionalProperties, …
	Text    string
	Names   []string // the properties that are missing (required) or not allowed (additionalProperties)
}

// Pointer is the place as a JSON pointer, empty for the input as a whole.
func (v Violation) Pointer() string {
	var b strings.Builder
	for _, t := range v.Path {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(t, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// Error is the text for the model: what is wrong and where, the schema only
// if the input did not parse, and an echo of the input (S6).
func (e *Error) Error() string {
	var b strings.Builder
	switch e.Kind {
	case NotJSON:
		b.WriteString("The arguments are not valid JSON: ")
		b.WriteString(e.why)
		b.WriteString("\nSend one JSON object")
		if len(e.schema) > 0 {
			b.WriteString(" that fits this schema: ")
			b.WriteString(excerpt.Of(string(e.schema), maxSchemaText))
		} else {
			b.WriteByte('.')
		}
	case NotObject:
		fmt.Fprintf(&b, "The arguments must be a JSON object, not %s.", e.got)
	default:
		e.writeViolations(&b)
	}
	b.WriteString("\nReceived: ")
	b.WriteString(echo(e.input))
	return b.String()
}

func (e *Error) writeViolations(b *strings.Builder) {
	b.WriteString("The arguments do not fit the schema of the tool:")
	for _, v := range e.Violations {
		b.WriteString("\n- ")
		if p := v.Pointer(); p != "" {
			b.WriteString(excerpt.Of(p, 200))
			b.WriteString(": ")
		}
		b.WriteString(v.Text)
	}
	switch {
	case e.More > 0 && e.Stopped:
		fmt.Fprintf(b, "\n- and at least %d more", e.More)
	case e.More > 0:
		fmt.Fprintf(b, "\n- and %d more", e.More)
	}
}

func (s *Schema) notJSON(input []byte, err error) error {
	e := &Error{Kind: NotJSON, schema: s.source, input: input}
	var syntax *json.SyntaxError
	var trailing *errTrailing
	var encoding *errInvalidUTF8
	switch {
	case len(strings.TrimSpace(string(input))) == 0:
		e.why, e.Unfinished = "they are empty.", true
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Offset, e.Unfinished = len(input), true
		e.why = fmt.Sprintf("they end at byte %d in the middle of a value; they look cut off.", len(input))
	case errors.As(err, &trailing):
		e.Offset = trailing.offset
		e.why = fmt.Sprintf("more text follows the JSON value, near byte %d.", trailing.offset)
	case errors.As(err, &encoding):
		e.Offset = encoding.offset
		e.why = fmt.Sprintf("byte %d (0x%02x) is not UTF-8.", encoding.offset, input[encoding.offset])
	case errors.As(err, &syntax):
		e.Offset = int(syntax.Offset)
		e.why = fmt.Sprintf("%s, at byte %d, near %q.", wholeCharacter(syntax, input), syntax.Offset, near(input, int(syntax.Offset)))
	default:
		e.why = err.Error() + "."
	}
	return e
}

// wholeCharacter corrects the decoder where it takes one byte of a character
// for one: a typographic quote for an a with a circumflex.
func wholeCharacter(err *json.SyntaxError, input []byte) string {
	at := int(err.Offset) - 1
	if at < 0 || at >= len(input) || input[at] < utf8.RuneSelf {
		return err.Error()
	}
	r, n := utf8.DecodeRune(input[at:])
	_, rest, ok := strings.Cut(err.Error(), "' ")
	if !ok || r == utf8.RuneError && n == 1 {
		return err.Error()
	}
	return fmt.Sprintf("invalid character %q %s", r, rest)
}

// near is the text around a byte, for a model that counts bytes badly.
func near(input []byte, offset int) string {
	const around = 20
	from, to := max(offset-around, 0), min(offset+around, len(input))
	return strings.ToValidUTF8(string(input[min(from, to):to]), "")
}

func echo(input []byte) string {
	s := strings.ToValidUTF8(string(input[:min(len(input), 4*MaxEcho+4)]), "�")
	n := 0
	for i := range s {
		if n == MaxEcho {
			return fmt.Sprintf("%s… (cut; %d bytes in all)", s[:i], len(input))
		}
		n++
	}
	return s
}

func joinOr(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
