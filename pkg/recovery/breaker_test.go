package recovery_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

const (
	resetTime  = time.Minute
	probeLease = 3 * time.Minute
)

var breakerEpoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// bench is a breaker on a clock that the test moves.
type bench struct {
	t     *testing.T
	rules recovery.BreakerRules
	b     messages.Breaker
	now   time.Time
	calls int
}

func newBench(t *testing.T) *bench {
	return &bench{t: t, now: breakerEpoch,
		rules: recovery.BreakerRules{Mode: messages.BreakerFailFast, Threshold: 5, Reset: resetTime}}
}

func (b *bench) after(d time.Duration) *bench { b.now = b.now.Add(d); return b }

// fail ends n calls one after the other, each begun now.
func (b *bench) fail(n int) *bench {
	for range n {
		b.calls++
		b.b, _ = b.rules.Failed(b.b, fmt.Sprint("call ", b.calls), b.now, b.now)
	}
	return b
}

func (b *bench) succeed(p messages.Probe, began time.Time) *bench {
	b.b, _ = b.rules.Succeeded(b.b, p, began, b.now)
	return b
}

func (b *bench) ask(p messages.Probe) recovery.BreakerLeave {
	var leave recovery.BreakerLeave
	b.b, _, leave = b.rules.Ask(b.b, p, probeLease, b.now)
	return leave
}

func (b *bench) want(state messages.BreakerState, failures int) {
	b.t.Helper()
	if at := b.b.At(b.now); at.State != state || len(at.Failures) != failures {
		b.t.Fatalf("%s with %d failures, want %s with %d", at.State, len(at.Failures), state, failures)
	}
}

// wantLeave: notBefore counts from now.
func (b *bench) wantLeave(p messages.Probe, pass, probe bool, notBefore time.Duration) {
	b.t.Helper()
	got := b.ask(p)
	want := recovery.BreakerLeave{Pass: pass, Probe: probe}
	if !pass {
		want.NotBefore = b.now.Add(notBefore)
	}
	if got != want {
		b.t.Fatalf("%s hears %+v, want %+v", p.Call, got, want)
	}
}

func probeOf(call string, dispatch int) messages.Probe {
	return messages.Probe{Run: "=r", Call: call, Dispatch: dispatch}
}

var nobody = probeOf("nobody", 0)

func TestS8_1_TheThresholdOpensIt(t *testing.T) {
	b := newBench(t).fail(4)
	b.want(messages.BreakerClosed, 4)
	b.wantLeave(nobody, true, false, 0)
	b.fail(1).want(messages.BreakerOpen, 5)
	if b.b.Trips != 1 || !b.b.Opened.Equal(b.now) || !b.b.Until.Equal(b.now.Add(resetTime)) || b.b.Mode != messages.BreakerFailFast {
		t.Fatalf("%+v", b.b)
	}
	b.after(time.Second).wantLeave(nobody, false, false, 59*time.Second)
}

func TestS8_1_ASuccessWhileClosedBeginsTheCountAnew(t *testing.T) {
	b := newBench(t).fail(4).succeed(nobody, breakerEpoch)
	b.want(messages.BreakerClosed, 0)
	b.fail(4).want(messages.BreakerClosed, 4)
	if _, changed := b.rules.Succeeded(messages.Breaker{}, nobody, b.now, b.now); changed {
		t.Fatal("where nothing is counted a success changes nothing")
	}
}

func TestS8_1_TheProbeClosesItOrOpensItForAFullReset(t *testing.T) {
	b := newBench(t).fail(5).after(resetTime)
	first := probeOf("a", 2)
	b.wantLeave(first, true, true, 0)
	b.want(messages.BreakerHalfOpen, 5)

	b.after(10 * time.Second)
	b.b, _ = b.rules.ProbeFailed(b.b, first, b.now)
	b.want(messages.BreakerOpen, 5)
	if b.b.Trips != 2 {
		t.Fatalf("%d trips", b.b.Trips)
	}
	b.wantLeave(probeOf("a", 3), false, false, resetTime) // its own retry
	b.after(resetTime-1).wantLeave(nobody, false, false, 1)
	second := probeOf("b", 0)
	b.after(1).wantLeave(second, true, true, 0)
	b.succeed(second, b.now).want(messages.BreakerClosed, 0)
	b.wantLeave(nobody, true, false, 0)
	b.fail(4).want(messages.BreakerClosed, 4)
}

func TestS8_2_ACallCountsOnce(t *testing.T) {
	b := newBench(t)
	for range 10 {
		b.b, _ = b.rules.Failed(b.b, "the same", b.now, b.now)
	}
	b.want(messages.BreakerClosed, 1)
}

func TestS8_2_NothingIsCountedWhileItIsNotClosed(t *testing.T) {
	b := newBench(t).fail(5)
	if _, changed := b.rules.Failed(b.b, "more", b.now, b.now); changed {
		t.Fatal("a failing end is written while it is open")
	}
	b.after(resetTime).ask(probeOf("a", 0))
	if _, changed := b.rules.Failed(b.b, "more", b.now, b.now); changed {
		t.Fatal("a failing end is written while it is half-open")
	}
}

func TestS8_3_SwitchedOffItCountsNothingAndCloses(t *testing.T) {
	b := newBench(t).fail(5)
	b.rules.Mode = messages.BreakerOff
	b.wantLeave(nobody, true, false, 0)
	b.want(messages.BreakerClosed, 0)
	b.fail(9).want(messages.BreakerClosed, 0)
}

func TestS8_3_AHumanOpensAndClosesIt(t *testing.T) {
	b := newBench(t)
	b.rules.Mode = messages.BreakerOff // whatever the policy says
	b.b = b.rules.Open(b.b, 10*time.Minute, "ann", "the shop moves", b.now)
	if b.b.By != "ann" || b.b.Reason != "the shop moves" || b.b.Mode != messages.BreakerFailFast {
		t.Fatalf("%+v", b.b)
	}
	b.after(10*time.Minute-1).wantLeave(nobody, false, false, 1)
	b.rules.Mode = messages.BreakerDefer
	b.after(1).wantLeave(nobody, true, true, 0)
	if b.b.By != "" || b.b.Mode != messages.BreakerDefer {
		t.Fatalf("half-open by a human: %+v", b.b)
	}
	b.b = b.rules.Close(b.b, "bob", "", b.now)
	b.want(messages.BreakerClosed, 0)
	b.b = b.rules.Open(b.b, 0, "ann", "", b.now)
	b.wantLeave(nobody, false, false, resetTime)
}

func TestS8_4_OneProbe(t *testing.T) {
	b := newBench(t).fail(5).after(resetTime)
	b.wantLeave(probeOf("a", 1), true, true, 0)
	for _, other := range []messages.Probe{probeOf("b", 1), probeOf("a", 2), {Run: "=s", Call: "a", Dispatch: 1}} {
		b.wantLeave(other, false, false, 6*time.Second)
	}
	b.wantLeave(probeOf("a", 1), true, true, 0) // the same, asked again
}

func TestS8_4_ALapsedProbeOpensItForAFullReset(t *testing.T) {
	b := newBench(t).fail(5).after(resetTime)
	b.ask(probeOf("a", 0))
	b.after(probeLease-1).want(messages.BreakerHalfOpen, 5)
	b.after(1).want(messages.BreakerOpen, 5)
	b.wantLeave(probeOf("b", 0), false, false, resetTime)
	b.after(10*time.Second).wantLeave(probeOf("a", 0), false, false, 50*time.Second) // counted from its expiry
	// What the lost probe says late changes nothing.
	b.succeed(probeOf("a", 0), b.now).want(messages.BreakerOpen, 5)
	if _, changed := b.rules.ProbeFailed(b.b, probeOf("a", 0), b.now); changed {
		t.Fatal("a lost probe pushes the clock")
	}
	b.after(50*time.Second).wantLeave(probeOf("b", 0), true, true, 0)
	if b.b.Trips != 2 {
		t.Fatalf("%d trips", b.b.Trips)
	}
}

func TestS8_4_WhatBeganBeforeTheTripNeitherClosesNorProlongsIt(t *testing.T) {
	b := newBench(t).fail(5)
	until := b.b.Until
	before := b.now.Add(-time.Second)
	b.after(30*time.Second).succeed(nobody, before).want(messages.BreakerOpen, 5)
	b.b, _ = b.rules.Failed(b.b, "late", before, b.now)
	if !b.b.Until.Equal(until) {
		t.Fatalf("until %s, want %s", b.b.Until, until)
	}
	b.after(30 * time.Second).ask(probeOf("a", 0))
	b.succeed(nobody, before).want(messages.BreakerHalfOpen, 5)
	b.succeed(probeOf("a", 0), b.now).want(messages.BreakerClosed, 0)
	b.b, _ = b.rules.Failed(b.b, "later still", before, b.now)
	b.want(messages.BreakerClosed, 0)
	b.fail(1).succeed(nobody, before).want(messages.BreakerClosed, 1)
}

func TestS8_4_AProbeThatToldNothingLeavesItsPlace(t *testing.T) {
	b := newBench(t).fail(5).after(resetTime)
	b.ask(probeOf("a", 0))
	if _, changed := b.rules.ProbeGone(b.b, probeOf("b", 0), b.now); changed {
		t.Fatal("another's end takes the leave of the probe")
	}
	b.b, _ = b.rules.ProbeGone(b.b, probeOf("a", 0), b.now)
	b.want(messages.BreakerOpen, 5)
	b.wantLeave(probeOf("c", 0), true, true, 0)
	if b.b.Trips != 1 {
		t.Fatalf("%d trips", b.b.Trips)
	}
}

// naive is the breaker as one would explain it: it looks at its watch every
// second, and remembers everything.
type naive struct {
	now, opened, until int
	state              messages.BreakerState
	failed             []string
	probe              string
}

func (n *naive) second() {
	n.now++
	if n.state == messages.BreakerHalfOpen && n.now == n.until {
		n.trip()
	}
}

func (n *naive) trip() {
	n.state, n.opened, n.until, n.probe = messages.BreakerOpen, n.now, n.now+int(resetTime/time.Second), ""
}

func (n *naive) close() { n.state, n.failed, n.probe = messages.BreakerClosed, nil, "" }

func (n *naive) ask(call string) (pass bool) {
	if n.state == messages.BreakerOpen && n.now >= n.until {
		n.state, n.probe, n.until = messages.BreakerHalfOpen, call, n.now+int(probeLease/time.Second)
	}
	return n.state == messages.BreakerClosed || n.probe == call
}

func (n *naive) fails(call string, began int) {
	switch {
	case n.probe == call && call != "":
		n.trip()
	case n.state == messages.BreakerClosed && began >= n.opened && !slices.Contains(n.failed, call):
		if n.failed = append(n.failed, call); len(n.failed) == 5 {
			n.trip()
		}
	}
}

func (n *naive) succeeds(call string, began int) {
	if n.probe == call && call != "" || n.state == messages.BreakerClosed && began >= n.opened {
		n.close()
	}
}

func TestS8_1_AsANaiveBreakerWouldDo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b, n := newBench(t), &naive{state: messages.BreakerClosed}
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			call := fmt.Sprint("c", rapid.IntRange(0, 9).Draw(rt, "call"))
			began := max(n.now-rapid.IntRange(0, 90).Draw(rt, "lasted"), 0)
			beganAt := breakerEpoch.Add(time.Duration(began) * time.Second)
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				for range rapid.SampledFrom([]int{1, 5, 59, 60, 179, 180}).Draw(rt, "seconds") {
					n.second()
				}
				b.now = breakerEpoch.Add(time.Duration(n.now) * time.Second)
			case 1, 2:
				if b.b.At(b.now).Probes(probeOf(call, 0)) {
					b.b, _ = b.rules.ProbeFailed(b.b, probeOf(call, 0), b.now)
				} else {
					b.b, _ = b.rules.Failed(b.b, call, beganAt, b.now)
				}
				n.fails(call, began)
			case 3:
				b.succeed(probeOf(call, 0), beganAt)
				n.succeeds(call, began)
			case 4:
				if got, want := b.ask(probeOf(call, 0)).Pass, n.ask(call); got != want {
					rt.Fatalf("%s passes: %v, want %v at %d, %+v", call, got, want, n.now, b.b)
				}
			}
			at := b.b.At(b.now)
			probe := ""
			if at.Probe != nil {
				probe = at.Probe.Call
			}
			open := at.State != messages.BreakerClosed
			if at.State != n.state || probe != n.probe || open && !at.Until.Equal(breakerEpoch.Add(time.Duration(n.until)*time.Second)) ||
				!open && !slices.Equal(at.Failures, n.failed) {
				rt.Fatalf("%+v, want %+v", at, n)
			}
		}
	})
}

func TestS8_3_ARefusalIsNotReflectedOn(t *testing.T) {
	asked := 0
	reflector := says{r: found(nil), asked: &asked}
	c := recovery.Case{Tool: "t", Code: messages.CodeBreakerOpen, Error: messages.BreakerText, NothingDone: true, FreeWaits: messages.MaxFreeWaits}
	if d := decide(t, reflector, recovery.Policy{}, c); d.Action.Type != messages.ActFail || d.Action.Reason != messages.BreakerText {
		t.Errorf("fail_fast: %s", d.Action)
	}
	c.RetryAfter = time.Minute
	for name, p := range map[string]recovery.Policy{"plain": {}, "no recovery": {ExcludeTools: []string{"t"}}, "no retries": {MaxRetries: new(0)}} {
		if d := decide(t, reflector, p, c); d.Action.Type != messages.ActFail {
			t.Errorf("fail_fast by now, %s: %s", name, d.Action)
		}
		p.Breaker = messages.BreakerDefer
		if d := decide(t, reflector, p, c); d.Action.Type != messages.ActRetry || d.Action.Delay.Duration() != time.Minute {
			t.Errorf("defer, %s: %s", name, d.Action)
		}
	}
	if asked != 0 {
		t.Errorf("the reflector was asked %d times", asked)
	}
}
