package form

import (
	"slices"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
)

// maxName bounds the names that are compared; a longer one is near to itself only.
const maxName = 100

// Fold is s without case and without the marks that separate words in names.
func Fold(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', '-', ' ', '.', '/':
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// Near says whether two names of parameters are likely to mean the same:
// written differently (orderId, order_id), mistyped in one letter, an
// abbreviation (dob, date_of_birth; desc, description), or a part that says as
// much in its place (id, payment_id; zip, zip_code). Names that differ in a
// digit or in a short word are not near: date1 and date2, min_price and
// max_price mean opposite things.
func Near(a, b string) bool {
	if len(a) > maxName || len(b) > maxName {
		return a == b
	}
	fa, fb := Fold(a), Fold(b)
	if fa == fb {
		return fa != ""
	}
	if digits(fa) != digits(fb) {
		return false
	}
	wa, wb := words(a), words(b)
	if len(fa) > len(fb) {
		fa, fb, wa, wb = fb, fa, wb, wa // a is the shorter one
	}
	return abbreviates(fa, wa, wb, fb) || partOf(wa, wb) || mistyped(fa, fb, wa, wb)
}

// shorthand are abbreviations that are neither initials nor beginnings.
func shorthand(word string) string {
	switch word {
	case "q":
		return "query"
	case "qty":
		return "quantity"
	case "msg":
		return "message"
	case "lng":
		return "longitude"
	case "tz":
		return "timezone"
	case "pwd":
		return "password"
	case "img":
		return "image"
	case "src":
		return "source"
	case "dst":
		return "destination"
	case "uri":
		return "url"
	}
	return word
}

func abbreviates(short string, ws, wl []string, long string) bool {
	if len(ws) == 1 && len(short) >= 3 {
		if len(wl) > 1 && short == initials(wl) {
			return true
		}
		if len(wl) == 1 && strings.HasPrefix(long, short) {
			return true
		}
	}
	if len(ws) != len(wl) {
		return false
	}
	for i := range ws {
		x, y := shorthand(ws[i]), shorthand(wl[i])
		if x != y && (len(x) < 3 || !strings.HasPrefix(y, x)) {
			return false
		}
	}
	return true
}

func initials(ws []string) string {
	var b strings.Builder
	for _, w := range ws {
		b.WriteString(w[:1])
	}
	return b.String()
}

// partOf: the shorter name ends the longer one, or begins it and what follows
// only says which kind of value it is.
func partOf(ws, wl []string) bool {
	if len(ws) >= len(wl) {
		return false
	}
	if slices.Equal(ws, wl[len(wl)-len(ws):]) {
		return true
	}
	if !slices.Equal(ws, wl[:len(ws)]) {
		return false
	}
	for _, w := range wl[len(ws):] {
		switch w {
		case "id", "ids", "code", "number", "name", "text", "address", "value", "string", "list":
		default:
			return false
		}
	}
	return true
}

func mistyped(fa, fb string, wa, wb []string) bool {
	if len(fa) < 5 || len(fb)-len(fa) > 1 {
		return false
	}
	if levenshtein.ComputeDistance(fa, fb) <= 1 {
		return true
	}
	if len(wa) != len(wb) {
		return false
	}
	for i := range wa {
		if wa[i] != wb[i] && (len(wa[i]) < 4 || levenshtein.ComputeDistance(wa[i], wb[i]) > 1) {
			return false
		}
	}
	return true
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// words splits a name at its marks and where case rises, in lower case.
func words(s string) []string {
	var out []string
	var cur strings.Builder
	flush := func() {
		if cur.Len() > 0 {
			out = append(out, cur.String())
			cur.Reset()
		}
	}
	lower := false
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush()
			lower = false
			continue
		}
		if unicode.IsUpper(r) && lower {
			flush()
		}
		lower = !unicode.IsUpper(r)
		cur.WriteRune(unicode.ToLower(r))
	}
	flush()
	return out
}

// Nearest finds the one candidate that s was probably meant to be: equal but
// for case and marks, else by far the closest in edits and within a quarter of
// the length. exact says that only case and marks differ. Two that are equally
// likely are none.
func Nearest(s string, candidates []string) (best string, exact, ok bool) {
	if s == "" || len(s) > maxName {
		return "", false, false
	}
	fs := Fold(s)
	var same []string
	for _, c := range candidates {
		if Fold(c) == fs && !slices.Contains(same, c) {
			same = append(same, c)
		}
	}
	switch len(same) {
	case 0:
	case 1:
		return same[0], true, true
	default:
		return "", false, false
	}
	first, second := 1<<30, 1<<30
	for _, c := range slices.Compact(slices.Sorted(slices.Values(candidates))) {
		if len(c) > maxName {
			continue
		}
		switch d := levenshtein.ComputeDistance(fs, Fold(c)); {
		case d < first:
			best, first, second = c, d, first
		case d < second:
			second = d
		}
	}
	limit := max(1, len(fs)/4)
	if len(fs) < 3 || first > limit || second-first < 2 || digits(fs) != digits(Fold(best)) {
		return "", false, false
	}
	return best, false, true
}

// HasWord says whether text holds w with no letter, digit or _ beside it.
func HasWord(text, w string) bool {
	for w != "" {
		i := strings.Index(text, w)
		if i < 0 {
			return false
		}
		if (i == 0 || !wordByte(text[i-1])) && (i+len(w) == len(text) || !wordByte(text[i+len(w)])) {
			return true
		}
		text = text[i+1:]
	}
	return false
}

func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}
