// Package suggest finds the name that was probably meant by one that is not
// known, and writes what a caller's model reads when it asked for a tool that
// is not there (S6). Every function is pure.
package suggest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"

	"mulligan/pkg/messages"
)

// shown is how many names a text lists before it counts the rest.
const shown = 10

// ToolNotAvailable is the text of a call that is refused since no such tool is
// registered. served are the names of the tools that are.
func ToolNotAvailable(name string, served []string) string {
	return fmt.Sprintf("tool '%s' is not available", name) + suggestion(name, served)
}

// ToolNotFound is the text of a failure of a call whose tool is served by nobody
// any more. served are the names of the tools that are, in the order in which
// they are to be listed.
func ToolNotFound(name string, served []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Tool not found: %s.", name)
	if n := len(served); n > 0 {
		fmt.Fprintf(&b, " Available: %s", strings.Join(served[:min(n, shown)], ", "))
		if n > shown {
			fmt.Fprintf(&b, "... (and %d more)", n-shown)
		}
	}
	b.WriteString(suggestion(name, served))
	return b.String()
}

func suggestion(name string, served []string) string {
	if near := Nearest(name, served); near != "" {
		return fmt.Sprintf(". Did you mean '%s'?", near)
	}
	return ""
}

// Meant is what an error about a name that is not known ends with: the one among
// the names that was probably meant, in quotation marks, or nothing.
func Meant(name string, among []string) string {
	if near := Nearest(name, among); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Nearest is the one among the names that name was probably meant to be: the
// same but for case and separators, else within about a third of its length by
// edits; the first of those that are equally near. It is "" when there is none,
// and for a name of more than 512 bytes, which is no typing error.
func Nearest(name string, among []string) string {
	if len(name) > messages.MaxName {
		return ""
	}
	folded := fold(name)
	best, least := "", max((len(folded)+1)/3, 1)+1
	for _, other := range among {
		if other == name {
			continue
		}
		near := fold(other)
		if apart := utf8.RuneCountInString(folded) - utf8.RuneCountInString(near); max(apart, -apart) >= least {
			continue // spares most of the work, which grows with the product of the lengths
		}
		if d := distance(folded, near); d < least {
			best, least = other, d
		}
	}
	return best
}

// distance counts edits; two neighbours that changed places are one.
func distance(a, b string) int {
	if len(a) == len(b) {
		i := 0
		for i < len(a) && a[i] == b[i] {
			i++
		}
		if i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:] {
			return 1
		}
	}
	return levenshtein.ComputeDistance(a, b)
}

// fold takes away what models get wrong in a name without meaning another.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', '-', '.', '/', ' ':
			return '_'
		}
		return r
	}, strings.ToLower(name))
}
