// Greet is a worker with one tool, in a module of its own: all that a tool's
// author writes.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"mulligan/jetstream"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

type greeting struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

type reply struct {
	Text string `json:"text"`
}

func greet(_ context.Context, in greeting) (reply, error) { return reply{"Hello, " + in.Name}, nil }

func run(ctx context.Context) error {
	pool, err := jetstream.Connect(ctx, jetstream.Config{URL: os.Getenv("MULLIGAN_SERVER"), Token: os.Getenv("MULLIGAN_TOKEN")})
	if err != nil {
		return err
	}
	defer pool.Close()
	w, err := worker.New(worker.Config{Broker: pool, Tools: []*tool.Tool{tool.New("greet", greet, tool.Effect(messages.ReadOnly), tool.Queue("greet"))}})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
