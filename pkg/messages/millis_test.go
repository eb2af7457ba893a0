package messages_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func TestS1_11_DurationsAreWholeMilliseconds(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0"},
		{1, "1"},
		{time.Millisecond, "1"},
		{time.Millisecond + 1, "2"},
		{500 * time.Millisecond, "500"},
		{-1, "0"},
		{-time.Hour, "0"},
		{math.MaxInt64, "8796093022208"},
		{math.MinInt64, "0"},
	} {
		b, err := json.Marshal(messages.Millis(tc.d))
		if err != nil || string(b) != tc.want {
			t.Errorf("%d ns: %s, %v, want %s", tc.d, b, err, tc.want)
		}
		var back messages.Millis
		if err := json.Unmarshal(b, &back); err != nil {
			t.Errorf("%d ns travels as %s, which is refused: %v", tc.d, b, err)
		}
	}
}

func TestMillisRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"-1", "out of range"}, {"8796093022209", "out of range"}, {"1.5", "whole number"}, {`"5s"`, "whole number"}, {"1e3", "whole number"}, {"99999999999999999999", "whole number"},
	} {
		var m messages.Millis
		if err := json.Unmarshal([]byte(tc.text), &m); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.text, err, tc.want)
		}
	}
}
