// Command shop runs the stateful shop of the examples, brings its tools into a
// pool, and tries the pool with recorded calls.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `shop runs a stateful shop: 30 tools over HTTP, one state for each run.

  shop serve      own the state and answer calls
  shop worker     serve the tools of a running shop in a pool of Mulligan
  shop recorded   replay recorded calls through a pool and compare
  shop faults     replay them while the shop fails, and check what Mulligan promises
  shop effects    count the effects in a log, by call
  shop tools      list the tools with their effects and schemas

shop COMMAND --help shows the flags. Example:

  shop serve --effects effects.jsonl --fault-before 0.2 --fault-after 0.1
`

// Exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

// exitCode is an error that has been told already, and ends the process so.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// errUsage says that the flags were wrong, which has been told already.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without the process. It ends when ctx does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"serve":    serveCommand,
		"worker":   workerCommand,
		"recorded": recordedCommand,
		"faults":   faultsCommand,
		"effects":  effectsCommand,
		"tools":    toolsCommand,
	}
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(stderr, "shop: unknown command %q\n\n%s", args[0], usage)
		return exitUsage
	}
	var code exitCode
	switch err := command(ctx, args[1:], stdout, stderr); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintf(stderr, "shop %s: %v\n", args[0], err)
		return exitFailed
	}
}

// parse reads the flags of a command that takes no further arguments.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer) error {
	flags.SetOutput(stderr)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "shop %s: %q is not expected\n", flags.Name(), flags.Arg(0))
		return errUsage
	}
	return nil
}
