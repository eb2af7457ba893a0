package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/itchyny/gojq"

	"mulligan/internal/form"
	"mulligan/pkg/messages"
)

// Bounds of a change.
const (
	maxOperations = 100  // of a patch
	maxProgram    = 8000 // bytes of a jq expression
	maxDepth      = 500  // of values that a jq expression is given
)

// Change is what is done to each input. The zero Change does nothing. It may be
// used concurrently.
type Change struct {
	Tool  string // runs in place of the one that was asked for; empty: the same
	patch jsonpatch.Patch
	query *gojq.Code
}

// Patch reads a patch of RFC 6902.
func (c *Change) Patch(text []byte) error {
	p, err := jsonpatch.DecodePatch(text)
	switch {
	case err != nil:
		return fmt.Errorf("is no JSON patch, which is a list such as [{\"op\": \"replace\", \"path\": \"/limit\", \"value\": 5}]: %w", err)
	case len(p) == 0:
		return errors.New("holds no operation")
	case len(p) > maxOperations:
		return fmt.Errorf("holds %d operations; at most %d are applied", len(p), maxOperations)
	}
	c.patch = p
	return nil
}

// JQ compiles a jq expression, which is given the input and has to give one
// object. It sees neither environment nor files.
func (c *Change) JQ(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("is empty; write an expression such as .limit = 5")
	}
	if len(text) > maxProgram {
		return fmt.Errorf("is %d bytes long; at most %d are read", len(text), maxProgram)
	}
	q, err := gojq.Parse(text)
	if err != nil {
		return err
	}
	c.query, err = gojq.Compile(q)
	return err
}

// None says that nothing is changed.
func (c *Change) None() bool { return c.Tool == "" && c.patch == nil && c.query == nil }

// Input makes the changed input: first the patch, then the jq expression, which
// ends with ctx. What neither touches stays byte for byte. It never panics.
func (c *Change) Input(ctx context.Context, input []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	if c.patch != nil {
		if input, err = c.patched(input); err != nil {
			return nil, fmt.Errorf("the patch: %w", err)
		}
	}
	if c.query != nil {
		if input, err = c.queried(ctx, input); err != nil {
			return nil, fmt.Errorf("the jq expression: %w", err)
		}
	}
	if len(input) > messages.MaxPayload {
		return nil, fmt.Errorf("the changed input is %d bytes long, the limit is %d", len(input), messages.MaxPayload)
	}
	return input, nil
}

func (c *Change) patched(input []byte) ([]byte, error) {
	if _, err := form.Decode(input); err != nil {
		return nil, fmt.Errorf("the input is not JSON: %w", err)
	}
	o := jsonpatch.NewApplyOptions()
	o.EscapeHTML = false
	o.AccumulatedCopySizeLimit = messages.MaxPayload
	return c.patch.ApplyWithOptions(input, o)
}

func (c *Change) queried(ctx context.Context, input []byte) ([]byte, error) {
	v, err := form.Decode(input)
	if err != nil {
		return nil, fmt.Errorf("the input is not JSON: %w", err)
	}
	if depth(v) > maxDepth {
		return nil, fmt.Errorf("the input is more than %d values deep", maxDepth)
	}
	it := c.query.RunWithContext(ctx, v)
	out, ok := it.Next()
	if !ok {
		return nil, errors.New("it gives nothing for this input; it has to give one object")
	}
	if err, bad := out.(error); bad {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	if _, ok := out.(map[string]any); !ok {
		return nil, fmt.Errorf("it gives %s; it has to give one object", gojq.TypeOf(out))
	}
	if more, ok := it.Next(); ok {
		if err, bad := more.(error); bad {
			return nil, err
		}
		return nil, errors.New("it gives several values; it has to give one object")
	}
	return gojq.Marshal(out)
}

func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			deepest = max(deepest, depth(x))
		}
	case []any:
		for _, x := range v {
			deepest = max(deepest, depth(x))
		}
	default:
		return 0
	}
	return deepest + 1
}
