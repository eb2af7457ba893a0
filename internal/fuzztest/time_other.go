//go:build !unix

package fuzztest

import "time"

var began = time.Now()

// processorTime is the time of the clock, where nothing better is known.
func processorTime() time.Duration { return time.Since(began) }
