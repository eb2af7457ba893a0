package bench

import (
	"context"
	"slices"
	"time"
)

// lap is one repetition of one of the two ways.
type lap struct {
	calls     int
	took      time.Duration
	ours      usage // of this process
	brokers   usage
	latencies []time.Duration // of scenarios that measure them
}

// task is what a lap measures, made ready beforehand.
type task func(ctx context.Context) error

// turns measures two ways in turns, after a warm-up of each, so that a machine
// that is slow for a while is slow for both; which comes first alternates. Make
// makes a lap's task ready, which is not measured.
func (e *env) turns(ctx context.Context, calls int, ours, raw func(l *lap) (task, error)) (o, r []lap, err error) {
	for i := -1; i < e.repetitions(); i++ {
		pair := make([]lap, 2)
		for side := range 2 {
			which := (side + i + 2) % 2
			way := ours
			if which == 1 {
				way = raw
			}
			if pair[which], err = e.lap(ctx, calls, way, which == 0 && i == e.repetitions()-1); err != nil {
				return nil, nil, err
			}
		}
		if i < 0 {
			continue // the warm-up
		}
		o, r = append(o, pair[0]), append(r, pair[1])
		e.say("  repetition %d of %d: %.0f/s beside %.0f/s", i+1, e.repetitions(), pair[0].rate(), pair[1].rate())
	}
	return o, r, nil
}

// alone measures one way, after a warm-up.
func (e *env) alone(ctx context.Context, calls int, way func(l *lap) (task, error)) (laps []lap, err error) {
	for i := -1; i < e.repetitions(); i++ {
		l, err := e.lap(ctx, calls, way, i == e.repetitions()-1)
		if err != nil {
			return nil, err
		}
		if i >= 0 {
			laps = append(laps, l)
			e.say("  repetition %d of %d: %.0f/s", i+1, e.repetitions(), l.rate())
		}
	}
	return laps, nil
}

// lap measures one repetition; the last of ours is the one to look into.
func (e *env) lap(ctx context.Context, calls int, way func(l *lap) (task, error), last bool) (l lap, err error) {
	l.calls = calls
	do, err := way(&l)
	if err != nil {
		return l, err
	}
	ours, brokers, err := e.rig.usage(running)
	if err != nil {
		return l, err
	}
	ctx, end := e.rig.whileWorking(ctx)
	defer end()
	timed := func() error {
		begun := time.Now()
		err := do(ctx)
		l.took = time.Since(begun)
		return err
	}
	if last && e.o.Profile != "" {
		err = e.profiled(timed)
	} else {
		err = timed()
	}
	if err != nil {
		return l, err
	}
	oursNow, brokersNow, err := e.rig.usage(running)
	l.ours, l.brokers = oursNow.since(ours), brokersNow.since(brokers)
	return l, err
}

func (l lap) rate() float64 { return float64(l.calls) / l.took.Seconds() }

// each is a figure of every lap.
func each(laps []lap, figure func(lap) float64) []float64 {
	out := make([]float64, len(laps))
	for i, l := range laps {
		out[i] = figure(l)
	}
	return out
}

// over divides lap by lap: what ran one after the other is compared, and the
// median of that is taken.
func over(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		if b[i] != 0 {
			out[i] = a[i] / b[i]
		}
	}
	return out
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	switch n := len(s); {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

// spread is how far the repetitions lie apart, as a share of their median.
func spread(v []float64) float64 {
	m := median(v)
	if len(v) < 2 || m == 0 {
		return 0
	}
	return (slices.Max(v) - slices.Min(v)) / m
}

// quantile of durations, in milliseconds.
func quantile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(d))
	return float64(s[min(int(q*float64(len(s))), len(s)-1)].Microseconds()) / 1000
}
