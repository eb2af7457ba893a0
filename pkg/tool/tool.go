package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/google/jsonschema-go/jsonschema"

	"mulligan/pkg/messages"
)

// Tool is a declared function. It is immutable, and may be run concurrently
// as far as its function may.
type Tool struct {
	spec  messages.ToolSpec
	run   func(context.Context, Call) (Output, error)
	err   error
	limit atomic.Pointer[timeLimit] // of the last execution
}

// Output is what an execution gave back.
type Output struct {
	Body []byte // the result, byte for byte; any bytes, also none
	// Stderr is for people who look into a failure; never part of the result.
	// Its last [messages.MaxStderr] bytes are kept.
	Stderr string
}

// New declares a tool of a typed function. In is a struct or a map with string
// keys; its JSON Schema is inferred: fields without omitempty or omitzero are
// required, a `jsonschema:"…"` tag describes a field. Out becomes the result:
// a string or []byte as it is, anything else as JSON. f reaches the call
// itself, as all that it calls, with [FromContext].
//
// A declaration that cannot be used yields a tool whose Err says why; a worker
// refuses to start with it.
func New[In, Out any](name string, f func(context.Context, In) (Out, error), options ...Option) *Tool {
	schema, err := inferSchema[In]()
	run := func(ctx context.Context, c Call) (Output, error) {
		var in In
		if err := decodeInput(c.Input, &in); err != nil {
			return Output{}, Invalid(argumentError(name, c.Input, err))
		}
		out, err := f(ctx, in)
		if err != nil {
			return Output{}, err
		}
		return encodeOutput(out)
	}
	if f == nil {
		run = nil
	}
	t := Raw(name, schema, run, options...)
	if t.err == nil && err != nil && t.spec.Schema == nil {
		t.err = fmt.Errorf("tool %q: input %s has no JSON Schema: %w; declare one with tool.Schema", name, reflect.TypeFor[In](), err)
	}
	return t
}

// Raw declares a tool of bytes: run is given the input as it was submitted,
// and what it returns is the result as it is. schema may be nil, then any
// object is accepted.
func Raw(name string, schema json.RawMessage, run func(context.Context, Call) (Output, error), options ...Option) *Tool {
	spec := messages.ToolSpec{Name: name, Schema: schema}
	for _, o := range options {
		o(&spec)
	}
	t := &Tool{spec: spec.WithDefaults(), run: run}
	t.err = t.spec.Validate()
	if t.err == nil && run == nil {
		t.err = fmt.Errorf("tool %q: its function is nil", name)
	}
	return t
}

// Spec is what the tool declares about itself, with defaults filled in.
func (t *Tool) Spec() messages.ToolSpec { return t.spec }

// Name is the tool's name.
func (t *Tool) Name() string { return t.spec.Name }

// Err says why the declaration cannot be used; nil if it can.
func (t *Tool) Err() error { return t.err }

// Run calls the function and nothing else: no time-out, no isolation of
// panics. See [Tool.Execute] for what a worker does.
func (t *Tool) Run(ctx context.Context, c Call) (Output, error) {
	if t.err != nil {
		return Output{}, t.err
	}
	c = c.withLog()
	return t.run(context.WithValue(ctx, callKey{}, c), c)
}

func inferSchema[In any]() (json.RawMessage, error) {
	s, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, err
	}
	if s.Type != "object" {
		return nil, fmt.Errorf("its values are not JSON objects")
	}
	return json.Marshal(s)
}
