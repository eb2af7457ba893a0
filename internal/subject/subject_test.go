package subject

import (
	"slices"
	"testing"
)

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		wide, narrow string
		want         bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.c", false},
		{"a.b", "a", false},
		{"a", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"a.>", "a.b", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{"a.>", "a.*", true},
		{"a.*", "a.>", false},
		{">", "a", true},
		{"*.b", "a.b", true},
		{"a.b", "a.*", false},
		{"a.*.c", "a.*.c", true},
	} {
		if got := Covers(c.wide, c.narrow); got != c.want {
			t.Errorf("Covers(%q, %q) = %v", c.wide, c.narrow, got)
		}
	}
}

func TestMinimal(t *testing.T) {
	got := Minimal([]string{"a.b", "a.*", "c", "c", "d.>", "d.e.f"})
	if want := []string{"a.*", "c", "d.>"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
