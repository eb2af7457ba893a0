package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Fault is a rule that is taken out of the services of a whole pool, in one
// place or more. A directed trial of internal/chaos, whose harness and checker
// are as they should be, has to see a promise broken.
type Fault struct {
	Name  string
	Gone  string // what the code does without the rule
	Trial string // of internal/chaos
	Edits []Edit
}

// Faults are the rules whose loss a pool has to show to whoever looks at it
// from outside.
func Faults() []Fault {
	return []Fault{
		{"start", "an unsafe tool runs without its start written down", "starts", []Edit{{
			worker + "/starting.go",
			`first, err := h.putStart(subject, mine)`,
			`first, err := mine, error(nil)
	_ = subject`,
		}}},
		{"ack", "a worker acks before its outcome is stored", "outputs", []Edit{{
			worker + "/outcome.go",
			`	out, err := h.body(e.Output.Body, len(e.Output.Body))`,
			`	h.ack()
	out, err := h.body(e.Output.Body, len(e.Output.Body))`,
		}}},
		{"compare", "a coordinator writes its record over whatever stands there", "records", []Edit{{
			coordinator + "/handling.go",
			`	if errors.Is(err, messages.ErrConflict) {
		return errAgain
	}`,
			`	for errors.Is(err, messages.ErrConflict) {
		var e messages.Entry
		if e, err = h.c.broker.Load(ctx, messages.BucketAttempts, messages.CallKey(h.t.run, h.t.call)); err == nil {
			rev, err = h.c.broker.Save(ctx, messages.BucketAttempts, messages.CallKey(h.t.run, h.t.call), b, e.Revision, h.c.cfg.RecordTTL)
		}
	}`,
		}}},
		{"duplicate", "messages have ids, and the broker's answer to a duplicate is believed", "starts", []Edit{{
			adapter + "/publish.go",
			`_, err = p.store(ctx, m.Subject, h, m.Body)`,
			`h = maps.Clone(h)
	if h == nil {
		h = make(nats.Header, 1)
	}
	h[headerMsgID] = []string{m.Subject}
	_, err = p.store(ctx, m.Subject, h, m.Body)`,
		}, {
			adapter + "/topology.go",
			`			Duplicates: 100 * time.Millisecond,
			Metadata:   map`,
			`			Duplicates: 2 * time.Minute,
			Metadata:   map`,
		}}},
		{"full", "a refusal of a full stream, code 10077 too, counts as stored", "room", []Edit{{
			adapter + "/publish.go",
			`	case errors.Is(err, messages.ErrFull):
		return nil, err
	}`,
			`	case errors.Is(err, messages.ErrFull):
		return nil, nil
	}`,
		}}},
		{"nak", "a call that has to wait is given back with a delay", "waits", []Edit{{
			worker + "/running.go",
			`	err := h.fail(h.executed(e))`,
			`	if e.Failure.NothingDone && e.Failure.RetryAfter > 0 {
		d := h.lease.current()
		d.Fetched = time.Now().Add(e.Failure.RetryAfter)
		if err := h.w.broker.Nak(h.w.flushing, d); err != nil {
			return err
		}
		return errHandOn
	}
	err := h.fail(h.executed(e))`,
		}, {
			adapter + "/fetch.go",
			`	return p.settle(ctx, "nak", d, bodyNak)`,
			`	if wait := time.Until(d.Fetched); wait > 0 {
		return p.settle(ctx, "nak", d, fmt.Appendf(nil, "-NAK {\"delay\":%d}", wait))
	}
	return p.settle(ctx, "nak", d, bodyNak)`,
		}}},
		{"retry", "an ambiguous call of an unsafe tool is tried again", "answers", []Edit{{
			machine + "/decision.go",
			`case fl.Ambiguous && next.Call.Effect == messages.Unsafe:`,
			`case false:`,
		}}},
		{"correct", "a call is corrected after an ambiguous failure", "answers", []Edit{{
			machine + "/retry.go",
			`	case j.fl.Ambiguous:
		return "an effect`,
			`	case false:
		return "an effect`,
		}}},
	}
}

const directedCommand = "./internal/chaos/cmd/directed"

// Harness puts pools into the hands of internal/chaos.
type Harness struct {
	Root    string        // of the module, absolute
	Dir     string        // for what is built
	Timeout time.Duration // of one trial
}

// Build compiles the harness, as it should be.
func (h Harness) Build(ctx context.Context) error {
	_, err := h.build(ctx, h.command())
	return err
}

func (h Harness) command() string { return filepath.Join(h.Dir, "directed") }

// build gives what the compiler said against it.
func (h Harness) build(ctx context.Context, to string, args ...string) (complaint string, err error) {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-buildvcs=false", "-o", to}, args...), directedCommand)...)
	cmd.Dir = h.Root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("build the harness: %w\n%s", errors.Join(err, ctx.Err()), out)
	}
	return "", nil
}

// Sound says what is wrong with a trial of services as they should be.
func (h Harness) Sound(ctx context.Context, trial string) error {
	t, err := h.run(ctx, trial, h.command())
	if err == nil && t.Verdict != Survived {
		err = fmt.Errorf("trial %s is no judge, with every rule in place it says: %s\n%s", trial, strings.Join(t.By, "\n"), t.Output)
	}
	return err
}

// Try runs the trial of a fault with services that have it.
func (h Harness) Try(ctx context.Context, f Fault) (Trial, error) {
	dir, err := os.MkdirTemp(h.Dir, "mutant-")
	if err != nil {
		return Trial{}, err
	}
	defer os.RemoveAll(dir)
	overlay, err := overlayIn(dir, h.Root, f.Edits...)
	if err != nil {
		return Trial{}, fmt.Errorf("fault %s: %w", f.Name, err)
	}
	services := filepath.Join(dir, "services")
	if complaint, err := h.build(ctx, services, "-overlay", overlay); err != nil {
		if ctx.Err() != nil {
			return Trial{}, err
		}
		return Trial{Verdict: DoesNotBuild, Output: complaint}, nil
	}
	return h.run(ctx, f.Trial, services)
}

// brokenPromises is how the harness ends that has seen some.
const brokenPromises = 3

// run says Survived of a pool that broke no promise. By are the promises.
func (h Harness) run(ctx context.Context, trial, services string) (Trial, error) {
	timed, stop := context.WithTimeout(ctx, h.Timeout)
	defer stop()
	cmd := exec.CommandContext(timed, h.command(), "-services", services, trial)
	cmd.Dir = h.Root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends what it started
	cmd.WaitDelay = 30 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return Trial{}, ctx.Err()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return Trial{Verdict: Survived}, nil
	case errors.As(err, &exit) && exit.ExitCode() == brokenPromises:
		return Trial{Verdict: Caught, By: violations(out.String())}, nil
	}
	return Trial{Verdict: Unclear, Output: out.String()}, nil
}

// violations are what the checker said.
func violations(output string) []string {
	var said []string
	for line := range strings.Lines(output) {
		if _, v, ok := strings.Cut(line, "VIOLATION: "); ok {
			said = append(said, strings.TrimSpace(v))
		}
	}
	return said
}

// judge is what TryFaults needs of a [Harness].
type judge interface {
	Sound(ctx context.Context, trial string) error
	Try(ctx context.Context, f Fault) (Trial, error)
}

// mostSaid is how many violations of a fault are printed.
const mostSaid = 3

// TryFaults makes sure that a pool with every rule in place breaks no promise
// in the trials, then tries one fault after the other and prints what the
// checker said. It says whether all were caught.
func TryFaults(ctx context.Context, w io.Writer, j judge, all []Fault) (bool, error) {
	var sound []string
	for _, f := range all {
		if slices.Contains(sound, f.Trial) {
			continue
		}
		if err := j.Sound(ctx, f.Trial); err != nil {
			return false, err
		}
		sound = append(sound, f.Trial)
		fmt.Fprintf(w, "sound: a pool with every rule in place breaks no promise in trial %s\n", f.Trial)
	}
	count := map[Verdict]int{}
	for _, f := range all {
		t, err := j.Try(ctx, f)
		if err != nil {
			return false, err
		}
		count[t.Verdict]++
		fmt.Fprintf(w, "\n  %-8s %s: %s\n  %-8s trial %s: %d promises broken\n", t.Verdict, f.Name, f.Gone, "", f.Trial, len(t.By))
		for _, v := range t.By[:min(mostSaid, len(t.By))] {
			fmt.Fprintf(w, "  %-8s   %.300s\n", "", v)
		}
		if t.Output != "" {
			fmt.Fprintln(w, t.Output)
		}
	}
	fmt.Fprintf(w, "\nharness: %d rules taken out of whole pools, %d caught, %d survived", len(all), count[Caught], count[Survived])
	tellRest(w, count)
	return count[Caught] == len(all), nil
}
