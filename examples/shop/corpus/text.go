package corpus

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// cutText is a text of which only the beginning and the length were kept.
var cutText = regexp.MustCompile(`(?s)^(.*)…\[\+(\d+) chars\]$`)

// SameText compares an answer with a recorded text: byte for byte, or, where
// only its beginning was recorded, by that and the number of characters.
func SameText(got, recorded string) bool {
	m := cutText.FindStringSubmatch(recorded)
	if m == nil {
		return got == recorded
	}
	rest, err := strconv.Atoi(m[2])
	if err != nil {
		return false
	}
	return strings.HasPrefix(got, m[1]) && utf8.RuneCountInString(got) == utf8.RuneCountInString(m[1])+rest
}

// IsCut says whether only the beginning of a text was recorded, and gives it.
func IsCut(recorded string) (beginning string, cut bool) {
	if m := cutText.FindStringSubmatch(recorded); m != nil {
		return m[1], true
	}
	return recorded, false
}
