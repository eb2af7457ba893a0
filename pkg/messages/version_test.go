package messages_test

import (
	"errors"
	"testing"

	"mulligan/pkg/messages"
)

// A body is of the version that a JSON reader finds, wherever and however it is
// written.
func TestTheVersionOfABody(t *testing.T) {
	for body, ours := range map[string]bool{
		`{"version":"1"}`:                            true,
		`{"version":"1","error":"x"}`:                true,
		`{"error":"x", "version" : "1"}`:             true,
		`{"version":"10"}`:                           false,
		`{"version":"2"}`:                            false,
		`{"version":"1","version":"2"}`:              false,
		`{"version":"1","VERSION":"2"}`:              false,
		`{"version":"1","vers\u0069on":"2"}`:         false,
		"{\"version\":\"1\",\"ver\u017fion\":\"2\"}": false,
		`{"error":"x"}`:                              false,
	} {
		_, err := messages.DecodeService[messages.ChunkReply]([]byte(body))
		var other *messages.VersionError
		if ours != (err == nil) || !ours && !errors.As(err, &other) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := messages.DecodeService[messages.ChunkReply]([]byte(`{"version":"1"`)); err == nil {
		t.Error("half a body is read")
	}
}
