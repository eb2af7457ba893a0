// Peers measures Mulligan beside asynq on Redis and River on PostgreSQL, with
// the plain JetStream work queue as the limit: the same job, the same
// concurrency, one after the other in the same run. README.md says what is
// compared and what is not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"
)

// options say how much is measured.
type options struct {
	repetitions int
	over        time.Duration // how long one measurement should take
	jobs        int           // of one measurement of throughput, at the most
	singles     int           // of one measurement of latency, at the most
	only        *regexp.Regexp
	json, page  string // files
}

// Of every system: how many jobs run at a time, and how large one is.
const (
	concurrency = 64
	jobBytes    = 1024
)

func parse(args []string) (options, error) {
	o := options{}
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.IntVar(&o.repetitions, "repetitions", 5, "repetitions of each measurement, after a warm-up")
	f.DurationVar(&o.over, "over", time.Second, "how long one measurement should take")
	f.IntVar(&o.jobs, "jobs", 20_000, "jobs of one measurement of throughput, at the most")
	f.IntVar(&o.singles, "singles", 1000, "jobs of one measurement of latency, at the most")
	f.StringVar(&o.json, "json", "", "write the report into this `file`, too, as JSON")
	f.StringVar(&o.page, "page", "", "put the tables into this `file` of Markdown, too, between its marks")
	only := f.String("only", "", "measure only the systems whose names match this `expression`")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("what is %q? peers takes flags only; -help lists them", f.Arg(0))
	}
	if o.repetitions < 1 || o.over <= 0 || o.jobs < 1 || o.singles < 1 {
		return o, errors.New("-repetitions, -over, -jobs and -singles must be above 0")
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	return o, nil
}

// brokerCommand is the word after which this program is the NATS server of a measurement.
const brokerCommand = "nats-server"

func main() {
	if len(os.Args) > 1 && os.Args[1] == brokerCommand {
		exit(serveBroker(os.Args[2:], os.Stdin, os.Stdout))
	}
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func run(ctx context.Context, o options) (err error) {
	systems := slices.DeleteFunc(systems(), func(s system) bool { return !o.only.MatchString(s.Name) })
	if len(systems) == 0 {
		return fmt.Errorf("-only %s: no system is called so", o.only)
	}
	if err := install(ctx, systems); err != nil {
		return err
	}
	site, err := newSite(ctx, systems)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.remove()) }()
	report, err := measure(ctx, site, o, systems)
	if err != nil {
		return err
	}
	fmt.Print(report.text())
	return report.keep(o)
}
