package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"mulligan/internal/suggest"
)

// IO is all that a program has of its surroundings.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Env      []string // "NAME=value", as of os.Environ
	Dir      string   // where mulligan.yaml and the state folder are looked for; empty: the working directory
	// Self is the command that starts this program anew; empty where there is
	// none, as in a test, which must not start itself.
	Self []string
	// Terminal says whether Err is one, which decides on colours and progress.
	Terminal bool
}

// Program is one of the commands. It returns its exit code.
type Program func(ctx context.Context, io IO, args []string) int

// tuneGC trades memory for time: these processes keep little and throw away
// much, some 30 KiB a call with the broker in the process, so that at Go's
// default a seventh of their time went into collecting it. The heap may grow to
// five times what is in use, up to 2 GiB; above, it is collected as before.
// GOGC or GOMEMLIMIT in the environment decide otherwise.
func tuneGC() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(2 << 30)
	}
}

// Main runs a program with the process's own surroundings. The first interrupt
// asks it to end, the second ends it.
func Main(p Program) {
	tuneGC()
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals)
		stop(errInterrupted)
	}()
	env := IO{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Self: os.Args[:1],
		Terminal: isatty.IsTerminal(os.Stderr.Fd()) || isatty.IsCygwinTerminal(os.Stderr.Fd()),
	}
	os.Exit(p(ctx, env, os.Args[1:]))
}

// leanHeap is what a client of a pool that goes through a long run may take, in
// bytes: a million calls are kept in some 60 MiB, and what lies above is garbage.
const leanHeap = 96 << 20

// lean keeps a process small that has no pool in it, unless the environment
// decides.
func lean() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(leanHeap)
	}
}

// app is one run of a program.
type app struct {
	IO
	program string
	args    []string
	begun   bool // the command line was understood: what fails now is no usage error

	output  string // text or json
	conn    connection
	logging logging
	sources map[string]source // where each flag's value came from
	veil    *veil             // all that is written to Err goes through it
}

func (a *app) json() bool { return a.output == "json" }

// say writes a line for people to standard error.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.Err, format+"\n", args...) // nobody is left to tell
}

func newApp(name string, env IO) *app {
	a := &app{IO: env, program: name, sources: make(map[string]source), veil: &veil{w: env.Err}}
	a.Err = a.veil
	a.veil.withhold(a.getenv(envPrefix+"TOKEN"), a.getenv(llmKey))
	return a
}

// run parses and executes; it prints the error, if any, and gives the exit code.
func (a *app) run(ctx context.Context, root *cobra.Command, args []string) int {
	a.args = args
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if code == exitInternal && !a.begun {
		code = exitUsage
	}
	if code == exitInternal && errors.Is(context.Cause(ctx), errInterrupted) && errors.Is(err, context.Canceled) {
		code = exitInterrupted
	}
	var c *codeError
	if errors.As(err, &c) && c.silent {
		return code
	}
	a.say("%s: %v", a.program, err)
	if code == exitUsage && !a.begun && !strings.Contains(err.Error(), "--help") {
		a.say("see %s --help", cmd.CommandPath())
	}
	return code
}

// goWords is how Go's parser begins what it says of a number.
var goWords = regexp.MustCompile(`strconv\.\w+: parsing "(?:[^"\\]|\\.)*": `)

// root makes the command that the others hang from.
func (a *app) root(use, short, long string) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long, SilenceErrors: true, SilenceUsage: true, DisableAutoGenTag: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.begin(cmd) },
	}
	c.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%s; see %s --help", goWords.ReplaceAllString(err.Error(), ""), cmd.CommandPath())
	})
	f := c.PersistentFlags()
	f.StringVarP(&a.output, "output", "o", "text", "form of what is printed on standard output: text or json")
	a.logging.flags(f)
	_ = c.RegisterFlagCompletionFunc("output", words("text", "json")) // the flag is there
	return c
}

// begin fills the flags from environment and files, and checks what every
// command has.
func (a *app) begin(cmd *cobra.Command) error {
	if isCompletion(cmd) {
		return nil
	}
	if err := a.configure(cmd); err != nil {
		return withCode(exitUsage, err)
	}
	a.veil.withhold(append(ofAddress(a.conn.server), a.conn.token)...)
	if a.output != "text" && a.output != "json" && (a.output != "yaml" || cmd.Annotations[printsYAML] == "") {
		return usage("--output %q is neither text nor json", a.output)
	}
	if err := a.logging.check(); err != nil {
		return withCode(exitUsage, err)
	}
	a.begun = true
	return nil
}

// printsYAML marks a command whose text is YAML, so that -o yaml is no mistake.
const printsYAML = "mulligan/yaml"

func isCompletion(cmd *cobra.Command) bool {
	for c := cmd; c != nil; c = c.Parent() {
		if c.Name() == "completion" || strings.HasPrefix(c.Name(), cobra.ShellCompRequestCmd) {
			return true
		}
	}
	return false
}

func words(w ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return w, cobra.ShellCompDirectiveNoFileComp
	}
}

// noArgs is cobra.NoArgs with a text that says which word was meant, if any.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || !cmd.HasAvailableSubCommands() {
		return exactly()(cmd, args)
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return usage("unknown command %q for %q%s", args[0], cmd.CommandPath(), suggest.Meant(args[0], names))
}

// exactly is cobra.ExactArgs with a text that says what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage("%s: %s is missing; see %s --help", cmd.Name(), strings.Join(names[len(args):], " and "), cmd.CommandPath())
		case len(args) > len(names):
			return usage("%s: %q is too much; see %s --help", cmd.Name(), args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}
