package excerpt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"mulligan/internal/excerpt"
)

// A text that fits stays; another keeps its bound, with its mark, and is still
// UTF-8 where it was.
func FuzzOf(f *testing.F) {
	f.Add("aéé", 4)
	f.Add("a😀b", 0)
	f.Add("\xff\xff\xff\xff\xff", 4)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(n, 0)
		got := excerpt.Of(s, n)
		if len(s) <= n && got != s {
			t.Fatalf("Of(%q, %d) = %q, and it fits", s, n, got)
		}
		if head, cut := strings.CutSuffix(got, "…"); len(s) > n && (!cut || len(head) > n || !strings.HasPrefix(s, head)) {
			t.Fatalf("Of(%q, %d) = %q", s, n, got)
		}
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("Of(%q, %d) = %q is not UTF-8", s, n, got)
		}
	})
}
