package cli

import (
	"context"
	"errors"
	"testing"

	"mulligan/internal/replay"
)

// An expression that takes ever more memory ends for that, long before its time
// is over; one that does not ends as it would.
func TestAChangeThatTakesTooMuchMemoryEnds(t *testing.T) {
	const room = 16 << 20
	for _, tc := range []struct {
		jq   string
		want error
	}{
		{`{a: [range(1000000000000) | tostring]}`, errLargeChange},
		{`{a: [repeat("x" * 100000)]}`, errLargeChange},
		{`.a = 1`, nil},
	} {
		var c replay.Change
		if err := c.JQ(tc.jq); err != nil {
			t.Fatal(err)
		}
		patient, cancel := context.WithTimeout(t.Context(), patience)
		ctx, end := withRoom(patient, room)
		_, err := c.Input(ctx, []byte(`{}`))
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.jq, err, tc.want)
		}
		end()
		cancel()
	}
}
