package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"mulligan/examples/shop/serve"
	"mulligan/examples/shop/shopclient"
)

// asShop makes the test binary be the command, so that tests can start it as a
// process, and end it.
const asShop = "SHOP_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asShop) != "" {
		main()
		return
	}
	// What the tests start is the command, also where the command starts itself.
	if err := os.Setenv(asShop, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// process is a running shop.
type process struct {
	command *exec.Cmd
	address serve.Address
	stderr  *strings.Builder
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{command: exec.Command(os.Args[0], append([]string{"serve"}, args...)...), stderr: &strings.Builder{}}
	p.command.Stderr = p.stderr
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.command.ProcessState == nil {
			_ = p.command.Process.Kill() // may have ended by itself
			_ = p.command.Wait()
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = p.command.Wait()
		t.Fatalf("the shop did not say where it is: %v; %s", err, p.stderr)
	}
	if err := json.Unmarshal([]byte(line), &p.address); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return p
}

func (p *process) client(t *testing.T) *shopclient.Client {
	c := shopclient.New(p.address.URL)
	t.Cleanup(c.Close)
	return c
}

// end signals the process and returns its exit code, -1 if it was killed.
func (p *process) end(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	_ = p.command.Wait() // the exit code says it
	return p.command.ProcessState.ExitCode()
}

// command runs the program within the test, where it should not wait for anything.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return runWith(ctx, args...)
}

func runWith(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = run(ctx, args, &out, io.Writer(&errs))
	return code, out.String(), errs.String()
}
