package subject_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"mulligan/internal/fuzztest"
	"mulligan/internal/subject"
)

// naive is a filter as a regular expression.
func naive(filter string) *regexp.Regexp {
	tokens := strings.Split(filter, ".")
	for i, token := range tokens {
		switch {
		case token == "*":
			tokens[i] = `[^.]*`
		case token == ">" && i == len(tokens)-1:
			tokens[i] = `(?s:.+)`
		default:
			tokens[i] = regexp.QuoteMeta(token)
		}
	}
	return regexp.MustCompile(`^` + strings.Join(tokens, `\.`) + `$`)
}

// A filter matches what the rules say, and of several those that remain match
// the same.
func FuzzCovers(f *testing.F) {
	f.Add("a.*.c", "a.b.c", "a.>")
	f.Add(">", "a", "*.*")
	f.Add("*", "", "a..b")
	f.Fuzz(func(t *testing.T, filter, literal, other string) {
		if !utf8.ValidString(filter) || !utf8.ValidString(literal) || !utf8.ValidString(other) || strings.ContainsAny(literal, "*>\n") || strings.ContainsAny(filter+other, "\n") || strings.Contains(literal, "..") || strings.Trim(literal, ".") != literal || literal == "" {
			return
		}
		for _, wide := range []string{filter, other} {
			if i := strings.Index(wide, ">"); i >= 0 && (i != len(wide)-1 || i > 0 && wide[i-1] != '.') || strings.Contains(wide, "*") && !wholeStars(wide) || strings.Contains(wide, "..") || strings.Trim(wide, ".") != wide || wide == "" {
				return // no filter
			}
		}
		fuzztest.Bounded(t, len(filter)+len(literal)+len(other), func() {
			if got, want := subject.Covers(filter, literal), naive(filter).MatchString(literal); got != want {
				t.Fatalf("%q matches %q: %t", filter, literal, got)
			}
			all := []string{filter, other, filter}
			few := subject.Minimal(all)
			if got, want := matches(few, literal), matches(all, literal); got != want || len(few) > len(all) {
				t.Fatalf("%q became %q, and differ about %q", all, few, literal)
			}
		})
	})
}

func wholeStars(filter string) bool {
	for token := range strings.SplitSeq(filter, ".") {
		if strings.Contains(token, "*") && token != "*" {
			return false
		}
	}
	return true
}

func matches(filters []string, literal string) bool {
	for _, f := range filters {
		if subject.Covers(f, literal) {
			return true
		}
	}
	return false
}
