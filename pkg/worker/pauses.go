package worker

import (
	"time"

	"mulligan/internal/pace"
)

// pauses are those between tries of what a worker does not give up.
func pauses() *pace.Pauses { return pace.New(50*time.Millisecond, 5*time.Second) }
