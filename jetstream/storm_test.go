package jetstream

import (
	"testing"
	"time"
)

// 500 clients that lose their broker in one moment never come back in one: no
// tenth of a second sees more than a quarter of them, and while it is away they
// become fewer, down to one try of each in two seconds.
func TestClientsThatLoseABrokerComeBackSpread(t *testing.T) {
	t.Parallel()
	const clients, minute, slice = 500, time.Minute, 100 * time.Millisecond
	tries := make([]int, minute/slice)
	for range clients {
		at := time.Duration(0)
		for n := 1; ; n++ {
			d := reconnectDelay(n)
			if d < reconnectFirst/4 || d > reconnectMost {
				t.Fatalf("round %d waits %v", n, d)
			}
			if at += d; at >= minute {
				break
			}
			tries[at/slice]++
		}
	}
	most, late := 0, 0
	for i, n := range tries {
		most = max(most, n)
		if i >= len(tries)/2 {
			late += n
		}
	}
	if most > clients/4 {
		t.Errorf("%d of %d clients tried within %v", most, clients, slice)
	}
	if perSecond := late / int(minute/2/time.Second); perSecond > clients/2 {
		t.Errorf("after half a minute they try %d times a second", perSecond)
	}
	if d := reconnectDelay(1_000_000); d > reconnectMost {
		t.Errorf("after very many rounds it waits %v", d)
	}
}
