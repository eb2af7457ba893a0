package jetstream

import (
	"fmt"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// A cluster that is not whole yet is waited for; one that has no room for the
// replicas that were asked for is not.
func TestAClusterThatFormsIsWaitedFor(t *testing.T) {
	for text, want := range map[string]bool{
		"no suitable peers for placement":                                      true,
		"no suitable peers for placement, peer offline":                        true,
		"no suitable peers for placement, peer offline, miscellaneous issue":   true,
		"no suitable peers for placement, jetstream not enabled in cluster":    true,
		"no suitable peers for placement, insufficient storage":                false,
		"no suitable peers for placement, tags not matched ['ssd']":            false,
		"no suitable peers for placement, peer offline, server tag not unique": false,
	} {
		err := fmt.Errorf("make stream: %w", &natsjs.APIError{Code: 400, ErrorCode: 10005, Description: text})
		if got := passes(err); got != want {
			t.Errorf("%s: passes %v", text, got)
		}
	}
}
