package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"mulligan/internal/excerpt"
)

// self is the address of the schema itself: absolute, so that relative
// references resolve, and of a scheme that nothing can be fetched from.
const self = "mulligan:///schema.json"

// compile compiles; spend is told what matching a pattern costs, and may be nil.
func compile(doc any, spend func(steps int)) (*jsonschema.Schema, error) {
	drafts := []*jsonschema.Draft{jsonschema.Draft2020, jsonschema.Draft7, jsonschema.Draft4}
	if m, ok := doc.(map[string]any); ok && m["$schema"] != nil {
		drafts = drafts[:1] // the schema says which
	}
	var first error
	for _, d := range drafts {
		s, err := compileAs(doc, d, spend)
		if err == nil {
			return s, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func compileAs(doc any, draft *jsonschema.Draft, spend func(int)) (s *jsonschema.Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("schema cannot be compiled: %v", p)
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(draft)
	c.UseLoader(refuseRemote{})
	c.UseRegexpEngine(engine(spend))
	if err := c.AddResource(self, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	s, err = c.Compile(self)
	if err != nil {
		var remote *remoteError
		if errors.As(err, &remote) || errors.As(unwrapLoad(err), &remote) {
			return nil, remote
		}
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s, nil
}

// unwrapLoad reaches into the library's error, which does not unwrap.
func unwrapLoad(err error) error {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return load.Err
	}
	return nil
}

// refuseRemote keeps a schema from making us read files or call servers.
type refuseRemote struct{}

func (refuseRemote) Load(url string) (any, error) { return nil, &remoteError{url} }

type remoteError struct{ url string }

func (e *remoteError) Error() string {
	return fmt.Sprintf("schema refers to %q, which is not part of it; references to other documents are refused: put the definition under \"$defs\" and refer to \"#/$defs/…\"", excerpt.Of(e.url, 200))
}

// checkShape holds the schema within its limits, and its numbers within what
// the library can compare.
func checkShape(doc any) error {
	nodes, ids, dynamic := 0, 0, false
	var walk func(v any, depth int) error
	walk = func(v any, depth int) error {
		if depth > MaxDepth {
			return fmt.Errorf("schema is nested deeper than %d levels", MaxDepth)
		}
		switch v := v.(type) {
		case map[string]any:
			nodes++
			if _, ok := v["$id"].(string); ok {
				ids++
			}
			dynamic = dynamic || v["$dynamicRef"] != nil || v["$recursiveRef"] != nil
			for _, child := range v {
				if err := walk(child, depth+1); err != nil {
					return err
				}
			}
		case []any:
			nodes++
			for _, child := range v {
				if err := walk(child, depth+1); err != nil {
					return err
				}
			}
		case json.Number:
			if !isComparable(v) {
				return fmt.Errorf("schema holds the number %s, which is too large or too long to compare", excerpt.Of(v.String(), 40))
			}
		}
		if nodes > maxNodes {
			return fmt.Errorf("schema holds more than %d objects and arrays", maxNodes)
		}
		return nil
	}
	if err := walk(doc, 0); err != nil {
		return err
	}
	if dynamic && ids > 1 { // where it leads is only known while checking, which leaves a check without its bounds
		return errors.New("schema has dynamic references between parts with an \"$id\" of their own; use \"$ref\"")
	}
	return nil
}

// trivial says that doc restricts nothing beyond being an object.
func trivial(doc any) bool {
	if b, ok := doc.(bool); ok {
		return b
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return false
	}
	for k, v := range m {
		switch k {
		case "$schema":
			if s, ok := v.(string); !ok || !wellKnown(s) {
				return false
			}
		case "title", "description", "$comment", "default", "examples":
		case "type":
			if v != "object" {
				return false
			}
		case "properties":
			if p, ok := v.(map[string]any); !ok || len(p) > 0 {
				return false
			}
		case "required":
			if r, ok := v.([]any); !ok || len(r) > 0 {
				return false
			}
		case "additionalProperties":
			if v != true {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// metaschemas are those of the drafts, which the library brings along.
var metaschemas = regexp.MustCompile(`^https?://json-schema\.org/(schema|draft-0[467]/schema|draft/20(19-09|20-12)/schema)#?$`)

func wellKnown(url string) bool { return metaschemas.MatchString(url) }
