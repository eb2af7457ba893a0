//go:build unix

package chaos

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BuildNatsServer builds the server that go.mod names into dir, and gives its path.
func BuildNatsServer(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "nats-server")
	out, err := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w\n%s", err, out)
	}
	return path, nil
}

// ParseSeeds reads "7", "1-60" or a list of both.
func ParseSeeds(text string) ([]uint64, error) {
	var out []uint64
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseUint(from, 10, 32)
		b, errB := strconv.ParseUint(to, 10, 32)
		if errA != nil || errB != nil || b < a || b-a > 10_000 {
			return nil, fmt.Errorf("seeds %q: give a number, a range such as 1-60, or a list of both", text)
		}
		for s := a; s <= b; s++ {
			out = append(out, s)
		}
	}
	return out, nil
}

// Trials runs seeds one after another.
type Trials struct {
	Seeds []uint64
	Base  Config // all but the seed
	// Kill makes of each seed a trial in which brokers are killed and nothing
	// else happens; of Base only Nodes counts then.
	Kill *KillConfig
	// Keep is a folder for the logs of seeds with a violation; empty keeps none.
	Keep string
	// Evidence is a file of reports, one a line and seed; empty writes none.
	Evidence string
	Out      io.Writer
}

// Run prints a line a seed and a last line that counts. It gives how many
// promises were broken.
func (t Trials) Run(ctx context.Context) (violations int, err error) {
	dir, err := os.MkdirTemp("", "mulligan-chaos-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := BuildNatsServer(ctx, dir)
	if err != nil {
		return 0, err
	}
	calls, faults, done := 0, 0, 0
	for _, seed := range t.Seeds {
		if ctx.Err() != nil {
			break
		}
		r, err := t.seed(ctx, dir, server, seed)
		if err != nil {
			return violations, fmt.Errorf("seed %d: %w", seed, err)
		}
		calls, faults, done, violations = calls+r.Calls, faults+r.Struck, done+1, violations+len(r.Violations)
	}
	fmt.Fprintf(t.Out, "chaos: %d seeds, %d calls, %d faults, %d violations\n", done, calls, faults, violations)
	return violations, context.Cause(ctx)
}

func (t Trials) seed(ctx context.Context, dir, server string, seed uint64) (Report, error) {
	c := t.Base
	c.Seed = seed
	at := filepath.Join(dir, fmt.Sprintf("seed-%d", seed))
	if err := os.Mkdir(at, 0o700); err != nil {
		return Report{}, err
	}
	h, err := t.run(ctx, c, at, server)
	if err != nil {
		return Report{}, errors.Join(err, t.keep(at, seed))
	}
	r := Check(h)
	t.print(h.Plan, r)
	if len(r.Violations) > 0 {
		err = t.keep(at, seed)
	} else {
		err = os.RemoveAll(at)
	}
	return r, errors.Join(err, t.note(r))
}

func (t Trials) run(ctx context.Context, c Config, at, server string) (History, error) {
	if t.Kill != nil {
		return KillBrokers(ctx, *t.Kill, c.Seed, c.Nodes, at, server)
	}
	return Run(ctx, NewPlan(c), at, server)
}

func (t Trials) keep(at string, seed uint64) error {
	if t.Keep == "" {
		return nil
	}
	if err := os.MkdirAll(t.Keep, 0o700); err != nil {
		return err
	}
	to := filepath.Join(t.Keep, fmt.Sprintf("seed-%d-%d", seed, time.Now().Unix()))
	fmt.Fprintf(t.Out, "  logs and stores are in %s\n", to)
	return os.CopyFS(to, os.DirFS(at))
}

func (t Trials) print(p Plan, r Report) {
	fmt.Fprintf(t.Out, "seed %d, %d node(s): %d calls, %d faults %v, ends %v %v, %d refused, %d uncertain, %d recovered, %d delivered again, %d repeated, longest %s, %s, %d violations\n",
		r.Seed, r.Nodes, r.Calls, r.Struck, r.Faults, r.Ends, r.Codes, r.Refused, r.Uncertain, r.Recovered, r.Again, r.Repeated,
		r.Longest.Round(100*time.Millisecond), r.Took.Round(100*time.Millisecond), len(r.Violations))
	if t.Kill != nil {
		fmt.Fprintf(t.Out, "  at the first kill %d calls were queued and %d delayed; results came again within %s\n", r.Queued, r.Delayed, r.Recovery.Round(100*time.Millisecond))
	}
	if len(r.Violations) == 0 {
		return
	}
	for _, v := range r.Violations {
		fmt.Fprintln(t.Out, "  VIOLATION:", v)
	}
	for _, f := range p.Strikes {
		fmt.Fprintln(t.Out, "  ", f)
	}
}

// note puts a report into the evidence, in place of an older one of the same
// seed and nodes.
func (t Trials) note(r Report) error {
	if t.Evidence == "" {
		return nil
	}
	reports, err := ReadEvidence(t.Evidence)
	if err != nil {
		return err
	}
	reports = slices.DeleteFunc(reports, func(o Report) bool { return o.Seed == r.Seed && o.Nodes == r.Nodes })
	reports = append(reports, r)
	slices.SortFunc(reports, func(a, b Report) int { return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Seed, b.Seed)) })
	var text strings.Builder
	for _, r := range reports {
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		text.Write(append(b, '\n'))
	}
	return os.WriteFile(t.Evidence, []byte(text.String()), 0o600)
}

// ReadEvidence reads the reports of earlier runs; a file that is not there
// holds none.
func ReadEvidence(file string) ([]Report, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var out []Report
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, len(out)+1, err)
		}
		out = append(out, r)
	}
	return out, lines.Err()
}
