// Package subject compares subjects with wildcards, as the broker does.
package subject

import "strings"

// Covers says whether every subject that matches narrow matches wide: a * stands
// for one token, a > at the end for one or more. A literal subject matches
// itself only, so Covers also says whether one matches a filter.
func Covers(wide, narrow string) bool {
	for {
		w, wideRest, wideMore := strings.Cut(wide, ".")
		n, narrowRest, narrowMore := strings.Cut(narrow, ".")
		switch {
		case w == ">":
			return true
		case n == ">", w != "*" && w != n:
			return false
		case !wideMore && !narrowMore:
			return true
		case wideMore != narrowMore:
			return false
		}
		wide, narrow = wideRest, narrowRest
	}
}

// Minimal drops the filters that another one covers, and so does not change
// what they match together.
func Minimal(filters []string) []string {
	var out []string
	for i, f := range filters {
		covered := false
		for j, g := range filters {
			covered = covered || i != j && Covers(g, f) && (!Covers(f, g) || j < i)
		}
		if !covered {
			out = append(out, f)
		}
	}
	return out
}
