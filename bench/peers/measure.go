package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// lap is one repetition of one system.
type lap struct {
	perSecond float64
	cpu       float64 // microseconds of a job, of this process and of the server
	singles   []time.Duration
}

// measured are the laps of one system.
type measured struct {
	system
	jobs int // of a repetition of throughput
	laps []lap
}

// measure measures all systems in turns, after a warm-up that finds out how many
// jobs each gets through in the time of one measurement. One system runs at a
// time, its server included.
func measure(ctx context.Context, at *site, o options, systems []system) (*report, error) {
	all := make([]measured, len(systems))
	for i, s := range systems {
		all[i].system = s
	}
	before := load()
	for round := range o.repetitions + 1 {
		for i := range all {
			// Who comes first changes, so that nobody has the same neighbour's
			// leftovers, such as pages to be written, each time.
			m := &all[(i+round)%len(all)]
			var err error
			if round == 0 {
				err = m.warm(ctx, at, o)
			} else {
				err = m.turn(ctx, at, o)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		if round > 0 {
			say("repetition %d of %d is done", round, o.repetitions)
		}
	}
	sync, err := syncTime(at.dir)
	if err != nil {
		return nil, err
	}
	return newReport(machine{Cores: runtime.NumCPU(), LoadBefore: before, SyncMS: sync}, o, all), nil
}

func (m *measured) in(ctx context.Context, at *site, do func(session) error) (err error) {
	s, err := m.open(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return do(s)
}

// How many jobs a measurement has when they take long, of throughput and of latency.
const (
	fewest        = 200
	fewestSingles = 3
)

// warm doubles the jobs until they take half the time of a measurement, without
// the sleep before them.
func (m *measured) warm(ctx context.Context, at *site, o options) error {
	say("warming up: %s", m.Name)
	return m.in(ctx, at, func(s session) error {
		if err := s.one(ctx); err != nil {
			return err
		}
		for n := min(fewest, o.jobs); ; n = min(2*n, o.jobs) {
			took, _, err := timed(ctx, s, n)
			if err != nil {
				return err
			}
			if took -= m.wakes; took >= o.over/2 || n == o.jobs {
				m.jobs = min(o.jobs, max(n, int(float64(n)*o.over.Seconds()/max(took, time.Millisecond).Seconds())))
				return nil
			}
		}
	})
}

// turn is one repetition, on a server that has begun for it.
func (m *measured) turn(ctx context.Context, at *site, o options) error {
	return m.in(ctx, at, func(s session) error {
		if err := s.one(ctx); err != nil {
			return err
		}
		if _, _, err := timed(ctx, s, min(fewest, m.jobs)); err != nil {
			return err
		}
		took, cpu, err := timed(ctx, s, m.jobs)
		if err != nil {
			return err
		}
		l := lap{perSecond: float64(m.jobs) / took.Seconds(), cpu: cpu.Seconds() * 1e6 / float64(m.jobs)}
		for begun := time.Now(); len(l.singles) < min(o.singles, fewestSingles) || len(l.singles) < o.singles && time.Since(begun) < o.over; {
			submitted := time.Now()
			if err := s.one(ctx); err != nil {
				return err
			}
			l.singles = append(l.singles, time.Since(submitted))
		}
		m.laps = append(m.laps, l)
		return nil
	})
}

// stuck is after how long a measurement fails that does not end.
const stuck = 2 * time.Minute

// timed measures n jobs: how long they take, and how much of the processors.
func timed(ctx context.Context, s session, n int) (took, cpu time.Duration, err error) {
	do, err := s.many(n)
	if err != nil {
		return 0, 0, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, stuck, fmt.Errorf("%d jobs have not ended within %v", n, stuck))
	defer stop()
	runtime.GC() // of what was made ready
	before, begun := cpuTime(s.pid()), time.Now()
	err = do(ctx)
	took = time.Since(begun)
	return took, cpuTime(s.pid()) - before, err
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// spread is how far the values lie apart, as a share of their median.
func spread(v []float64) float64 {
	if len(v) == 0 || median(v) == 0 {
		return 0
	}
	return (slices.Max(v) - slices.Min(v)) / median(v)
}

// quantile in milliseconds.
func quantile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(d))
	return s[min(int(q*float64(len(s))), len(s)-1)].Seconds() * 1000
}

// syncTime is how many milliseconds it takes to write 4 KiB and sync them, in
// the median: what a synced system pays at least.
func syncTime(dir string) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	var took []float64
	for range 50 {
		begun := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		if err := f.Sync(); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		took = append(took, time.Since(begun).Seconds()*1000)
	}
	return median(took), f.Close()
}

// load is the machine's load of the last minute, 0 where that is not known.
func load() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var l float64
	_, _ = fmt.Sscan(string(b), &l)
	return l
}

// versions are those of the modules that are compared.
func versions() map[string]string {
	out := map[string]string{"go": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	names := map[string]string{
		"github.com/hibiken/asynq": "asynq", "github.com/riverqueue/river": "river", "github.com/jackc/pgx/v5": "pgx",
		"github.com/nats-io/nats-server/v2": "nats-server", "github.com/nats-io/nats.go": "nats.go",
	}
	for _, d := range info.Deps {
		if name := names[d.Path]; name != "" {
			out[name] = d.Version
		}
	}
	return out
}
