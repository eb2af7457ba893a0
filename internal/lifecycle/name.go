package lifecycle

import (
	"os"

	"github.com/google/uuid"
)

// NewName is a name for a service that was given none: the host's name, so that
// people know where to look, and a random part, since it has to be unique in
// its pool.
func NewName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown-host"
	}
	return host + "-" + uuid.NewString()[:8]
}
