package messages_test

import (
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func TestABreakerSaysWhyItRefuses(t *testing.T) {
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, b := range map[string]messages.Breaker{
		messages.BreakerText + " until 2026-01-02T03:04:05Z":                                   {State: messages.BreakerOpen, Until: until},
		messages.BreakerText + " until 2026-01-02T03:04:05Z, opened by anna: stock is counted": {State: messages.BreakerOpen, Until: until, By: "anna", Reason: "stock is counted"},
		messages.BreakerText + " until 2026-01-02T03:04:05Z, opened by anna":                   {State: messages.BreakerOpen, Until: until, By: "anna"},
		messages.BreakerText + ", while one call tries the tool":                               {State: messages.BreakerHalfOpen, Until: until},
		messages.BreakerText: {},
	} {
		if got := b.Why(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
