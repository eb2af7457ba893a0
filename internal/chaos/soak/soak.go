//go:build linux

package soak

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mulligan/internal/chaos"
	"mulligan/internal/freeport"
)

const (
	broker      = "broker-0"
	sampleEvery = 5 * time.Second
	shortest    = 5 * time.Minute // of a soak: below, nothing expires twice
)

// Config says how long and how hard.
type Config struct {
	Over     time.Duration // the time in which calls are submitted and faults strike
	Rate     int           // calls in a second
	Seed     uint64
	Keep     string // folder for the logs and the store of a soak that is not flat; empty keeps none
	Evidence string // file to which the report is added; empty for none
	Out      io.Writer
}

// Validate names the field, the value and the way out.
func (c Config) Validate() error {
	switch {
	case c.Over < shortest:
		return fmt.Errorf("a soak of %s is too short to show anything: give %s or more", c.Over, shortest)
	case c.Rate < 1 || c.Rate > 1000:
		return fmt.Errorf("rate %d: give 1 to 1000 calls a second", c.Rate)
	}
	return nil
}

// kept is how long results and stories are kept: a tenth of the time, so that
// what outlives them (records, twice as long, and the marks of what expired) goes
// several times over.
func (c Config) kept() time.Duration {
	return min(max(c.Over/10, 40*time.Second), 10*time.Minute).Round(time.Second)
}

// settled is when everything that expires has begun to.
func (c Config) settled() time.Duration { return 4*c.kept() + 30*time.Second }

// Run soaks a pool, prints a report and adds it to the evidence.
func Run(ctx context.Context, c Config) (r Report, err error) {
	dir, err := os.MkdirTemp("", "mulligan-soak-")
	if err != nil {
		return r, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := chaos.BuildNatsServer(ctx, dir)
	if err != nil {
		return r, err
	}
	addresses, release, err := freeport.Addresses(len(services) + 1)
	if err != nil {
		return r, err
	}
	defer release()
	s, err := open(ctx, c, dir, server, addresses)
	if err != nil {
		return r, err
	}
	defer s.pool.Close()
	r, err = s.run(ctx)
	if err == nil {
		err = r.print(c.Out)
	}
	if err == nil && c.Evidence != "" {
		err = r.note(c.Evidence)
	}
	if (err != nil || !r.Flat()) && c.Keep != "" {
		fmt.Fprintf(c.Out, "logs and store are in %s\n", c.Keep)
		if kerr := os.CopyFS(c.Keep, os.DirFS(dir)); kerr != nil {
			fmt.Fprintln(c.Out, "they were not kept whole:", kerr)
		}
	}
	return r, err
}

// soaking is a pool that is being soaked.
type soaking struct {
	Config
	pool    *chaos.Long
	sampler *sampler
	began   time.Time
	pids    map[string]int // at the beginning
	died    []string       // of the processes that are to live
}

var services = []string{"coordinator-0", "coordinator-1", "reflector-0", "reflector-1", "worker-0", "worker-1", "worker-2", "worker-3"}

// open starts the pool. An address each is for what the services tell, and one
// for the profiles of the broker.
func open(ctx context.Context, c Config, dir, server string, addresses []string) (*soaking, error) {
	pages := make(map[string]string)
	for i, name := range services {
		pages[name] = addresses[i]
	}
	profile := addresses[len(services)]
	_, profilePort, err := net.SplitHostPort(profile)
	if err != nil {
		return nil, err
	}
	setup := chaos.Setup{
		Nodes:  1,
		Broker: "prof_port: " + profilePort + "\n",
		Args: func(name string) []string {
			args := []string{"--http", pages[name], "--log-level", "info"}
			if !spared(name) {
				args = append(args, "--name", "") // another one at each start, as in a pool that comes and goes
			}
			if name == "coordinator-0" || name == "coordinator-1" {
				args = append(args, "--results-age", c.kept().String(), "--recovery-age", c.kept().String())
			}
			return args
		},
	}
	calls := (int(c.Over/every) + 1) * c.Rate * int(every/time.Second)
	pool, err := chaos.OpenLong(ctx, setup, c.Seed, calls, dir, server)
	if err != nil {
		return nil, err
	}
	return &soaking{Config: c, pool: pool, sampler: newSampler(pages, pool.Monitor(), profile, filepath.Join(dir, broker)), began: time.Now(), pids: pool.Pids()}, nil
}

// run submits, strikes and measures, side by side, and judges at the end.
func (s *soaking) run(ctx context.Context) (Report, error) {
	fmt.Fprintf(s.Out, "soaking for %s: %d calls a second, a fault every %s, results kept for %s, judged from %s on\n", s.Over, s.Rate, every, s.kept(), s.settled())
	var all sync.WaitGroup
	measured, stop := context.WithCancel(ctx)
	var measuring sync.WaitGroup
	measuring.Go(func() { s.measure(measured) })
	errs := make(chan error, 2)
	all.Go(func() { errs <- s.submit(ctx) })
	all.Go(func() { errs <- s.storm(ctx) })
	all.Wait()
	stop()
	measuring.Wait()
	for range cap(errs) {
		if err := <-errs; err != nil {
			return Report{}, err
		}
	}
	over := time.Since(s.began)
	h, err := s.pool.Finish(ctx)
	if err != nil {
		return Report{}, err
	}
	r := Report{Began: s.began.UTC().Round(time.Second), Minutes: s.Over.Minutes(), Rate: s.Rate, Kept: s.kept(), Judged: over - s.settled(), Report: chaos.Check(h)}
	for _, name := range s.died {
		r.Violations = append(r.Violations, name+" was to live through it, and ended")
	}
	r.Trends, r.Peaks = verdicts(s.sampler.series, s.settled())
	return r, nil
}

// submit brings a block of calls every ten seconds, whatever became of the ones
// before, and cancels one of its runs halfway.
func (s *soaking) submit(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for n := range int(s.Over / every) {
		wishes, err := block(s.Seed, n, s.Rate)
		if err != nil {
			return err
		}
		if !s.until(ctx, time.Duration(n)*every) {
			return context.Cause(ctx)
		}
		all.Go(func() { s.pool.Submit(ctx, wishes) })
		all.Go(func() {
			if s.until(ctx, time.Duration(n)*every+every/2) {
				s.pool.CancelRun(ctx, runOf(n, "run-0"))
			}
		})
	}
	return nil
}

func (s *soaking) storm(ctx context.Context) error {
	faults := strikes(s.Seed, s.Over)
	errs := make(chan error, len(faults))
	for _, f := range faults {
		go func() { errs <- s.pool.Strike(ctx, f) }()
	}
	for range faults {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// measure samples until ctx is done, tells now and then how it goes, and sees
// that those live that are to.
func (s *soaking) measure(ctx context.Context) {
	told := time.Now()
	for n := 0; s.until(ctx, time.Duration(n)*sampleEvery); n++ {
		pids := s.pool.Pids()
		err := s.sampler.sample(ctx, s.began, pids)
		for name, pid := range pids {
			if spared(name) && pid != s.pids[name] {
				s.died, s.pids[name] = append(s.died, name), pid
			}
		}
		if time.Since(told) >= time.Minute {
			told = time.Now()
			s.tell(err)
		}
	}
}

func (s *soaking) tell(err error) {
	last := func(of, what string) string {
		points := s.sampler.series[measure{of, what}]
		if len(points) == 0 {
			return "?"
		}
		return figure(what, points[len(points)-1].Value)
	}
	fmt.Fprintf(s.Out, "%s: store %s, heap of broker %s, coordinator %s, reflector %s, worker %s", time.Since(s.began).Round(time.Second), last("store", disk),
		last(broker, heap), last("coordinator-0", heap), last("reflector-0", heap), last("worker-0", heap))
	if err != nil {
		fmt.Fprintf(s.Out, "; not all could be measured: %v", err)
	}
	fmt.Fprintln(s.Out)
}

// until sleeps until a time after the beginning.
func (s *soaking) until(ctx context.Context, at time.Duration) bool {
	select {
	case <-time.After(time.Until(s.began.Add(at))):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
