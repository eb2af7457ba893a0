package worker

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"mulligan/pkg/messages"
)

func TestALeaseIsTrustedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(messages.Delivery{Fetched: time.Now()}, 12*time.Second)
		check := func(held, young bool) {
			t.Helper()
			if l.held() != held || l.young() != young {
				t.Errorf("held %v, young %v", l.held(), l.young())
			}
		}
		check(true, true)
		<-time.After(6 * time.Second)
		check(true, false)
		l.extended(time.Now())
		check(true, true)
		<-time.After(9 * time.Second)
		check(false, false)
		l.extended(time.Now()) // too late: it may be another's
		check(false, false)
		l.adopt(messages.Delivery{Fetched: time.Now()})
		check(false, false) // others may have had it in between
		if _, due := l.due(); due {
			t.Error("due at once")
		}
		<-time.After(5 * time.Second)
		if _, due := l.due(); !due {
			t.Error("an adopted delivery is kept")
		}
	})
}

// Row 28: a machine that slept has a monotonic clock that stood still, and a
// wall clock can be set back; neither makes a lease look young.
func TestP7_28_ElapsedIsTheLongerOfTwoClocks(t *testing.T) {
	from := time.Now()
	for name, c := range map[string]struct{ monotonic, wall time.Duration }{
		"both went on":             {time.Minute, time.Minute},
		"the machine slept":        {0, time.Hour},
		"the wall clock went back": {time.Hour, -time.Hour},
	} {
		to := clocks(t, from, c.monotonic, c.wall)
		if got, want := elapsed(from, to), max(c.monotonic, c.wall); got != want {
			t.Errorf("%s: %v elapsed, want %v", name, got, want)
		}
	}
}

// clocks is a reading of both clocks some time after from, which only a test
// wants to differ: time.Time keeps the monotonic one in its second word.
func clocks(t *testing.T, from time.Time, monotonic, wall time.Duration) time.Time {
	t.Helper()
	to := from.Add(wall)
	(*[2]int64)(unsafe.Pointer(&to))[1] += int64(monotonic - wall)
	if to.Sub(from) != monotonic || to.Round(0).Sub(from.Round(0)) != wall {
		t.Fatalf("time.Time has another form than this test knows: %v and %v", to.Sub(from), to.Round(0).Sub(from.Round(0)))
	}
	return to
}
