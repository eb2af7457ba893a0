// Package fuzztest holds what every fuzz target asks of code that reads what
// comes from outside: that it takes bounded time and memory, and says what is
// wrong in a text of bounded size.
package fuzztest

import (
	"fmt"
	"runtime/metrics"
	"testing"
	"time"
	"unicode/utf8"
)

// What an input of up to Unit bytes may cost; larger ones may cost it for each
// unit that they begin.
const (
	Unit     = 64 << 10
	MaxTime  = time.Second
	MaxBytes = 64 << 20 // allocated in all, so that garbage counts too
	// MaxError is the size in bytes of a text that says what is wrong with an
	// input; texts that quote a schema say so and have bounds of their own.
	MaxError = 2 << 10
	// tries is how often something that took too long is tried: the processor
	// may have been busy with what was there before.
	tries = 3
)

// Bounded runs f, which reads size bytes from outside, and fails if that takes
// longer or allocates more than such an input may.
func Bounded(t testing.TB, size int, f func()) {
	t.Helper()
	units := 1 + size/Unit
	if over := measure(f, time.Duration(units)*MaxTime*slower, uint64(units)*MaxBytes); over != "" {
		t.Fatalf("an input of %d bytes %s", size, over)
	}
}

func measure(f func(), most time.Duration, bytes uint64) (over string) {
	for range tries {
		allocated, spent := allocations(), processorTime()
		f()
		allocated, spent = allocations()-allocated, processorTime()-spent
		switch {
		case spent > most:
			over = fmt.Sprintf("takes %v, and may take %v", spent, most)
		case allocated > bytes:
			over = fmt.Sprintf("allocates %d bytes, and may allocate %d", allocated, bytes)
		default:
			return ""
		}
	}
	return over
}

func allocations() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Told fails unless err is nil or a text that can be shown: not empty, of
// bounded size and valid UTF-8.
func Told(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if text := err.Error(); text == "" || len(text) > MaxError || !utf8.ValidString(text) {
		t.Fatalf("an error of %d bytes: %.500q", len(text), text)
	}
}
