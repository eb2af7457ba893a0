package excerpt_test

import (
	"testing"
	"unicode/utf8"

	"mulligan/internal/excerpt"
)

func TestExcerpts(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"aéé", 4, "aé…"}, // in the middle of the second
		{"aéé", 3, "aé…"},
		{"é", 1, "…"},
		{"a😀b", 4, "a…"},
		{"abc", 0, "…"},
		{"a\x80\x80\x80\x80\x80\x80", 6, "a\x80\x80\x80\x80\x80…"}, // no characters to keep whole
	} {
		if got := excerpt.Of(c.text, c.n); got != c.want {
			t.Errorf("Of(%q, %d) = %q, not %q", c.text, c.n, got, c.want)
		}
	}
}

func FuzzHead(f *testing.F) {
	f.Add("aéé", 4)
	f.Add("a😀b", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 {
			return
		}
		got := excerpt.Head(s, n)
		if len(got) > n && got != s || s[:len(got)] != got {
			t.Errorf("Head(%q, %d) = %q", s, n, got)
		}
		if utf8.ValidString(s) && (!utf8.ValidString(got) || len(got) < min(n, len(s))-3) {
			t.Errorf("Head(%q, %d) = %q cuts a character, or too much", s, n, got)
		}
	})
}
