package peertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/natstest"
	"mulligan/internal/reflection"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// service is what coordinators and reflectors have in common.
type service interface {
	Start(ctx context.Context) error
	Started() <-chan struct{}
	Stop(ctx context.Context) error
}

func start(t *testing.T, s service, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-s.Started()
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestPeerInAPool puts the worker into a whole pool: it registers, its tool is
// called through the client, and a call with a misspelt name of a parameter is mended by
// the rules before it reaches the worker.
func TestPeerInAPool(t *testing.T) {
	p := startPool(t)
	coordinator, err := coordination.New(coordination.Config{Broker: p.Pool, Lease: natstest.Lease})
	start(t, coordinator, err)
	reflector, err := reflection.New(reflection.Config{Broker: p.Pool, Lease: natstest.Lease})
	start(t, reflector, err)
	p.run(t)
	c, err := client.New(p.Pool, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)

	call := func(tool, input string) (messages.Result, error) {
		return c.Call(p.ctx, messages.Submission{Tool: tool, Run: "a run/1", Ref: "r", Input: []byte(input), Deadline: time.Now().Add(time.Hour)})
	}
	if r, err := call("words/count", `{"text": "three short words"}`); err != nil || r.Status != messages.Succeeded || string(r.Output.Inline) != `{"words":3}` || r.Attempts != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := call("words/count", `{"Text": "two words"}`); err != nil || r.Status != messages.Succeeded || string(r.Output.Inline) != `{"words":2}` || r.Dispatch != 1 || r.RecoveredBy == "" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := call("words/count", `{"other": [7]}`); err != nil || r.Status != messages.Failed || !r.IsError || r.Guidance == "" || !strings.Contains(string(r.Output.Inline), "text") {
		t.Errorf("%+v, %v", r, err)
	}
	var refused *client.RefusedError
	if r, err := call("words/cuont", `{"text": ""}`); !errors.As(err, &refused) || !strings.Contains(err.Error(), "words/count") {
		t.Errorf("%+v, %v", r, err)
	}
}
