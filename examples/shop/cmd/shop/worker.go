package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/pflag"

	"mulligan/examples/shop/binding"
	"mulligan/examples/shop/shopclient"
	"mulligan/internal/cli"
	"mulligan/pkg/tool"
)

// workerFlags say which shop is served, and how.
type workerFlags struct {
	shop, addrFile string
	schemas        bool
	also           []string
}

func (w *workerFlags) add(f *pflag.FlagSet) {
	f.StringVar(&w.shop, "shop", "", "URL of a running shop serve, such as http://127.0.0.1:8080")
	f.StringVar(&w.addrFile, "shop-addr-file", "", "file that shop serve --addr-file wrote, in place of --shop")
	f.BoolVar(&w.schemas, "schemas", true, "offer the tools with their schemas; without, wrong arguments reach the shop and are answered in its own words")
	f.StringSliceVar(&w.also, "also", nil, "name that the shop does not have and that is offered all the same, such as retail/search; may be given several times")
}

func (w *workerFlags) url() (string, error) {
	switch {
	case (w.shop == "") == (w.addrFile == ""):
		return "", errors.New("say where the shop is: give one of --shop URL and --shop-addr-file FILE")
	case w.addrFile != "":
		return shopclient.ReadAddress(w.addrFile)
	}
	u, err := url.Parse(w.shop)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("--shop %q is no URL; shop serve prints one when it is ready", w.shop)
	}
	return w.shop, nil
}

// workerCommand is a worker of Mulligan with the tools of a running shop.
func workerCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var w workerFlags
	program := cli.ToolWorker{
		Name:  "shop worker",
		Short: "Serve the tools of a running shop in a pool",
		Long: `Worker connects to a pool and serves the tools of a running shop serve, in the queues
retail and airline. It connects as the worker command does: --server, else MULLIGAN_SERVER
or mulligan.yaml, else the selected NATS context, else a running mulligan up in the state
folder. Any number of workers may serve one shop.

SIGTERM drains it: it takes no more calls, lets the tools that run end, and stops.`,
		Example: `  shop serve --addr-file shop.addr &
  shop worker --shop-addr-file shop.addr --slots 16`,
		Flags: w.add,
		Tools: func() ([]*tool.Tool, error) {
			url, err := w.url()
			if err != nil {
				return nil, err
			}
			return binding.Tools(binding.Config{Shop: shopclient.New(url), NoSchemas: !w.schemas, Also: w.also})
		},
	}
	env := cli.IO{Out: stdout, Err: stderr, Env: os.Environ()}
	if f, ok := stderr.(*os.File); ok {
		env.Terminal = isatty.IsTerminal(f.Fd())
	}
	if code := program.Run(ctx, env, args); code != exitOK {
		return exitCode(code)
	}
	return nil
}
