package story

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Change is one difference between two inputs. From or To is empty where the
// value is only in the other. A change of the tool has the path "tool".
type Change struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Changes compares what two dispatches are given. What is not JSON is compared
// as text, as a whole.
func Changes(tool1, input1, tool2, input2 string) []Change {
	var out []Change
	if tool1 != tool2 && tool1 != "" && tool2 != "" {
		out = append(out, Change{Path: "tool", From: tool1, To: tool2})
	}
	if input1 == input2 {
		return out
	}
	a, ok1 := decode(input1)
	b, ok2 := decode(input2)
	if !ok1 || !ok2 {
		return append(out, Change{Path: "input", From: input1, To: input2})
	}
	return compare("input", a, b, out)
}

func decode(text string) (any, bool) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber() // numbers above 2^53 differ in their last digits too
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return nil, false
	}
	return v, true
}

// maxPath is the length in bytes from which a path is not made longer: what
// differs below it is told as a whole.
const maxPath = 1000

func compare(path string, a, b any, out []Change) []Change {
	if len(path) > maxPath {
		return differ(path, a, b, out)
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return compareObjects(path, x, y, out)
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				out = compare(path+"["+strconv.Itoa(i)+"]", x[i], y[i], out)
			}
			return out
		}
	}
	return differ(path, a, b, out)
}

func differ(path string, a, b any, out []Change) []Change {
	from, to := encode(a), encode(b)
	if from == to {
		return out
	}
	return append(out, Change{Path: path, From: from, To: to})
}

func compareObjects(path string, x, y map[string]any, out []Change) []Change {
	names := slices.Collect(maps.Keys(x))
	for k := range y {
		if _, both := x[k]; !both {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		from, in1 := x[k]
		to, in2 := y[k]
		at := path + "." + k
		switch {
		case !in2:
			out = append(out, Change{Path: at, From: encode(from)})
		case !in1:
			out = append(out, Change{Path: at, To: encode(to)})
		default:
			out = compare(at, from, to, out)
		}
	}
	return out
}

func encode(v any) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "?" // only decoded values come here
	}
	return string(bytes.TrimSpace(buf.Bytes()))
}
