package suggest_test

import (
	"slices"
	"strings"
	"testing"

	"mulligan/internal/fuzztest"
	"mulligan/internal/suggest"
)

// What is suggested is one of the names there are, and finding it costs no
// more than reading them, however long a name is made up.
func FuzzNearest(f *testing.F) {
	f.Add("max_retris", "max_retries,jitter,effect")
	f.Add("", ",,")
	f.Add(strings.Repeat("a", 20_000), strings.Repeat("a", 20_000)+","+strings.Repeat("b", 20_000))
	f.Add("a", strings.Repeat("b,", 20_000))
	f.Fuzz(func(t *testing.T, name, list string) {
		among := strings.Split(list, ",")
		fuzztest.Bounded(t, len(name)+len(list), func() {
			near := suggest.Nearest(name, among)
			if near != "" && (!slices.Contains(among, near) || near == name) {
				t.Fatalf("%q was suggested for %q", near, name)
			}
			if text := suggest.ToolNotFound(name, among); !strings.Contains(text, name) {
				t.Fatalf("%q does not name %q", text, name)
			}
		})
	})
}

func TestANameThatIsTooLongIsNotComparedWithOthers(t *testing.T) {
	name := strings.Repeat("a", 513)
	if near := suggest.Nearest(name, []string{name + "b"}); near != "" {
		t.Errorf("%d bytes were suggested", len(near))
	}
	if near := suggest.Nearest(name[1:], []string{name}); near != name {
		t.Errorf("%q", near)
	}
}
