package expression

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"mulligan/internal/excerpt"
)

// Bounds of an expression.
const (
	maxText  = 2000 // bytes
	maxNodes = 200  // parts
)

// allowed are the functions of the language that an expression may call.
func allowed() []string {
	return []string{"len", "lower", "upper", "trim", "trimPrefix", "trimSuffix", "hasPrefix", "hasSuffix", "indexOf", "lastIndexOf",
		"int", "float", "string", "type", "abs", "ceil", "floor", "round", "min", "max", "first", "last"}
}

// keys are those of a map, sorted: the language's own come in any order, so that
// a rule would decide one way today and another tomorrow.
func keys(arguments ...any) (any, error) {
	m := reflect.ValueOf(arguments[0])
	if m.Kind() != reflect.Map || m.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("keys of %T", arguments[0])
	}
	out := make([]any, 0, m.Len())
	for _, key := range m.MapKeys() {
		out = append(out, key.String())
	}
	slices.SortFunc(out, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return out, nil
}

// Functions are what every expression may call beside these. The struct that an
// expression sees embeds it.
type Functions struct {
	// Match gives the match of a regular expression and its groups, or nothing.
	Match func(text any, pattern string) ([]string, error) `expr:"match"`
	// Matches stands in for the operator matches.
	Matches func(text any, pattern string) bool `expr:"has_match"`
	// Number reads a number of a text, exactly or not at all.
	Number func(x any) (any, error) `expr:"number"`
}

// Expression is one that was compiled. It may be used concurrently.
type Expression struct {
	program  *vm.Program
	patterns map[string]pattern
	names    map[string]bool
}

// Work bounds what matching regular expressions may take in all evaluations
// that it is given to. It is for one goroutine.
type Work struct {
	left   int
	failed error // of an operator, which can return none
}

// NewWork allows steps instructions times bytes; 1 << 28 take about a second.
func NewWork(steps int) *Work { return &Work{left: steps} }

// Compile checks syntax, names and types. env is a struct that embeds
// [Functions], whose other fields are the names that the expression may use.
func Compile(text string, env any, options ...expr.Option) (e *Expression, err error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New("is empty; write an expression")
	case len(text) > maxText:
		return nil, fmt.Errorf("is %d bytes long; at most %d are read", len(text), maxText)
	}
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, fmt.Errorf("cannot be compiled: %v", p)
		}
	}()
	guard := &guard{patterns: make(map[string]pattern), names: make(map[string]bool)}
	options = append(options, expr.Env(env), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(), expr.Patch(guard), expr.Operator("matches", "has_match"))
	options = append(options, expr.Function("keys", keys, new(func(any) []any)))
	for _, name := range allowed() {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(text, options...)
	if guard.err != nil {
		err = guard.err
	}
	if err != nil {
		return nil, err
	}
	return &Expression{program, guard.patterns, guard.names}, nil
}

// Uses says whether the expression names a field of its env, or a function.
func (e *Expression) Uses(name string) bool { return e.names[name] }

// Functions are those to be put into the env of one evaluation.
func (e *Expression) Functions(w *Work) Functions {
	find := func(text any, name string) ([]string, error) {
		s, ok := text.(string)
		if !ok {
			return nil, nil // nothing else has letters
		}
		p, ok := e.patterns[name]
		if w.left -= p.cost * len(s); w.left < 0 || !ok {
			return nil, fmt.Errorf("matching %q is too much work for a text of %d bytes", clip(name), len(s))
		}
		return p.re.FindStringSubmatch(s), nil
	}
	matches := func(text any, name string) bool {
		m, err := find(text, name)
		w.failed = errors.Join(w.failed, err)
		return m != nil
	}
	return Functions{Match: find, Matches: matches, Number: Number}
}

// Run evaluates for one env, which holds what [Expression.Functions] made with
// the same w. It never panics.
func (e *Expression) Run(env any, w *Work) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	w.failed = nil
	if v, err = expr.Run(e.program, env); err == nil {
		err = w.failed
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

func clip(s string) string { return excerpt.Of(s, 60) }
