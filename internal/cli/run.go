package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"mulligan/internal/calls"
	"mulligan/internal/calls/pooled"
	"mulligan/internal/format"
	"mulligan/internal/runstate"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

type runOptions struct {
	pooling
	format    string
	order     string
	sequence  string
	journal   string
	noJournal bool
	restart   bool
	out       string
	wait      time.Duration
	window    int
	park      bool
	retries   int
	notBefore string
	run       declaring
	then      []string
}

func (a *app) runCommand() *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run FILE [-- COMMAND…]",
		Short: "Run a file of calls and print their results",
		Long: `Run submits the calls of FILE, one JSON object a line, and prints one JSON
object for each: in the order of the file, as soon as its turn has come, or with
--order done as they end.

A line may also hold what a model or a protocol wrote. It is answered by one line,
with what the conversation goes on with as it is:
  openai-chat        tool calls, messages, completions   role tool messages
  openai-responses   function_call items, responses      function_call_output items
  anthropic          tool_use blocks, messages           tool_result blocks
  mcp                tools/call requests                 JSON-RPC responses
A call by itself is answered by one object; a message, a response or a list by a
list, in the order of its calls; a line of a batch by its custom_id with that list.
Which format a line is of is found out; --format takes one alone. A line of none
is refused, and gets a result of ours.

A journal beside the file (FILE.journal) makes a run resumable: after Ctrl-C,
which leaves the calls running, or a crash, the same command goes on, prints all
results and runs no call twice. A file that has run to its end prints its results
again without running anything; --restart runs it anew.

Fields of a call:   ref, run, tool, input or input_text, lane, timeout_ms,
                    deadline, not_before or after_ms, task, labels, policy
Fields of a result: ref, call, run, status, is_error, output (or output_base64),
                    attempts, recovered_by, reason, guidance, duration_ms, code,
                    labels; status is succeeded, failed, exhausted, cancelled,
                    expired, unknown or refused

Calls that name no run belong to the run that --run names, or to an unnamed one; it is
declared with the labels and limits of the flags, closed at the end of the file, and
listed by ` + "`mulligan runs`" + `. What stands behind -- is run when it is over, without a shell,
with the run as JSON on its standard input and its name in MULLIGAN_ENDED_RUN.

With --park, or by a policy, calls that need a human wait in the inbox; when only
such calls are left the command says so and ends, and the same command goes on later.

Exit code: 0 all succeeded, 1 COMMAND failed, 3 some did not succeed, 4 --wait was over
or the rest waits for a human, 130 interrupted.`,
		Example: `  mulligan run calls.jsonl > results.jsonl
  mulligan run calls.jsonl --embedded --tools tools.yaml --order done
  mulligan run agents.jsonl --sequence run    # the calls of a run one after another
  mulligan run refunds.jsonl --park           # calls that need a human wait for one
  mulligan run agents.jsonl --run nightly --label team=travel --in-flight 100 -- ./notify
  mulligan run completions.jsonl --format openai-chat > messages.jsonl
  generate | mulligan run - | jq -r .status`,
		Args: oneAndCommand("the file of calls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.then = args[1:]
			return a.runFile(cmd.Context(), o, args[0])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"jsonl", "ndjson", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	f := c.Flags()
	a.conn.flags(f)
	o.pooling.flags(f)
	f.StringVar(&o.format, "format", string(format.Auto), "format of the lines: "+formats()+"; auto finds out for each")
	f.StringVar(&o.order, "order", "input", "order of the results: input, or done for the order in which calls end")
	f.StringVar(&o.sequence, "sequence", "none", "run: the calls of one run one after another, runs side by side; none: all side by side")
	f.StringVar(&o.journal, "journal", "", "file of the journal (default FILE.journal)")
	f.BoolVar(&o.noJournal, "no-journal", false, "keep no journal; the run cannot be resumed")
	f.BoolVar(&o.restart, "restart", false, "forget the journal and run every call again")
	f.StringVar(&o.out, "out", "", "file that the results are written to instead of standard output")
	f.DurationVar(&o.wait, "wait", 0, "how long to wait for the results, such as 10m; 0 for as long as it takes")
	f.DurationVar(&o.patience, "patience", 10*time.Minute, "how long to keep trying while the queue is full or the pool does not answer")
	f.BoolVar(&o.park, "park", false, parkHelp)
	retriesFlag(f, &o.retries)
	f.StringVar(&o.notBefore, "not-before", "", notBeforeHelp)
	o.run.flags(f)
	f.IntVar(&o.window, "window", 10000, "how many calls may be under way at a time")
	_ = c.RegisterFlagCompletionFunc("format", words(strings.Split(formats(), ", ")...))
	_ = c.RegisterFlagCompletionFunc("order", words("input", "done"))
	_ = c.RegisterFlagCompletionFunc("sequence", words("run", "none"))
	_ = c.RegisterFlagCompletionFunc("tools", yamlFiles)
	return c
}

// formats are the values of --format.
func formats() string {
	var names []string
	for _, f := range format.Formats() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

func yamlFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

func (o *runOptions) check() error {
	switch {
	case !slices.Contains(format.Formats(), format.Format(o.format)):
		return usage("--format %q is none of %s", o.format, formats())
	case o.order != "input" && o.order != "done":
		return usage("--order %q is neither input nor done", o.order)
	case o.sequence != "run" && o.sequence != "none":
		return usage("--sequence %q is neither run nor none", o.sequence)
	case o.noJournal && o.journal != "":
		return usage("--journal and --no-journal exclude each other")
	case o.window < 1:
		return usage("--window %d: give 1 or more", o.window)
	case o.wait < 0:
		return usage("--wait %s is negative; 0 waits for as long as it takes", o.wait)
	}
	if o.sequence == "run" && o.run.name != "" {
		return usage("--sequence run goes by the runs that the lines name, and --run names those of the others; give each line its run")
	}
	if err := o.run.check(); err != nil {
		return err
	}
	_, err := when("--not-before", o.notBefore, time.Now())
	return errors.Join(checkPark(o.park, o.embedded), checkRetries(o.retries), err, o.pooling.check())
}

func (a *app) runFile(ctx context.Context, o *runOptions, path string) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	if !o.embedded {
		lean()
	}
	file, err := calls.Open(path, a.In, format.Format(o.format), o.sequence == "run")
	switch {
	case errors.Is(err, os.ErrNotExist) && path != "-":
		return withCode(exitNotFound, err)
	case errors.Is(err, calls.ErrFolder):
		return withCode(exitUsage, err)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	journal, err := o.openJournal(file)
	if err != nil {
		return withCode(exitUsage, err)
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	if o.out != "" && (file.Is(o.out) || sameFile(journal.Path(), o.out)) {
		return usage("--out %s is the file of calls or its journal, which it would overwrite; give another file", o.out)
	}
	out, closeOut, err := a.results(o.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeOut()) }()
	return a.runCalls(ctx, o, file, journal, out)
}

func (o *runOptions) openJournal(file *calls.File) (*calls.Journal, error) {
	if o.unresumable(file) {
		return calls.TempJournal(file)
	}
	path := o.journal
	if path == "" {
		path = calls.JournalPath(file.Path)
	}
	return calls.OpenJournal(path, file, o.restart)
}

// unresumable: there is no journal that another run could find.
func (o *runOptions) unresumable(file *calls.File) bool {
	return o.noJournal || file.Once && o.journal == ""
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

func (a *app) results(path string) (io.Writer, func() error, error) {
	if path == "" {
		return a.Out, func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, withCode(exitUsage, fmt.Errorf("--out: %w", err))
	}
	return f, f.Close, nil
}

func (a *app) runCalls(ctx context.Context, o *runOptions, file *calls.File, journal *calls.Journal, out io.Writer) (err error) {
	opts := calls.Options{
		Order: calls.Order(o.order), Sequence: o.sequence == "run", Window: o.run.window(o.window), Name: a.conn.pool, Run: o.run.name,
	}
	var pool calls.Pool
	complete, resumed := journal.Complete(), !journal.Fresh()
	if !complete {
		dir := o.poolDir(file, journal)
		s, oerr := a.openFor(ctx, o, dir, !resumed)
		if oerr != nil {
			return oerr
		}
		defer func() { err = errors.Join(err, a.leave(ctx, s, dir, err)) }()
		opts.Where, pool = s.where, pooled.New(s.client)
		// The policies of a pool may park calls without --park.
		if opts.NotBefore, err = when("--not-before", o.notBefore, time.Now()); err != nil {
			return err
		}
		a.declareRun(s, o.run, file, &opts)
		opts.Policy, opts.Parked, opts.Stay = callPolicy(o.park, o.retries), parkedCalls(s.broker), o.wait > 0
	}
	if o.wait > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, o.wait, errWaitOver)
		defer stop()
	}
	bar := a.progress(file.Calls)
	opts.Progress = bar.update
	summary, err := calls.Run(ctx, pool, file, journal, out, opts)
	bar.end()
	switch {
	case errors.Is(err, calls.ErrParked):
		a.tellParked(o, file, summary)
		return quietly(exitUnfinished)
	case err != nil && context.Cause(ctx) != nil && errors.Is(err, context.Cause(ctx)):
		a.tellDetached(o, file, journal, summary, context.Cause(ctx))
		return quietly(exitCode(context.Cause(ctx)))
	case err != nil:
		var refused *client.RunError // by which the same command never gets further
		if !errors.As(err, &refused) && !o.unresumable(file) && summary.Ended() < file.Calls {
			a.say("%d of %d calls have ended; when the cause of what follows is gone, the same command goes on from here", summary.Ended(), file.Calls)
		}
		return err
	}
	err = a.tellSummary(summary, complete && resumed, file, journal)
	var c *codeError
	if err == nil || errors.As(err, &c) && c.silent {
		run := messages.UnnamedRun(journal.Batch)
		if o.run.name != "" {
			run = messages.NamedRun(o.run.name)
		}
		if failed := a.then(ctx, o.then, run, toldOf(run, summary)); failed != nil {
			return failed
		}
	}
	return err
}

// toldRun is what the command behind -- is told of a run whose calls were counted
// here, under the names of [runstate.View].
type toldRun struct {
	Name    string             `json:"name"`
	Run     messages.Run       `json:"run"`
	Counts  messages.RunCounts `json:"counts"`
	Refused int                `json:"refused,omitempty"` // lines that are no calls of the run
}

func toldOf(run messages.Run, s calls.Summary) toldRun {
	counts := messages.RunCounts{Calls: int64(s.Submitted), Recovered: int64(s.Recovered), Outcomes: make(map[messages.Status]int64)}
	for status, n := range s.Outcomes() {
		if n > 0 {
			counts.Outcomes[status] = int64(n)
		}
	}
	return toldRun{Name: runstate.NameOf(run), Run: run, Counts: counts, Refused: s.Refused}
}

// openFor connects. A journal that begins anew begins with an empty pool: calls
// of an earlier one must not go on in it.
func (a *app) openFor(ctx context.Context, o *runOptions, dir string, anew bool) (*session, error) {
	if dir != "" {
		if err := ownFolder(dir); err != nil {
			return nil, withCode(exitUsage, err)
		}
		if anew {
			if err := os.RemoveAll(dir); err != nil {
				return nil, fmt.Errorf("remove the state of an earlier run: %w", err)
			}
		}
	}
	return a.open(ctx, o.pooling, dir)
}

// ownFolder refuses a folder that something else than a pool has made: a run
// that has ended removes its own.
func ownFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the state of the pool would be in %s: %w", dir, err)
	}
	if !embedded.Owns(dir) {
		return fmt.Errorf("the state of the pool would be in %s, which is another folder; move that, or give a file elsewhere with --journal", dir)
	}
	return nil
}

// poolDir is the folder of an embedded pool: beside the journal, so that a
// later run finds its calls again, those that may have had an effect above all.
func (o *runOptions) poolDir(file *calls.File, j *calls.Journal) string {
	if !o.embedded || o.unresumable(file) {
		return ""
	}
	return strings.TrimSuffix(j.Path(), ".journal") + ".pool"
}

// leave closes the session. The folder of an embedded pool goes when every
// call has ended.
func (a *app) leave(ctx context.Context, s *session, dir string, runErr error) error {
	err := s.close(context.WithoutCancel(ctx))
	var c *codeError
	finished := runErr == nil || errors.As(runErr, &c) && c.code == exitSome
	if err == nil && finished && dir != "" {
		err = os.RemoveAll(dir)
	}
	return err
}

func (a *app) tellDetached(o *runOptions, file *calls.File, journal *calls.Journal, s calls.Summary, cause error) {
	a.say("%v: %d of %d calls have ended", cause, s.Ended(), file.Calls)
	switch {
	case o.unresumable(file):
		a.say("there is no journal, so this run cannot be resumed; the calls that were submitted go on")
	case o.embedded:
		a.say("the pool was in this process and stops with it, its state is kept in %s. To go on:", o.poolDir(file, journal))
		a.say("  %s", a.again())
	default:
		a.say("those that were submitted go on without this command. To go on, and to get all results:")
		a.say("  %s", a.again())
	}
}

// again is the command line that goes on.
func (a *app) again() string {
	words := []string{a.program}
	for _, w := range a.args {
		if w == "--restart" || strings.HasPrefix(w, "--restart=") {
			continue
		}
		words = append(words, shellWord(w))
	}
	return strings.Join(words, " ")
}

// shellWord is a word as a shell is given it.
func shellWord(w string) string {
	if w == "" || strings.ContainsAny(w, " \t\n'\"\\$&|<>();*?[]#~`{}!") {
		return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return w
}

func (a *app) tellSummary(s calls.Summary, before bool, file *calls.File, journal *calls.Journal) error {
	if before {
		a.say("%s had run to its end on %s (journal %s): nothing was run, these are its results; --restart runs it anew",
			file.Path, journal.Created.Local().Format(time.DateTime), journal.Path())
	}
	if a.json() {
		b, err := marshalLine(s)
		if err != nil {
			return err
		}
		a.say("%s", b)
	} else {
		a.say("%s", describe(s))
	}
	if !s.AllWell() {
		return quietly(exitSome)
	}
	return nil
}

// describe tells a summary to people.
func describe(s calls.Summary) string {
	text := plural(s.Ended(), "call", "calls") + ": " + thousands(s.Succeeded) + " succeeded"
	if s.Recovered > 0 {
		text += fmt.Sprintf(" (%s of them recovered)", thousands(s.Recovered))
	}
	return strings.Join(append([]string{text}, notWell(s)...), ", ")
}

// notWell are the outcomes that are no success, with their counts.
func notWell(s calls.Summary) (parts []string) {
	for _, p := range []struct {
		n    int
		name string
	}{
		{s.Failed, "failed"}, {s.Exhausted, "exhausted"}, {s.Unknown, "unknown"}, {s.Cancelled, "cancelled"}, {s.Expired, "expired"}, {s.Refused, "refused"},
	} {
		if p.n > 0 {
			parts = append(parts, thousands(p.n)+" "+p.name)
		}
	}
	return parts
}

// bar shows progress on a terminal, and nothing elsewhere.
type bar struct{ b *progressbar.ProgressBar }

func (a *app) progress(total int) bar {
	if !a.Terminal || total == 0 {
		return bar{}
	}
	return bar{progressbar.NewOptions(total,
		progressbar.OptionSetWriter(a.Err), progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("calls"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(24), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true))}
}

func (b bar) update(s calls.Summary) {
	if b.b == nil {
		return
	}
	b.b.Describe(aside(s))
	_ = b.b.Set(s.Ended()) // a bar that cannot be drawn stops nothing
}

// aside is what a bar says beside its count.
func aside(s calls.Summary) string {
	parts := notWell(s)
	if s.Parked > 0 {
		parts = append(parts, waitFor(s.Parked)+" a human")
	}
	return strings.Join(parts, ", ")
}

func (b bar) end() {
	if b.b != nil {
		_ = b.b.Clear()
	}
}
