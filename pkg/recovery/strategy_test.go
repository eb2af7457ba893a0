package recovery_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func analysis(recoverable bool, s messages.Severity, corrected bool) messages.FailureAnalysis {
	a := messages.FailureAnalysis{IsRecoverable: recoverable, Severity: s, RootCause: "the cause"}
	if corrected {
		a.Correction = &messages.Correction{Type: messages.ApproachChange, Description: "another way"}
	}
	return a
}

func TestS2_4_RulesInTheirOrder(t *testing.T) {
	upstream := recovery.DefaultBackoff()
	upstream.RetryCritical = true
	const ask = "ask user: high-severity failure with correction available: another way"
	for _, c := range []struct {
		name         string
		b            recovery.Backoff
		a            messages.FailureAnalysis
		attempt, max int
		want         string
	}{
		{"not recoverable", recovery.DefaultBackoff(), analysis(false, messages.Low, false), 0, 5, "fail: the cause"},
		{"not recoverable comes first", recovery.DefaultBackoff(), analysis(false, messages.High, true), 3, 5, "fail: the cause"},
		{"retries used up", recovery.DefaultBackoff(), analysis(true, messages.Low, false), 3, 5, "fail: max retries (3) exceeded"},
		{"used up before ask_user", recovery.DefaultBackoff(), analysis(true, messages.High, true), 3, 5, "fail: max retries (3) exceeded"},
		{"the ceiling is lower", recovery.Backoff{MaxRetries: 9, Multiplier: 2}, analysis(true, messages.Low, false), 5, 5, "fail: max retries (5) exceeded"},
		{"just below", recovery.DefaultBackoff(), analysis(true, messages.Low, false), 2, 5, "retry after 400ms"},
		{"high with a correction", recovery.DefaultBackoff(), analysis(true, messages.High, true), 0, 5, ask},
		{"critical with a correction", recovery.DefaultBackoff(), analysis(true, messages.Critical, true), 0, 5, ask},
		{"critical with a correction, upstream", upstream, analysis(true, messages.Critical, true), 0, 5, ask},
		{"high without", recovery.DefaultBackoff(), analysis(true, messages.High, false), 0, 5, "retry after 100ms"},
		{"critical without", recovery.DefaultBackoff(), analysis(true, messages.Critical, false), 0, 5, "fail: critical failure without a correction: the cause"},
		{"critical without, upstream", upstream, analysis(true, messages.Critical, false), 0, 5, "retry after 100ms"},
		{"medium with a correction", recovery.DefaultBackoff(), analysis(true, messages.Medium, true), 1, 5, "retry after 200ms"},
		{"no retries at all", recovery.Backoff{Multiplier: 2}, analysis(true, messages.Low, false), 0, 5, "fail: max retries (0) exceeded"},
	} {
		if got := c.b.Decide(c.a, c.attempt, c.max).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestS2_5_DelaysDoubleUpToTheCap(t *testing.T) {
	b := recovery.DefaultBackoff()
	for n, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000} {
		if got := b.Delay(n); got != want*time.Millisecond {
			t.Errorf("retry %d: %v", n, got)
		}
	}
	for _, n := range []int{63, 64, 1024, math.MaxInt} {
		if got := b.Delay(n); got != 30*time.Second {
			t.Errorf("retry %d: %v", n, got)
		}
	}
	if got := (recovery.Backoff{Multiplier: 2, Cap: time.Hour}).Delay(math.MaxInt); got != 0 {
		t.Errorf("without a base: %v", got)
	}
}

func TestS2_5_JitterIsAnOption(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Float64Range(0, 0.9999).Draw(t, "random")
		b := recovery.DefaultBackoff()
		b.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
		b.Random = func() float64 { return r }
		n := rapid.IntRange(0, 100).Draw(t, "n")
		exact := recovery.DefaultBackoff().Delay(n)
		got := b.Delay(n)
		if least := time.Duration(float64(exact)*(1-b.Jitter)) - 1; got > exact || got < least {
			t.Fatalf("%v is not from %v to %v", got, least, exact)
		}
	})
	b := recovery.DefaultBackoff()
	b.Jitter, b.Random = 0.5, func() float64 { return 0.5 }
	if got := b.Delay(0); got != 75*time.Millisecond {
		t.Errorf("%v", got)
	}
}

func TestBackoffNamesTheFieldThatIsWrong(t *testing.T) {
	for _, c := range []struct {
		change func(*recovery.Backoff)
		says   string
	}{
		{func(b *recovery.Backoff) { b.MaxRetries = -1 }, "max retries -1 is negative"},
		{func(b *recovery.Backoff) { b.Base = -1 }, "initial backoff"},
		{func(b *recovery.Backoff) { b.Cap = 1 }, "max backoff"},
		{func(b *recovery.Backoff) { b.Multiplier = 0.5 }, "multiplier 0.5"},
		{func(b *recovery.Backoff) { b.Multiplier = math.NaN() }, "multiplier NaN"},
		{func(b *recovery.Backoff) { b.Jitter = 2 }, "jitter 2"},
		{func(b *recovery.Backoff) { b.Jitter = 0.5 }, "source of random numbers"},
	} {
		b := recovery.DefaultBackoff()
		c.change(&b)
		if err := b.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	if err := recovery.DefaultBackoff().Validate(); err != nil {
		t.Error(err)
	}
}
