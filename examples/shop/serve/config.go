package serve

import (
	"cmp"
	"fmt"
	"time"
)

// Config sets the limits of a Server.
type Config struct {
	// MaxBody is the size in bytes from which a request is refused with 413.
	// Default 1 MiB.
	MaxBody int64
	// FaultTimeout is how long an execution that is made to time out, or whose
	// answer is made to be lost in silence, keeps its connection open. Default
	// 2 s. A client whose own patience ends earlier never sees the end of it.
	FaultTimeout time.Duration
	// FaultRetryAfter is the Retry-After of an execution that is made to be
	// rate-limited, in whole seconds. Default 1 s.
	FaultRetryAfter time.Duration
	// Grace is how long a server that is told to stop waits for executions.
	// Default 5 s.
	Grace time.Duration
}

// WithDefaults returns the config with its zero fields set.
func (c Config) WithDefaults() Config {
	c.MaxBody = cmp.Or(c.MaxBody, 1<<20)
	c.FaultTimeout = cmp.Or(c.FaultTimeout, 2*time.Second)
	c.FaultRetryAfter = cmp.Or(c.FaultRetryAfter, time.Second)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	return c
}

// Validate names the field that is out of range.
func (c Config) Validate() error {
	switch {
	case c.MaxBody < 1:
		return fmt.Errorf("MaxBody: %d bytes; it must be positive, or 0 for the default", c.MaxBody)
	case c.FaultTimeout < 0:
		return fmt.Errorf("FaultTimeout: %v; it must be positive, or 0 for the default", c.FaultTimeout)
	case c.FaultRetryAfter < time.Second || c.FaultRetryAfter%time.Second != 0:
		return fmt.Errorf("FaultRetryAfter: %v; HTTP knows whole seconds only", c.FaultRetryAfter)
	case c.Grace < 0:
		return fmt.Errorf("Grace: %v; it must be positive, or 0 for the default", c.Grace)
	default:
		return nil
	}
}
