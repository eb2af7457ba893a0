package soak

import (
	"math/rand/v2"
	"testing"
	"time"
)

// measured makes a point every five seconds of twelve minutes.
func measured(value func(r *rand.Rand, at time.Duration) float64) []Point {
	r := rand.New(rand.NewPCG(1, 2))
	var out []Point
	for at := 8 * time.Minute; at < 20*time.Minute; at += 5 * time.Second {
		out = append(out, Point{At: at, Value: value(r, at)})
	}
	return out
}

const mib = 1 << 20

// around gives a value up to ten per cent beside.
func around(r *rand.Rand, v float64) float64 { return v * (0.9 + 0.2*r.Float64()) }

func TestAVerdictTellsGrowthFromNoise(t *testing.T) {
	heap := Allowance{Share: 0.1, Absolute: mib}
	const callsPerSecond = 12 // that one of four workers runs
	for name, c := range map[string]struct {
		value   func(r *rand.Rand, at time.Duration) float64
		growing bool
	}{
		"as it was":   {func(*rand.Rand, time.Duration) float64 { return 5 * mib }, false},
		"nothing":     {func(*rand.Rand, time.Duration) float64 { return 0 }, false},
		"noise":       {func(r *rand.Rand, _ time.Duration) float64 { return around(r, 5*mib) }, false},
		"large noise": {func(r *rand.Rand, _ time.Duration) float64 { return 50 * mib * r.Float64() }, false},
		"200 bytes kept of each call": {func(r *rand.Rand, at time.Duration) float64 {
			return around(r, 5*mib) + 200*callsPerSecond*at.Seconds()
		}, true},
		"10 bytes kept of each call are less than can be seen": {func(r *rand.Rand, at time.Duration) float64 {
			return around(r, 5*mib) + 10*callsPerSecond*at.Seconds()
		}, false},
		"waves as long as two minutes": {func(_ *rand.Rand, at time.Duration) float64 {
			return 5*mib + 4*mib*float64(at%(2*time.Minute))/float64(2*time.Minute)
		}, false},
		"a fault at the end": {func(r *rand.Rand, at time.Duration) float64 {
			if at > 19*time.Minute+30*time.Second {
				return 80 * mib
			}
			return around(r, 5*mib)
		}, false},
		"up, and back again": {func(_ *rand.Rand, at time.Duration) float64 {
			if at >= 17*time.Minute {
				return 5 * mib
			}
			return 5*mib + 8000*(at-8*time.Minute).Seconds()
		}, false},
		"a rise within the noise": {func(_ *rand.Rand, at time.Duration) float64 {
			beside := 3.0 * mib
			if at%(10*time.Second) == 0 {
				beside = -beside
			}
			return 5*mib + beside + 1900*(at-8*time.Minute).Seconds()
		}, false},
		"less and less": {func(r *rand.Rand, at time.Duration) float64 { return around(r, 50*mib) - 1000*at.Seconds() }, false},
	} {
		if got := judge(measured(c.value), heap); got.Growing != c.growing {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAVerdictSaysHowMuch(t *testing.T) {
	got := judge(measured(func(_ *rand.Rand, at time.Duration) float64 { return 100 + at.Seconds() }), Allowance{Share: 0.1, Absolute: 10})
	if got.First < 600 || got.First > 700 || got.Last < 1200 || got.Last > 1300 || got.Rise < 714 || got.Rise > 716 || !got.Growing {
		t.Errorf("%+v", got)
	}
}

// What was hardly measured is not called flat.
func TestTooFewPointsAreNoProof(t *testing.T) {
	flat := measured(func(*rand.Rand, time.Duration) float64 { return 1 })
	if got := judge(flat[:fewest-1], Allowance{Absolute: 1}); !got.Growing {
		t.Errorf("%+v", got)
	}
	if got := judge(flat[:fewest], Allowance{Absolute: 1}); got.Growing {
		t.Errorf("%+v", got)
	}
}

func TestAMedianIsInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.of); got != c.want {
			t.Errorf("%v: %v", c.of, got)
		}
	}
}
