package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mulligan/internal/freeport"
	"mulligan/internal/natstest"
	"mulligan/jetstream/embedded"
)

// program is a service in this process, with the lines of its log.
type program struct {
	t    *testing.T
	log  chan string
	code chan int
	stop context.CancelCauseFunc
}

func runProgram(t *testing.T, main func(context.Context, IO, []string) int, args ...string) *program {
	t.Helper()
	ctx, stop := context.WithCancelCause(context.WithoutCancel(t.Context()))
	p := &program{t: t, log: make(chan string, 1000), code: make(chan int, 1), stop: stop}
	r, w := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := bufio.NewScanner(r); in.Scan(); {
			p.log <- in.Text()
		}
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.code <- main(ctx, IO{In: strings.NewReader(""), Out: w, Err: w}, args)
		_ = w.Close() // of a pipe: never fails
	}()
	t.Cleanup(func() {
		stop(errInterrupted)
		<-ended
		<-read
	})
	return p
}

// says waits for a line of the log.
func (p *program) says(text string) string {
	p.t.Helper()
	var seen []string
	for late := time.After(patience); ; {
		select {
		case line := <-p.log:
			if strings.Contains(line, text) {
				return line
			}
			seen = append(seen, line)
		case <-late:
			p.t.Fatalf("it did not say %q but\n%s", text, strings.Join(seen, "\n"))
		}
	}
}

// lives fails the test when the program has ended.
func (p *program) lives() {
	p.t.Helper()
	select {
	case code := <-p.code:
		p.t.Fatalf("it ended with %d", code)
	default:
	}
}

func (p *program) ends(code int) {
	p.t.Helper()
	p.stop(errInterrupted)
	select {
	case got := <-p.code:
		if got != code {
			p.t.Errorf("it ended with %d, want %d", got, code)
		}
	case <-time.After(patience):
		p.t.Fatal("it does not end")
	}
}

func embeddedWithToken() embedded.Config { return embedded.Config{Token: "secret"} }

func readiness(t *testing.T, port int) string {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", port))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// Whatever order they are started in, the services wait for what they need: the
// reflector and the coordinator for a broker, the reflector for the streams.
func TestServicesWaitForEachOther(t *testing.T) {
	port, http := freeport.Get(t), freeport.Get(t)
	at := []string{"--server", fmt.Sprintf("nats://127.0.0.1:%d", port), "--token", "secret"}
	reflector := runProgram(t, Reflector, at...)
	coordinator := runProgram(t, Coordinator, append(at, "--http", fmt.Sprint(http))...)
	coordinator.says("waiting for the broker")
	if got := readiness(t, http); got != "not started yet" {
		t.Errorf("/readyz says %q without a broker", got)
	}
	coordinator.lives()
	natstest.ServerWith(t, embedded.Config{Port: port, Token: "secret"})
	coordinator.says(`"msg":"ready"`)
	reflector.says(`"msg":"ready"`)
	if got := readiness(t, http); got != "ready" {
		t.Errorf("/readyz says %q", got)
	}
	coordinator.ends(exitOK)
	reflector.ends(exitOK)
}

func TestAReflectorWaitsForTheFirstCoordinator(t *testing.T) {
	s := natstest.ServerWith(t, embedded.Config{Token: "secret"})
	at := []string{"--server", s.ClientURL(), "--token", "secret"}
	reflector := runProgram(t, Reflector, at...)
	reflector.says("waiting for the pool")
	reflector.lives()
	coordinator := runProgram(t, Coordinator, at...)
	reflector.says(`"msg":"ready"`)
	coordinator.ends(exitOK)
	reflector.ends(exitOK)
}

// Nobody is waited for who will never let us in.
func TestAServiceThatIsNotLetInEndsWithAText(t *testing.T) {
	s := natstest.ServerWith(t, embedded.Config{Token: "secret"})
	for name, main := range map[string]func(context.Context, IO, []string) int{"coordinator": Coordinator, "reflector": Reflector, "worker": Worker} {
		args := []string{"--server", s.ClientURL(), "--token", "wrong"}
		if name == "worker" {
			args = append(args, "--builtin")
		}
		p := runProgram(t, main, args...)
		p.says("uthorization")
		select {
		case code := <-p.code:
			if code != exitUnreachable {
				t.Errorf("%s ended with %d", name, code)
			}
		case <-time.After(patience):
			t.Errorf("%s does not end", name)
		}
	}
}
