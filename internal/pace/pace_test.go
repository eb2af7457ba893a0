package pace_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/pace"
)

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	spread := map[time.Duration]bool{}
	for range 100 {
		p := pace.New(20*time.Millisecond, 100*time.Millisecond)
		for i, step := range []time.Duration{20, 40, 80, 100, 100} {
			step *= time.Millisecond
			d := p.Next()
			if d < step/2 || d > step {
				t.Fatalf("pause %d is %v, want %v to %v", i, d, step/2, step)
			}
			spread[d] = true
		}
	}
	if len(spread) < 100 {
		t.Errorf("500 pauses are of %d lengths: who fails together comes back together", len(spread))
	}
}

func TestWaitIsTrueAfterThePauseAndFalseAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := pace.New(time.Second, time.Minute)
		began := time.Now()
		if !p.Wait(ctx) {
			t.Error("it says that ctx is done")
		}
		if took := time.Since(began); took < time.Second/2 || took > time.Second {
			t.Errorf("the first pause took %v", took)
		}
		time.AfterFunc(time.Second/4, cancel)
		began = time.Now()
		if p.Wait(ctx) || time.Since(began) != time.Second/4 {
			t.Errorf("it went on for %v after a cancel", time.Since(began)-time.Second/4)
		}
		if pace.Sleep(ctx, 0) || pace.Sleep(ctx, -1) {
			t.Error("no time at all passes also when ctx is done")
		}
	})
	if !pace.Sleep(t.Context(), 0) {
		t.Error("sleeping for no time failed")
	}
}
