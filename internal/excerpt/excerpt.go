// Package excerpt shortens texts to what a message or a record has room for.
package excerpt

import "unicode/utf8"

// Head is what s begins with, at most n bytes of it and no part of a character.
// A text that is not UTF-8 may be cut anywhere.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for at := n; at >= 0 && at > n-utf8.UTFMax; at-- {
		if utf8.RuneStart(s[at]) {
			return s[:at]
		}
	}
	return s[:n]
}

// Of is s, or its [Head] and a mark that there was more, which n does not count.
func Of(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Head(s, n) + "…"
}
