package policies

import (
	"fmt"
	"maps"
	"slices"

	"mulligan/internal/suggest"
	"mulligan/pkg/recovery"
)

// Unknown says which names of a layer are not among those that there are, and
// what may have been meant. what is tool or queue.
func Unknown(what string, layer map[string]recovery.Values, there []string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(layer)) {
		if slices.Contains(there, name) {
			continue
		}
		out = append(out, fmt.Sprintf("the pool has no %s %q yet%s", what, name, suggest.Meant(name, there)))
	}
	return out
}
