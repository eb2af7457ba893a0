package tools

import (
	"fmt"
	"strings"

	"mulligan/examples/shop/pyval"
)

// args are the arguments of a call, all of those that the tool takes.
type args map[string]pyval.Value

// bind checks the names of the arguments as a Python call does. The texts name
// the class behind the tool, and the first fault only.
func (d definition) bind(input *pyval.Dict) (args, error) {
	if _, ok := input.Get("data"); ok {
		// The store itself is handed over under this name.
		return nil, fail("tau_bench.envs.%s.tools.%s.%s.invoke() got multiple values for keyword argument 'data'",
			d.domain, d.name, className(d.name))
	}
	in := make(args, len(d.params))
	for name, value := range input.All() {
		if !d.takes(name) {
			return nil, fail("%s.invoke() got an unexpected keyword argument '%s'", className(d.name), name)
		}
		in[name] = value
	}
	var missing []string
	for _, p := range d.params {
		if _, ok := in[p.name]; !ok {
			missing = append(missing, "'"+p.name+"'")
		}
	}
	if len(missing) > 0 {
		return nil, fail("%s.invoke() missing %s", className(d.name), countMissing(missing))
	}
	return in, nil
}

func (d definition) takes(name string) bool {
	for _, p := range d.params {
		if p.name == name {
			return true
		}
	}
	return false
}

func countMissing(names []string) string {
	last := len(names) - 1
	switch len(names) {
	case 1:
		return "1 required positional argument: " + names[0]
	case 2:
		return "2 required positional arguments: " + names[0] + " and " + names[1]
	default:
		return fmt.Sprintf("%d required positional arguments: %s, and %s",
			len(names), strings.Join(names[:last], ", "), names[last])
	}
}

// className is the name of the class behind a tool: each word of the tool's
// name with a capital, joined.
func className(tool string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(tool, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// fail is a failure of a tool, by the text after "Error: ".
func fail(format string, a ...any) error {
	return &pyval.Error{Text: fmt.Sprintf(format, a...)}
}
