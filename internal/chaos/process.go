//go:build unix

package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"mulligan/internal/cli"
	"mulligan/pkg/tool"
)

// roleVariable makes a process that is started again one of the pool's: the
// harness and all that it starts are one program.
const roleVariable = "MULLIGAN_CHAOS_ROLE"

// Role runs what the environment asks for, and says whether it asked. Whoever
// is the harness's program calls it first.
func Role() bool {
	role := os.Getenv(roleVariable)
	var p cli.Program
	switch role {
	case "":
		return false
	case "coordinator":
		p = cli.Coordinator
	case "reflector":
		p = cli.Reflector
	case "worker":
		p = chaosWorker
	case "witness":
		p = witnessProgram
	}
	cli.Main(p)
	return true
}

func chaosWorker(ctx context.Context, env cli.IO, args []string) int {
	var witness, as string
	return cli.ToolWorker{
		Name: "worker", Short: "A worker that is going to be hurt", Long: "A worker that is going to be hurt.",
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&witness, "witness", "", "where the witness listens")
			f.StringVar(&as, "as", "", "the name that the witness is told")
		},
		Tools: func() ([]*tool.Tool, error) { return Tools(witness, as), nil },
	}.Run(ctx, env, args)
}

func witnessProgram(ctx context.Context, env cli.IO, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	if err := serveWitness(ctx, args[0], env.Out); err != nil {
		fmt.Fprintln(env.Err, err)
		return 1
	}
	return 0
}

// process is one that can be hurt: its command can be started again and again.
type process struct {
	name    string
	command func() *exec.Cmd
	log     string
	proxies []*proxy // of a service to the brokers; of a broker to and from the others

	mu     sync.Mutex
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended
	starts int
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", p.name, err), log.Close())
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	p.starts++
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		_ = log.Close()
		close(done)
	}()
	return nil
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(s) // one that has ended by itself needs none
}

// ended is closed when the process that runs now has ended.
func (p *process) ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

func (p *process) running() bool {
	select {
	case <-p.ended():
		return false
	default:
		return true
	}
}

// drainTime is how long a process may take to end when it is asked to.
const drainTime = 25 * time.Second

// end asks the process to end, and kills it when it does not.
func (p *process) end() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended():
	case <-time.After(drainTime):
		p.signal(syscall.SIGKILL)
		<-p.ended()
	}
}

// strike does a fault and heals it after its time.
func (p *process) strike(ctx context.Context, f Fault) error {
	wait := func() {
		select {
		case <-time.After(f.For):
		case <-ctx.Done():
		}
	}
	switch f.Kind {
	case Kill:
		p.signal(syscall.SIGKILL)
		<-p.ended()
		wait()
		return p.start()
	case Restart:
		p.end()
		wait()
		return p.start()
	case Freeze:
		p.signal(syscall.SIGSTOP)
		wait()
		p.signal(syscall.SIGCONT)
	case Cut, Stall, Slow:
		p.hurt(f.Kind)
		wait()
		p.hurt("")
	case Partition:
		p.hurt(Stall)
		wait()
		p.hurt("")
	case Sever:
		p.hurt(Cut)
		wait()
		p.hurt("")
	}
	return nil
}

func (p *process) hurt(kind Kind) {
	for _, x := range p.proxies {
		x.hurt(kind)
	}
}

// inRole makes a command of a harness's program in a role; without one of this very program.
func inRole(exe, dir, role, token string, args ...string) (func() *exec.Cmd, error) {
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	env := []string{roleVariable + "=" + role, "MULLIGAN_TOKEN=" + token}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "MULLIGAN_") {
			env = append(env, e)
		}
	}
	return func() *exec.Cmd {
		c := exec.Command(exe, args...)
		c.Env, c.Dir = env, dir
		return c
	}, nil
}

// startWitness starts the one process that is never hurt.
func startWitness(dir string) (p *process, address string, err error) {
	command, err := inRole("", dir, "witness", "", filepath.Join(dir, witnessFile))
	if err != nil {
		return nil, "", err
	}
	cmd := command()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	p = &process{name: "witness", cmd: cmd, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	r := bufio.NewReader(out)
	address, err = r.ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, r)
		_ = cmd.Wait()
		close(p.done)
	}()
	if err != nil {
		p.end()
		return nil, "", fmt.Errorf("the witness did not say where it is: %w", err)
	}
	return p, strings.TrimSpace(address), nil
}

const witnessFile = "witness.jsonl"
