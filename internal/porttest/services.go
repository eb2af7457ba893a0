package porttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"mulligan/pkg/messages"
)

func serviceCases() []Case {
	return []Case{
		{"a request is answered", requestAnswered},
		{"requests are shared and handled side by side", requestsShared},
		{"a request to nobody says so", requestNobody},
		{"a service that stops ends what it began", serviceDrains},
		{"a request that is too large is refused", requestTooLarge},
	}
}

// serve serves the endpoint and returns when it is served.
func (e *Env) serve(handle func(ctx context.Context, request []byte) []byte) (stop func() error) {
	e.Helper()
	served := make(chan struct{})
	stop = e.background(func(ctx context.Context) error {
		return e.B.Serve(ctx, messages.EndpointSubmit, func() { close(served) }, handle)
	})
	wait(e, "the endpoint to be served", served)
	if _, err := e.B.Request(e.Ctx, messages.EndpointSubmit, []byte(ping)); err != nil {
		e.Fatalf("the endpoint was said to be served: %v", err)
	}
	return stop
}

const ping = "ping"

// pause lets other goroutines go on, in a bubble as well.
func pause(e *Env) {
	ctx, cancel := context.WithTimeout(e.Ctx, time.Millisecond)
	defer cancel()
	<-ctx.Done()
}

func requestAnswered(e *Env) {
	e.serve(func(_ context.Context, r []byte) []byte { return append([]byte("re: "), r...) })
	got, err := e.B.Request(e.Ctx, messages.EndpointSubmit, []byte("hello"))
	if err != nil || string(got) != "re: hello" {
		e.Fatalf("got %q, %v", got, err)
	}
}

func requestsShared(e *Env) {
	const n = 8
	var together sync.WaitGroup // all must be under way at once
	together.Add(n)
	handle := func(_ context.Context, r []byte) []byte {
		if string(r) != ping {
			together.Done()
			together.Wait()
		}
		return r
	}
	e.serve(handle)
	e.serve(handle)
	answers := make(chan string, n)
	for i := range n {
		go func() {
			r, err := e.B.Request(e.Ctx, messages.EndpointSubmit, fmt.Appendf(nil, "%d", i))
			if err != nil {
				e.Error(err)
			}
			answers <- string(r)
		}()
	}
	seen := map[string]bool{}
	for range n {
		seen[wait(e, "an answer", answers)] = true
	}
	if len(seen) != n {
		e.Fatalf("answers %v", seen)
	}
}

func requestNobody(e *Env) {
	if _, err := e.B.Request(e.Ctx, messages.EndpointCancel, nil); !errors.Is(err, messages.ErrNoResponder) {
		e.Fatalf("got %v", err)
	}
}

func serviceDrains(e *Env) {
	began, release := make(chan struct{}), make(chan struct{})
	stop := e.serve(func(ctx context.Context, r []byte) []byte {
		if string(r) != ping {
			close(began)
			<-release
			if ctx.Err() != nil {
				return []byte("called off")
			}
		}
		return r
	})
	answer := make(chan string, 1)
	go func() {
		r, err := e.B.Request(e.Ctx, messages.EndpointSubmit, []byte("slow"))
		if err != nil {
			e.Error(err)
		}
		answer <- string(r)
	}()
	wait(e, "the request", began)
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for {
		_, err := e.B.Request(e.Ctx, messages.EndpointSubmit, []byte(ping))
		if errors.Is(err, messages.ErrNoResponder) {
			break
		}
		pause(e)
	}
	select {
	case err := <-stopped:
		e.Fatalf("ended before its request: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if got := wait(e, "the answer", answer); got != "slow" {
		e.Fatalf("answer %q", got)
	}
	if err := wait(e, "the end", stopped); !errors.Is(err, errStopped) {
		e.Fatalf("ended with %v", err)
	}
}

func requestTooLarge(e *Env) {
	e.serve(func(_ context.Context, r []byte) []byte { return r })
	_, err := e.B.Request(e.Ctx, messages.EndpointSubmit, []byte(strings.Repeat("x", 2<<20)))
	if !errors.Is(err, messages.ErrTooLarge) {
		e.Fatalf("got %v", err)
	}
}
