package coordination

import (
	"time"

	"mulligan/internal/pace"
)

// pauses are those between tries of what a coordinator does not give up.
func pauses() *pace.Pauses { return pace.New(20*time.Millisecond, 2*time.Second) }
