package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// spoken tells when a line was written.
type spoken struct {
	bytes.Buffer
	said chan struct{}
}

func (s *spoken) Write(b []byte) (int, error) {
	n, err := s.Buffer.Write(b)
	close(s.said)
	return n, err
}

// A call that nobody runs says once where it is, to whoever waits for it.
func TestACallThatIsWaitedForSaysWhereItIs(t *testing.T) {
	server := natstest.Server(t)
	p := natstest.Connect(t, server, jetstream.Config{})
	if err := p.Provision(t.Context(), jetstream.TopologyConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	call := messages.Call{ID: messages.NewCallID(), Run: messages.NamedRun("r"), Tool: "t", Queue: "q", Lane: messages.LaneNormal,
		Effect: messages.Unsafe, Key: "k", Input: messages.Text("{}")}
	for _, want := range []string{"it is not accepted yet", "queued: in queue q, lane normal, where 1 waits and 0 are in the hands of workers"} {
		out := &spoken{said: make(chan struct{})}
		a := &app{IO: IO{Err: out}}
		end := a.notice(t.Context(), time.Millisecond, p, call.ID)
		select {
		case <-out.said:
		case <-time.After(patience):
			t.Fatal("it says nothing")
		}
		end()
		if got := out.String(); !strings.Contains(got, want) || !strings.Contains(got, call.ID) || strings.Count(got, "\n") != 1 {
			t.Errorf("it says %q, want %q", got, want)
		}
		if err := p.Publish(t.Context(), p.Names().EncodeCall(call)); err != nil && !errors.Is(err, messages.ErrExists) {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	quiet := &spoken{said: make(chan struct{})}
	a := &app{IO: IO{Err: quiet}}
	end := a.notice(ctx, time.Hour, p, call.ID)
	end()
	cancel()
	if quiet.Len() > 0 {
		t.Errorf("a call that has ended in time says %q", quiet.String())
	}
}

func TestACallWithoutWorkersIsNotWaitedForInSilence(t *testing.T) {
	s := natstest.ServerWith(t, embeddedWithToken())
	at := []string{"--server", s.ClientURL(), "--token", "secret"}
	coordinator := runProgram(t, Coordinator, at...)
	coordinator.says(`"msg":"ready"`)
	worker := runProgram(t, Worker, append(at, "--builtin")...)
	worker.says(`"msg":"ready"`)
	call := runProgram(t, Mulligan, append([]string{"call", "fail", "{}"}, at...)...) // and no reflector
	call.says("reflecting: its failure waits for a reflector")
	call.ends(exitInterrupted)
	worker.ends(exitOK)
	coordinator.ends(exitOK)
}
