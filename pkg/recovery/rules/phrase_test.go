package rules

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// A phrase says of any text what its regular expression says, however quickly.
func TestAPhraseIsItsExpression(t *testing.T) {
	exprs := []string{`(?i)\btime[d]?[ -]?out\b|\bdeadline exceeded\b`, `(?i)\bconnection (?:was )?(?:refused|reset)\b`, `a+b`, `(abc){2,3}`, `^x?(?:yes|no)$`, `(?m)^([\w.]{1,9})\n\s+Field required`, `é{2}|abc`, `[a-c]xyz`, `(?:abc)*d`, ``}
	for _, e := range exprs {
		p, re := says(e), regexp.MustCompile(e)
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.OneOf(rapid.StringMatching(e), rapid.String(),
				rapid.Custom(func(t *rapid.T) string {
					return rapid.String().Draw(t, "before") + rapid.StringMatching(e).Draw(t, "within") + rapid.String().Draw(t, "after")
				})).Draw(t, "text")
			if got := p.in(spot(text)); got != re.MatchString(text) {
				t.Fatalf("%q in %q: %v", e, text, got)
			}
		})
	}
	if got := len(says(exprs[0]).words); got != 2 {
		t.Errorf("%d words of %q are known", got, exprs[0])
	}
	if says(exprs[0]).mayBeIn(spot("nothing of the kind")) {
		t.Error("nothing is ruled out")
	}
}
