package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"mulligan/internal/form"
	"mulligan/pkg/messages"
)

// change6902 is what a rule does to an input: a patch of RFC 6902, then values
// that are worked out.
type change6902 struct {
	patch jsonpatch.Patch
	set   []setting
	paths []string // what is changed, for people
}

type setting struct {
	pointer string
	path    []string
	value   evaluation
}

func compileChange(d Definition) (change6902, error) {
	var ch change6902
	if len(d.Patch) > maxOperations || len(d.Set) > maxOperations {
		return ch, fmt.Errorf("patch, set: %d and %d operations; at most %d are applied", len(d.Patch), len(d.Set), maxOperations)
	}
	for i, op := range d.Patch {
		if err := op.check(); err != nil {
			return ch, fmt.Errorf("patch, operation %d: %w", i+1, err)
		}
		if op.Op != "test" {
			ch.paths = append(ch.paths, op.Path)
		}
	}
	if err := ch.decode(d.Patch); err != nil {
		return ch, fmt.Errorf("patch: %w", err)
	}
	for pointer, text := range d.Set {
		path, err := parsePointer(pointer)
		if err != nil {
			return ch, fmt.Errorf("set %q: %w", brief(pointer), err)
		}
		value, err := compileExpression(text)
		if err != nil {
			return ch, fmt.Errorf("set %q %q: %w", pointer, brief(text), err)
		}
		ch.set = append(ch.set, setting{pointer, path, value})
	}
	slices.SortFunc(ch.set, func(a, b setting) int { return strings.Compare(a.pointer, b.pointer) })
	for _, s := range ch.set {
		ch.paths = append(ch.paths, s.pointer)
	}
	return ch, nil
}

func (ch *change6902) decode(ops []Operation) error {
	if len(ops) == 0 {
		return nil
	}
	b, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	ch.patch, err = jsonpatch.DecodePatch(b)
	return err
}

// check holds an operation to RFC 6902.
func (op Operation) check() error {
	needsValue, needsFrom := false, false
	switch op.Op {
	case "add", "replace", "test":
		needsValue = true
	case "move", "copy":
		needsFrom = true
	case "remove":
	default:
		return fmt.Errorf("op %q: must be add, remove, replace, move, copy or test", brief(op.Op))
	}
	if _, err := parsePointer(op.Path); err != nil {
		return fmt.Errorf("path %q: %w", brief(op.Path), err)
	}
	if needsValue && len(op.Value) == 0 {
		return fmt.Errorf("op %q has no value; write one, null for nothing", op.Op)
	}
	if _, err := parsePointer(op.From); needsFrom && err != nil {
		return fmt.Errorf("from %q: %w", brief(op.From), err)
	}
	return nil
}

// parsePointer splits a JSON pointer (RFC 6901) that names a place within.
func parsePointer(p string) ([]string, error) {
	if !strings.HasPrefix(p, "/") {
		return nil, errors.New("must be a JSON pointer, such as /items/0/id")
	}
	path := strings.Split(p[1:], "/")
	for i, t := range path {
		path[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return path, nil
}

func (ch *change6902) any() bool { return len(ch.patch) > 0 || len(ch.set) > 0 }

func (ch *change6902) places() []string { return ch.paths }

// apply makes the changed input. It fails if there is no object to change, if
// an operation does not apply, or if nothing changes.
func (ch *change6902) apply(raw []byte, f facts, input map[string]any) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("patch: panic: %v", p)
		}
	}()
	if input == nil {
		return nil, errors.New("the input is no JSON object, or not known whole")
	}
	v, err := ch.patched(raw)
	if err != nil {
		return nil, err
	}
	for _, s := range ch.set {
		x, err := s.value.run(f)
		if err != nil {
			return nil, fmt.Errorf("set %q: %w", s.pointer, err)
		}
		if err := put(v, s.path, x); err != nil {
			return nil, fmt.Errorf("set %q: %w", s.pointer, err)
		}
	}
	if out, err = form.Encode(v); err != nil {
		return nil, err
	}
	if len(out) > messages.MaxInline {
		return nil, fmt.Errorf("the changed input is %d bytes long, the limit is %d", len(out), messages.MaxInline)
	}
	if form.Equal(v, input) {
		return nil, errors.New("the input is as it was")
	}
	return out, nil
}

func (ch *change6902) patched(raw []byte) (map[string]any, error) {
	if len(ch.patch) > 0 {
		b, err := ch.patch.ApplyWithOptions(raw, &jsonpatch.ApplyOptions{AccumulatedCopySizeLimit: messages.MaxInline})
		if err != nil {
			return nil, fmt.Errorf("patch: %w", err)
		}
		raw = b
	}
	v, err := form.Decode(raw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("patch: leaves no object")
	}
	return m, nil
}

// put sets a property, or an element that is there, to a value of an expression.
func put(root map[string]any, path []string, x any) error {
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	v, err := form.Decode(b)
	if err != nil {
		return err
	}
	if v == nil {
		return errors.New("the expression yields nothing")
	}
	last := path[len(path)-1]
	switch parent := find(root, path[:len(path)-1]).(type) {
	case map[string]any:
		parent[last] = v
		return nil
	case []any:
		if i := index(last, len(parent)); i >= 0 {
			parent[i] = v
			return nil
		}
	}
	return errors.New("there is no such place in the input")
}
