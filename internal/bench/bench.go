// Package bench measures what Mulligan costs: scenarios that run calls through a
// pool, beside them, in turns in the same run, a plain JetStream work queue
// ([mulligan/jetstream/raw]) that carries the same messages, and the figures of
// both. Ratios say what Mulligan costs; absolute figures say what machine this is.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Scenario is one thing that is measured.
type Scenario struct {
	Name  string
	About string // what it measures, in a line
	// Figures are those that each of its reports has.
	Figures []string
	run     func(ctx context.Context, e *env) ([]*Report, error)
}

// Options say how large a measurement is.
type Options struct {
	// Server is the command that runs ServeBroker with its standard input and
	// output: the broker's process. Required.
	Server []string
	// Short makes everything so small that it only shows that it works.
	Short bool
	// Repetitions of each case, after a warm-up; default 5, one when Short.
	Repetitions int
	// Calls of a repetition; 0 leaves it to the scenario.
	Calls int
	// Slots are the numbers of slots that throughput is measured with, one case
	// each. Default 64.
	Slots []int
	// Size of an input and of an output, in bytes; default 1,024.
	Size int
	// Profile is a folder for profiles of the last repetition of each case, on
	// our side: of processor time and allocations, of this process and of the
	// broker's. Empty makes none.
	Profile string
	// Say gets the progress. Nil discards it.
	Say func(format string, args ...any)
}

// AllSlots are the cases of throughput in a run of everything.
func AllSlots() []int { return []int{1, 4, 16, 64, 256} }

// Validate names the field that cannot be used.
func (o Options) Validate() error {
	const most = 100_000
	switch {
	case o.Repetitions < 0 || o.Repetitions > 1000:
		return fmt.Errorf("--repetitions %d: give 1 to 1000", o.Repetitions)
	case o.Calls < 0:
		return fmt.Errorf("--calls %d: give 1 or more", o.Calls)
	case o.Size != 0 && (o.Size < 16 || o.Size > most):
		return fmt.Errorf("--size %d: give 16 to %d bytes; the scenario payload measures larger ones", o.Size, most)
	}
	for _, n := range o.Slots {
		if n < 1 || n > 10_000 {
			return fmt.Errorf("--slots %d: give 1 to 10000", n)
		}
	}
	return nil
}

// Scenarios are all there are, in the order in which all of them are run.
func Scenarios() []Scenario {
	return []Scenario{
		{"throughput", "calls of a tool that does nothing, from submission to the stored result in the submitter's hands", comparison, throughput},
		{"submit", "batches taken in: checked against the schema and stored, beside asynchronous publishing", comparison, submit},
		{"latency", "one call at a time, with nothing else to do", timed, latency},
		{"offered", "calls that come at a given rate, whether the earlier ones are done or not", timed, offered},
		{"retry-now", "calls that fail once and are decided on by the rules, beside raw jobs that do not fail", comparison, retryNow},
		{"retry-later", "calls that fail once and wait two seconds: how late their second attempt begins", []string{"calls_per_s", "late_p50_ms", "late_p99_ms", "early", "allocs_per_call"}, retryLater},
		{"waiting", "fresh calls while many others are delayed or parked", []string{"p50_ms", "p99_ms", "before_p50_ms", "before_p99_ms", "p99_change", "server_heap_per_delayed_call", "client_heap_per_delayed_call"}, waiting},
		{"backlog", "throughput in front of a long queue, and the progress of a run there", []string{"calls_per_s", "few_queued_per_s", "ratio", "progress_ms", "server_heap_per_queued_call"}, backlog},
		{"payload", "large inputs and outputs", comparison, payload},
		{"tools", "100 tools in 20 queues, served by one worker, beside one tool", []string{"calls_per_s", "one_tool_per_s", "ratio", "cpu_ratio", "allocs_per_call"}, manyTools},
		{"burst", "many failures at once, and fresh calls meanwhile", []string{"failures", "recovered_per_s", "p50_ms", "p99_ms", "before_p50_ms", "before_p99_ms"}, burst},
		{"restart", "a pool that keeps many results and queued calls, started again after a clean stop", []string{"ready_ms", "broker_ready_ms", "client_heap_mib", "server_heap_mib", "results", "queued"}, restart},
		{"cluster", "three brokers and three copies of everything", comparison, cluster},
		{"durable", "a broker that syncs each message to the disk", comparison, durable},
	}
}

// What a comparison with the raw pipeline reports, and one of single calls.
var (
	costs      = []string{"cpu_us_per_call", "cpu_client_us_per_call", "cpu_server_us_per_call", "allocs_per_call", "bytes_per_call", "messages_per_call", "raw_cpu_us_per_call", "raw_allocs_per_call", "raw_messages_per_call", "cpu_ratio"}
	comparison = slices.Concat([]string{"calls", "calls_per_s", "raw_per_s", "ratio"}, costs)
	timed      = slices.Concat([]string{"calls", "p50_ms", "p99_ms", "raw_p50_ms", "raw_p99_ms", "p50_ratio", "p99_ratio"}, costs)
)

// Find gives the scenario of a name.
func Find(name string) (Scenario, error) {
	var names []string
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(names, ", "))
}

// Run measures a scenario; each case is handed to report when it is done. It
// uses a pool of its own in a temporary folder, which it removes.
func (s Scenario) Run(ctx context.Context, o Options, report func(*Report) error) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if len(o.Server) == 0 {
		return errors.New("no command for the broker's process")
	}
	e := &env{o: o, scenario: s.Name, done: report}
	e.say("%s: %s", s.Name, s.About)
	reports, err := s.run(ctx, e)
	for _, r := range reports {
		err = errors.Join(err, report(r))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// env is what a scenario runs in.
type env struct {
	o        Options
	scenario string
	rig      *rig
	profiles int                 // that were made
	done     func(*Report) error // hands over one case of several, which can take minutes each
}

func (e *env) say(format string, args ...any) {
	if e.o.Say != nil {
		e.o.Say(format, args...)
	}
}

func (e *env) repetitions() int {
	if e.o.Short {
		return cmp.Or(e.o.Repetitions, 1)
	}
	return cmp.Or(e.o.Repetitions, 5)
}

// calls is how many calls a repetition has.
func (e *env) calls(full, short int) int { return cmp.Or(e.o.Calls, e.n(full, short)) }

// n is a size that no flag changes, except short.
func (e *env) n(full, short int) int {
	if e.o.Short {
		return short
	}
	return full
}

func (e *env) body() []byte { return input(cmp.Or(e.o.Size, 1024)) }

func (e *env) report(name string) *Report {
	return &Report{Scenario: e.scenario, Case: name, short: e.o.Short}
}

// on runs do on a rig of its own.
func (e *env) on(ctx context.Context, cfg rigConfig, do func() error) (err error) {
	cfg.server = e.o.Server
	cfg.slots = cmp.Or(cfg.slots, 64)
	if cfg.tools == nil {
		cfg.tools = noops()
	}
	r, err := newRig(ctx, cfg)
	if err != nil {
		return err
	}
	before := e.rig
	e.rig = r
	defer func() {
		e.rig = before
		err = errors.Join(err, r.close())
	}()
	return do()
}
