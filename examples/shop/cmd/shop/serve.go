package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"mulligan/examples/shop/data"
	"mulligan/examples/shop/effectlog"
	"mulligan/examples/shop/faults"
	"mulligan/examples/shop/serve"
	"mulligan/examples/shop/store"
	"mulligan/examples/shop/tools"
)

type serveFlags struct {
	addr, addrFile string
	data, effects  string
	maxRuns        int
	plan           faults.Plan
	config         serve.Config
}

func parseServe(args []string, stderr io.Writer) (serveFlags, error) {
	var f serveFlags
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&f.addr, "addr", "127.0.0.1:0", "loopback `address` to listen on; port 0 takes a free one")
	flags.StringVar(&f.addrFile, "addr-file", "", "`file` to write host and port to, once calls are answered")
	flags.StringVar(&f.data, "data", "", "`folder` with the six tables as .json or .json.gz (default: a small set of the shop's own)")
	flags.StringVar(&f.effects, "effects", "", "`file` to append a line to for each change (default: none is kept)")
	flags.IntVar(&f.maxRuns, "max-runs", 100_000, "`number` of runs held; a further one is refused")
	flags.Float64Var(&f.plan.Before, "fault-before", 0, "`share` of executions, 0 to 1, that fail before the state is touched")
	flags.Float64Var(&f.plan.After, "fault-after", 0, "`share` of executions, 0 to 1, whose answer is lost after the change")
	flags.Uint64Var(&f.plan.Seed, "fault-seed", 1, "`number` that selects where faults strike")
	flags.DurationVar(&f.config.FaultTimeout, "fault-timeout", 2*time.Second, "how long a fault that gives no answer keeps the connection")
	flags.DurationVar(&f.config.FaultRetryAfter, "fault-retry-after", time.Second, "Retry-After of a 429, in whole seconds")
	flags.Int64Var(&f.config.MaxBody, "max-body", 1<<20, "`bytes` a request may have")
	if err := parse(flags, args, stderr); err != nil {
		return f, err
	}
	if err := f.validate(); err != nil {
		fmt.Fprintf(stderr, "shop serve: %v\n", err)
		return f, errUsage
	}
	return f, nil
}

func (f serveFlags) validate() error {
	if f.maxRuns < 1 {
		return fmt.Errorf("--max-runs: %d; it must be positive", f.maxRuns)
	}
	host, _, err := net.SplitHostPort(f.addr)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	// Nothing here authenticates a caller.
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--addr: %q is not a loopback address; use 127.0.0.1, ::1 or localhost", host)
	}
	return f.plan.Validate()
}

func serveCommand(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f, err := parseServe(args, stderr)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(stderr, nil))
	db, err := store.Load(f.folder())
	if err != nil {
		return err
	}
	var witness tools.Witness
	if f.effects != "" {
		effects, err := effectlog.Open(f.effects, time.Now)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, effects.Close()) }()
		witness = effects
	}
	injector, err := faults.NewInjector(f.plan)
	if err != nil {
		return err
	}
	shop := tools.New(store.NewRuns(db, f.maxRuns), witness)
	server, err := serve.New(f.config, shop, injector, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", f.addr)
	if err != nil {
		return err
	}
	if err := announce(listener.Addr().String(), f.addrFile, stdout); err != nil {
		return errors.Join(err, listener.Close())
	}
	return server.Serve(ctx, listener)
}

func (f serveFlags) folder() fs.FS {
	if f.data == "" {
		return data.Small()
	}
	return os.DirFS(f.data)
}

// announce prints the address, and puts it into the file in one piece, so that
// whoever waits for the file never reads half of it.
func announce(addr, file string, stdout io.Writer) error {
	if file != "" {
		if err := writeWhole(file, addr+"\n"); err != nil {
			return fmt.Errorf("--addr-file: %w", err)
		}
	}
	err := json.NewEncoder(stdout).Encode(serve.Address{Addr: addr, URL: "http://" + addr, PID: os.Getpid()})
	if err != nil {
		return fmt.Errorf("printing the address: %w", err)
	}
	return nil
}

func writeWhole(file, text string) error {
	draft, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = draft.WriteString(text)
	if err = errors.Join(err, draft.Close()); err == nil {
		err = os.Rename(draft.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return nil
}
