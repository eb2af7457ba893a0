// Package schema checks the input of a tool against its JSON Schema and says
// what is wrong in words that a model can act on (S6, "arguments"). It wraps
// santhosh-tekuri/jsonschema and adds what untrusted schemas and inputs need:
// bounds, no reference that leaves the schema, and texts of a bounded size.
//
// A [Schema] does not change after [Compile]; every method may be called
// concurrently.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"mulligan/internal/excerpt"
	"mulligan/pkg/messages"
)

// Limits of a schema. A tool whose schema exceeds one is refused when it
// registers.
const (
	MaxSize  = messages.MaxInline // bytes
	MaxDepth = 100                // levels of nesting
	maxNodes = 4096               // objects and arrays; compiling is quadratic in them
)

// Schema is the compiled schema of a tool's input.
type Schema struct {
	source   json.RawMessage
	compiled *jsonschema.Schema // nil: any object will do; for asking, not for checking
	plain    *plain             // nil where it says more than that can check

	mu    sync.Mutex
	spare []*checker // guarded by mu
}

// Compile reads a schema of any draft. None, an empty one, {} and true allow
// any object. Without "$schema" it is read as draft 2020-12, and where that
// refuses it, as draft 7 and then 4, which write tuples and exclusive bounds
// differently. A pattern that Go cannot evaluate (look-ahead,
// back-references), or only at an unreasonable cost, is not checked, rather than
// making the tool unusable.
//
// The error says what makes the schema unusable: not JSON, a limit, a
// reference to another document or, without end, to itself, a keyword with a
// bad value, a type that excludes objects, or that checking is too much work.
func Compile(raw json.RawMessage) (*Schema, error) {
	s := &Schema{source: bytes.Clone(bytes.TrimSpace(raw))}
	if len(s.source) == 0 || string(s.source) == "null" {
		s.source = nil
		return s, nil
	}
	if len(s.source) > MaxSize {
		return nil, fmt.Errorf("schema is %d bytes long, the limit is %d", len(s.source), MaxSize)
	}
	doc, err := decode(s.source)
	if err != nil {
		return nil, fmt.Errorf("schema is not JSON: %w", err)
	}
	if err := checkShape(doc); err != nil {
		return nil, err
	}
	if trivial(doc) {
		return s, nil
	}
	if s.compiled, err = compile(doc, nil); err != nil {
		return nil, err
	}
	if loop := endless(s.compiled); loop != nil {
		return nil, fmt.Errorf("schema refers to itself without end at %q: a reference must lead to a part of the value", excerpt.Of(strings.TrimPrefix(loop.Location, self), 200))
	}
	if types := s.Root().Types(); len(types) > 0 && !slices.Contains(types, "object") {
		return nil, fmt.Errorf("schema allows only %s: the input of a tool is an object, write \"type\": \"object\"", joinOr(types))
	}
	if err := s.tryOut(); err != nil {
		return nil, err
	}
	s.plain = plainOf(doc)
	return s, nil
}

// tryOut refuses a schema that is too much work for any input.
func (s *Schema) tryOut() error {
	var misfit *Error
	if errors.As(s.Validate([]byte("{}")), &misfit) && misfit.spent {
		return errors.New("schema is too much work to check even {} against: its parts refer to each other in too many ways")
	}
	return nil
}

// Source is the schema as it was given, nil for none.
func (s *Schema) Source() json.RawMessage { return s.source }

// Trivial says that any JSON object fits, so that Validate is cheap and Root
// knows nothing.
func (s *Schema) Trivial() bool { return s.compiled == nil }

// Root is the schema in a form that can be asked about.
func (s *Schema) Root() Node { return Node{s.compiled, s} }

// Validate returns nil if input is one JSON object that fits the schema, else
// an [*Error], written for the model that made the call. Numbers are compared
// as written, so those beyond 2^53 lose nothing. Of a key that occurs twice
// the last counts.
func (s *Schema) Validate(input []byte) error { return s.validate(input, false) }

// ValidateJSON is Validate for an input that is known to be valid JSON.
func (s *Schema) ValidateJSON(input []byte) error { return s.validate(input, true) }

func (s *Schema) validate(input []byte, valid bool) error {
	if s.fitsPlainly(input, valid) {
		return nil
	}
	v, err := decode(input)
	if err != nil {
		return s.notJSON(input, err)
	}
	if _, ok := v.(map[string]any); !ok {
		return &Error{Kind: NotObject, got: typeName(v), input: input}
	}
	if s.compiled == nil {
		return nil
	}
	if v := checkNumbers(v); v != nil {
		return &Error{Kind: Misfit, Violations: []Violation{*v}, input: input}
	}
	return s.check(v, input)
}

// check keeps a fault of the library from reaching the caller as a panic: an
// input that cannot be checked does not fit.
func (s *Schema) check(v any, input []byte) error {
	stopped, verr := s.fits(s.compiled, v, len(input))
	if verr == nil {
		return nil
	}
	var detail *jsonschema.ValidationError
	if !errors.As(verr, &detail) {
		return &Error{Kind: Misfit, Violations: []Violation{{Text: verr.Error()}}, spent: errors.Is(verr, errSpent), input: input}
	}
	e := &Error{Kind: Misfit, Stopped: stopped, input: input}
	e.Violations, e.More = s.violations(detail)
	return e
}

// fits checks a value of about size bytes against a part of the schema. An
// error is a *jsonschema.ValidationError, or says why it cannot be checked;
// stopped is set when it tells only of the beginning.
func (s *Schema) fits(part *jsonschema.Schema, v any, size int) (stopped bool, err error) {
	c, err := s.borrow()
	if err != nil {
		return false, fmt.Errorf("cannot be checked: %w", err)
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
			s.giveBack(c)
		case error:
			err = fmt.Errorf("cannot be checked: %w", p)
		default:
			err = fmt.Errorf("cannot be checked: %v", p)
		}
	}()
	err = c.check(part.Location, v, size)
	return c.stopped, err
}

// fitsPlainly says of an input, without building its value, that it surely fits.
func (s *Schema) fitsPlainly(input []byte, valid bool) bool {
	if s.compiled != nil && s.plain == nil {
		return false
	}
	b := bytes.TrimLeft(input, " \t\r\n")
	if len(b) == 0 || b[0] != '{' || !valid && !json.Valid(b) || !utf8.Valid(b) {
		return false
	}
	return s.compiled == nil || s.plain.fits(&reading{b})
}

// errInvalidUTF8 is the one fault that encoding/json forgives and we do not:
// it would silently change the text that the tool gets.
type errInvalidUTF8 struct{ offset int }

func (e *errInvalidUTF8) Error() string { return "invalid UTF-8" }

func decode(b []byte) (any, error) {
	if !utf8.Valid(b) {
		return nil, &errInvalidUTF8{invalidAt(b)}
	}
	if json.Valid(b) {
		return valueOf(b), nil
	}
	dec := json.NewDecoder(bytes.NewReader(b)) // which says what is wrong with it
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &errTrailing{int(dec.InputOffset())}
	}
	return v, nil
}

type errTrailing struct{ offset int }

func (e *errTrailing) Error() string { return "more text follows the JSON value" }

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}
