//go:build unix

package fuzztest

import (
	"syscall"
	"time"
)

// processorTime is what this process has used, whatever else the machine does.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
