package declared

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration is written as Go does: 30s, 1m30s, 500ms.
type Duration time.Duration

// UnmarshalYAML names the line of what is not a duration.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %q is not a duration such as 30s", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

// Size is a number of bytes, plain or with KiB or MiB.
type Size int

// UnmarshalYAML names the line of what is not a size.
func (s *Size) UnmarshalYAML(n *yaml.Node) error {
	digits, unit := n.Value, 1
	for suffix, u := range map[string]int{"KiB": 1 << 10, "MiB": 1 << 20} {
		if rest, ok := strings.CutSuffix(n.Value, suffix); ok {
			digits, unit = strings.TrimSpace(rest), u
		}
	}
	v, err := strconv.Atoi(digits)
	if err != nil || n.Kind != yaml.ScalarNode || v < 1 || v > 1<<30 {
		return fmt.Errorf("line %d: %q is not a size such as 65536, 64KiB or 1MiB", n.Line, n.Value)
	}
	*s = Size(v * unit)
	return nil
}
