package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"mulligan/internal/cli"
	"mulligan/internal/story"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// handsVariable makes this program a worker of that name, with the tools of
// carryOut: written in Go, so that what freezes the worker freezes its tools.
const handsVariable = "MULLIGAN_E2E_HANDS"

// order is the input of these tools.
type order struct {
	Ms   int  `json:"ms,omitempty"`   // how long it takes
	Fail int  `json:"fail,omitempty"` // so many attempts fail in the end, and surely did nothing
	Hold bool `json:"hold,omitempty"` // it goes on when the test releases it
	Mark int  `json:"mark,omitempty"` // tells orders apart
}

// execution is a line of the witness: a tool began.
type execution struct {
	Call     string    `json:"call"`
	Dispatch int       `json:"dispatch"`
	Tool     string    `json:"tool"`
	Worker   string    `json:"worker"`
	At       time.Time `json:"at"`
}

// isHands runs as a worker, and does not return, where that is asked for.
func isHands() bool {
	name := os.Getenv(handsVariable)
	if name == "" {
		return false
	}
	var witness string
	cli.Main(func(ctx context.Context, env cli.IO, args []string) int {
		return cli.ToolWorker{
			Name: "worker", Short: "A worker of a test", Long: "A worker of a test.",
			Flags: func(f *pflag.FlagSet) { f.StringVar(&witness, "witness", "", "file that executions are told to") },
			Tools: func() ([]*tool.Tool, error) { return handsTools(witness, name), nil },
		}.Run(ctx, env, args)
	})
	return true
}

// handsTools are one tool for each effect, named after it.
func handsTools(witness, worker string) []*tool.Tool {
	var out []*tool.Tool
	for _, effect := range []messages.Effect{messages.ReadOnly, messages.Idempotent, messages.Keyed, messages.Unsafe} {
		out = append(out, tool.New(string(effect), func(ctx context.Context, o order) (string, error) {
			c := tool.FromContext(ctx)
			e := execution{Call: c.ID, Dispatch: c.Dispatch, Tool: string(effect), Worker: worker, At: time.Now().UTC()}
			return "done by " + worker, carryOut(ctx, witness, e, c.Attempt, o)
		}, tool.Effect(effect)))
	}
	return out
}

func carryOut(ctx context.Context, witness string, e execution, attempt int, o order) error {
	if err := appendLine(witness, e); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(time.Duration(o.Ms) * time.Millisecond); time.Now().Before(until) || o.Hold && !exists(witness+".released"); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if attempt < o.Fail {
		return errors.New("connection reset by peer")
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func appendLine(path string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n')) // in one write, so that lines do not mix
	return errors.Join(err, f.Close())
}

// coordinator starts one whose tools have no breaker: they are to fail as often
// as a test wants.
func (c *cluster) coordinator(i int) *process {
	c.t.Helper()
	return c.run("coordinator", i, "--policy", c.noBreaker())
}

// hands starts a worker of these tools.
func (c *cluster) hands(i int, flags ...string) *process {
	c.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	name := fmt.Sprintf("worker-%d", i)
	return c.launch(exe, name, []string{handsVariable + "=" + name}, append([]string{"--witness", c.witness()}, flags...)...)
}

func (c *cluster) witness() string { return filepath.Join(c.dir, "witness.jsonl") }

// release lets what holds go on, now and later.
func (c *cluster) release() { writeFile(c.t, c.dir, "witness.jsonl.released", "") }

// executions reads the witness.
func (c *cluster) executions() []execution {
	c.t.Helper()
	f, err := os.Open(c.witness())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []execution
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e execution
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			c.t.Fatalf("line %d of the witness: %v", len(all)+1, err)
		}
		all = append(all, e)
	}
	return all
}

// begun waits until the witness has n executions.
func (c *cluster) begun(n int) []execution {
	c.t.Helper()
	var all []execution
	c.eventually(func() string {
		all = c.executions()
		return wantNumber("executions", len(all), n)
	})
	return all
}

// times counts the executions of each call.
func times(all []execution) map[string]int {
	n := map[string]int{}
	for _, e := range all {
		n[e.Call]++
	}
	return n
}

func wantNumber(what string, got, want int) string {
	if got >= want {
		return ""
	}
	return fmt.Sprintf("%d of %d %s", got, want, what)
}

// eventually waits until what says why not says nothing.
func (c *cluster) eventually(whyNot func() string) {
	c.t.Helper()
	eventually(c.t, "what has to come", func() error {
		if why := whyNot(); why != "" {
			return errors.New(why)
		}
		return nil
	})
}

// recovery is what RECOVERY holds of a kind, such as "failure", by call.
func (c *cluster) recovery(kind string) map[string][]messages.Stored {
	c.t.Helper()
	out := map[string][]messages.Stored{}
	names := c.pool.Names()
	err := c.pool.List(c.t.Context(), messages.StreamRecovery, []string{names.Prefix() + "." + kind + ".>"}, func(m messages.Stored) bool {
		a, err := names.Parse(m.Subject)
		if err != nil {
			c.t.Error(err)
		}
		out[a.Call] = append(out[a.Call], m)
		return true
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// failures are those of all calls, in the order in which they were stored.
func (c *cluster) failures() map[string][]messages.Failure {
	c.t.Helper()
	out := map[string][]messages.Failure{}
	for call, ms := range c.recovery("failure") {
		for _, m := range ms {
			f, err := messages.DecodeFailure(m.Body)
			if err != nil {
				c.t.Fatal(err)
			}
			out[call] = append(out[call], f)
		}
	}
	return out
}

// explain is what `mulligan explain` tells of a call: as text, and as JSON.
func (c *cluster) explain(call string) (text string, s story.Story) {
	c.t.Helper()
	b := &bench{t: c.t, dir: c.dir}
	args := []string{"explain", call, "--server", c.url}
	env := []string{"MULLIGAN_TOKEN=" + c.token}
	text = b.ends(outside{name: "explain", args: args, env: env})
	if err := json.Unmarshal([]byte(b.ends(outside{name: "explain -o json", args: append(args, "-o", "json"), env: env})), &s); err != nil {
		c.t.Fatal(err)
	}
	return text, s
}

// process finds a process by its name.
func (c *cluster) process(name string) *process {
	c.t.Helper()
	all := c.all()
	i := slices.IndexFunc(all, func(p *process) bool { return p.name == name })
	if i < 0 {
		c.t.Fatalf("there is no %s", name)
	}
	return all[i]
}

func (c *cluster) signal(name string, s syscall.Signal) {
	c.t.Helper()
	if err := c.process(name).cmd.Process.Signal(s); err != nil {
		c.t.Fatalf("%s of %s: %v", s, name, err)
	}
}

// orders makes n calls of the tool of an effect.
func orders(n int, effect messages.Effect, o order) []messages.Submission {
	calls := make([]messages.Submission, n)
	for i := range calls {
		o.Mark = i
		input, err := json.Marshal(o)
		if err != nil {
			panic(err) // never of an order
		}
		calls[i] = call(string(effect), string(input))
	}
	return calls
}

// parking makes calls wait for a human where one is needed.
func parking(calls []messages.Submission) []messages.Submission {
	for i := range calls {
		calls[i].Policy = []byte(`{"ask_user":"park"}`)
	}
	return calls
}

// onceEach says that every call has one result and no more, whoever wrote it.
func (c *cluster) onceEach(calls ...[]messages.Submission) {
	c.t.Helper()
	ends := c.ends()
	for _, s := range slices.Concat(calls...) {
		if ends[s.Call] != 1 {
			c.t.Errorf("call %s has %d results", s.Call, ends[s.Call])
		}
	}
}

// ready waits until a process says in its log that it does its work.
func (c *cluster) ready(p *process) {
	c.t.Helper()
	c.eventually(func() string {
		b, err := os.ReadFile(p.log)
		if err != nil || !strings.Contains(string(b), `"msg":"ready"`) {
			return p.name + " is not ready"
		}
		return ""
	})
}
