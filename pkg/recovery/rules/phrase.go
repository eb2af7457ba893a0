package rules

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// phrase is what a text may say, as a regular expression. Most texts say few
// of the many phrases, so a phrase knows which words it cannot do without and
// is only looked for where one of them may occur.
type phrase struct {
	re    *regexp.Regexp
	words []string // in lower case, one of which must occur; empty: not known
}

// says compiles a phrase, for the tables of this package.
func says(expr string) phrase {
	p := phrase{re: regexp.MustCompile(expr)}
	if parsed, err := syntax.Parse(expr, syntax.Perl); err == nil {
		p.words = needed(parsed.Simplify())
	}
	return p
}

// in says whether the text says it.
func (p phrase) in(t spotted) bool { return p.mayBeIn(t) && p.re.MatchString(t.text) }

// find is the first place, with its groups; nil if there is none.
func (p phrase) find(t spotted) []string {
	if !p.mayBeIn(t) {
		return nil
	}
	return p.re.FindStringSubmatch(t.text)
}

// findAll are the first n places.
func (p phrase) findAll(t spotted, n int) [][]string {
	if !p.mayBeIn(t) {
		return nil
	}
	return p.re.FindAllStringSubmatch(t.text, n)
}

func (p phrase) mayBeIn(t spotted) bool {
	return len(p.words) == 0 || slices.ContainsFunc(p.words, t.spots.hold)
}

// spotted is a text with what is needed to rule words out quickly.
type spotted struct {
	text  string
	spots *spots
}

// folded are the letters beyond ASCII whose lower case is within.
var folded = strings.NewReplacer("\u017f", "s", "\u212a", "k")

func spot(text string) spotted {
	t := spotted{text, new(spots)}
	plain := folded.Replace(text)
	for i := 0; i+3 <= len(plain); i++ {
		h := t.spots.at(lower(plain[i]), lower(plain[i+1]), lower(plain[i+2]))
		t.spots[h/64] |= 1 << (h % 64)
	}
	return t
}

// spots is the set of the runs of three bytes of a text, folded to 8,192.
type spots [128]uint64

func (*spots) at(a, b, c byte) uint { return (uint(a)*961 + uint(b)*31 + uint(c)) % 8192 }

// hold says whether a word, in lower case and of three bytes or more, may occur.
func (s *spots) hold(w string) bool {
	for i := 0; i+3 <= len(w); i++ {
		if h := s.at(w[i], w[i+1], w[i+2]); s[h/64]&(1<<(h%64)) == 0 {
			return false
		}
	}
	return true
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// needed are words of which every match holds one; none if that is not known.
func needed(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		w := strings.ToLower(string(re.Rune))
		if len(w) >= 3 && len(w) == utf8.RuneCountInString(w) {
			return []string{w}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needed(re.Sub[0])
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if words := needed(sub); shortest(words) > shortest(best) {
				best = words
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			words := needed(sub)
			if len(words) == 0 {
				return nil
			}
			all = append(all, words...)
		}
		return all
	}
	return nil
}

func shortest(words []string) int {
	if len(words) == 0 {
		return 0
	}
	n := len(words[0])
	for _, w := range words {
		n = min(n, len(w))
	}
	return n
}
