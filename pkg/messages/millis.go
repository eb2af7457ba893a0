package messages

import (
	"encoding/json"
	"fmt"
	"time"
)

// Millis is a duration that travels as an integer of milliseconds, in a field
// named …_ms (S1.11). What is below a millisecond is rounded up, so that a
// positive wait never becomes none; what is negative travels as 0, and what is
// longer than can be read travels as the longest that can.
type Millis time.Duration

// Duration is m as the standard library's type.
func (m Millis) Duration() time.Duration { return time.Duration(m) }

func (m Millis) count() int64 {
	n := int64(time.Duration(m) / time.Millisecond)
	if time.Duration(m)%time.Millisecond > 0 {
		n++
	}
	return min(max(n, 0), maxMillis)
}

// MarshalJSON writes whole milliseconds.
func (m Millis) MarshalJSON() ([]byte, error) { return json.Marshal(m.count()) }

// UnmarshalJSON reads whole milliseconds from 0 to about 270 years.
func (m *Millis) UnmarshalJSON(b []byte) error {
	var n int64
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("%s is not a whole number of milliseconds", truncateText(string(b), 40))
	}
	if n < 0 || n > maxMillis {
		return fmt.Errorf("%d ms is out of range: a wait is from 0 to %d ms", n, maxMillis)
	}
	*m = Millis(time.Duration(n) * time.Millisecond)
	return nil
}

const maxMillis = int64(1) << 43 // 8.8e12 ms; fits time.Duration, which ends at 9.2e12 ms
