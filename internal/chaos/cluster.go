//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// lease of the pool: how soon the work of a dead process goes to another.
const lease = 2 * time.Second

const token = "chaos"

// Setup says how the processes of a pool are started.
type Setup struct {
	Nodes int // of the broker: 1 or 3
	// Services is the program that plays their parts; empty is this one.
	Services string
	// Broker is added to the configuration of each broker.
	Broker string
	// Args adds to the command line of a service, such as worker-0. Nil adds nothing.
	Args func(name string) []string
}

// cluster is all the processes of one seed.
type cluster struct {
	Setup
	dir       string
	clients   []string // host:port of each broker
	monitors  []string // host:port of what each broker tells of itself
	processes map[string]*process
	witness   *process
	handed    *deliveries     // to services
	pool      *jetstream.Pool // of the harness, past all proxies
	log       *slog.Logger    // of the harness
	release   func()          // of the brokers' addresses
}

// startCluster starts brokers, witness and services, and waits until workers
// offer their tools.
func startCluster(ctx context.Context, dir, natsServer string, s Setup) (c *cluster, err error) {
	log, err := os.Create(filepath.Join(dir, "harness.log"))
	if err != nil {
		return nil, err
	}
	c = &cluster{Setup: s, dir: dir, processes: make(map[string]*process), handed: newDeliveries(), log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	if err := c.startBrokers(natsServer); err != nil {
		return c, err
	}
	if c.pool, err = jetstream.Connect(ctx, jetstream.Config{URL: c.urls(c.clients), Token: token, Name: "chaos", Lease: lease, RetryConnect: true, Log: c.log}); err != nil {
		return c, err
	}
	var address string
	if c.witness, address, err = startWitness(dir); err != nil {
		return c, err
	}
	replicas := fmt.Sprint(s.Nodes)
	services := []struct {
		role string
		n    int
		args []string
	}{
		{"coordinator", coordinators, []string{"--replicas", replicas}},
		{"reflector", reflectors, nil},
		{"worker", workers, []string{"--slots", "8", "--witness", address, "--drain", "20s"}},
	}
	for _, s := range services {
		for i := range s.n {
			if err := c.startService(s.role, i, s.args); err != nil {
				return c, err
			}
		}
	}
	return c, c.awaitTools(ctx)
}

func (c *cluster) urls(addresses []string) string {
	urls := make([]string, len(addresses))
	for i, a := range addresses {
		urls[i] = "nats://" + a
	}
	return strings.Join(urls, ",")
}

func (c *cluster) startService(role string, i int, args []string) error {
	name := fmt.Sprintf("%s-%d", role, i)
	p := &process{name: name, log: filepath.Join(c.dir, name+".log")}
	var through []string
	for _, broker := range c.clients {
		x, err := newProxy(broker, c.handed)
		if err != nil {
			return err
		}
		p.proxies, through = append(p.proxies, x), append(through, x.address())
	}
	args = append([]string{"--server", c.urls(through), "--lease", lease.String(), "--name", name, "--log-level", "debug"}, args...)
	if role == "worker" {
		args = append(args, "--as", name)
	}
	if c.Args != nil {
		args = append(args, c.Args(name)...)
	}
	var err error
	if p.command, err = inRole(c.Services, c.dir, role, token, args...); err != nil {
		return err
	}
	c.processes[name] = p
	return p.start()
}

const startTime = 3 * time.Minute

// awaitTools waits for all workers, and starts services again that ended
// meanwhile.
func (c *cluster) awaitTools(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	var side sync.WaitGroup
	side.Go(func() { c.keepAlive(ctx, func(string) (func(), bool) { return func() {}, true }) })
	defer func() { cancel(); side.Wait() }()
	offers := make(map[string]bool)
	for len(offers) < workers {
		wctx, done := context.WithCancel(ctx)
		err := c.pool.Watch(wctx, messages.BucketTools, "offer.>", func() {}, func(e messages.Entry) {
			if offers[e.Key] = !e.Deleted; len(offers) >= workers {
				done()
			}
		})
		c.log.Info("the watch of the tools ended", "error", err, "offers", len(offers)) // it is tried again
		done()
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d workers were ready after %s; what the services said last: %s", len(offers), workers, startTime, c.lastWords())
		}
		if len(offers) < workers {
			time.Sleep(200 * time.Millisecond)
		}
	}
	return nil
}

// lastWords is the end of the log of each process.
func (c *cluster) lastWords() string {
	var said strings.Builder
	for name, p := range c.processes {
		b, err := os.ReadFile(p.log)
		fmt.Fprintf(&said, "\n%s, started %d times (%v): %s", name, p.starts, err, b[max(0, len(b)-600):])
	}
	return said.String()
}

// heal brings back whatever is gone.
func (c *cluster) heal() error {
	var errs []error
	for _, p := range c.processes {
		p.hurt("")
		p.signal(syscall.SIGCONT)
		if !p.running() {
			errs = append(errs, p.start())
		}
	}
	return errors.Join(errs...)
}

// keepAlive starts services again that ended by themselves, as whatever runs
// them in production does: a poisonous call takes its worker with it.
func (c *cluster) keepAlive(ctx context.Context, busy func(name string) (release func(), ok bool)) {
	for ctx.Err() == nil {
		for name, p := range c.processes {
			release, ok := busy(name)
			if !ok {
				continue
			}
			if !p.running() {
				_ = p.start() // tried again in a moment
			}
			release()
		}
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// stop ends everything, services first.
func (c *cluster) stop() {
	if c.pool != nil {
		c.pool.Close()
	}
	for _, brokers := range []bool{false, true} {
		for name, p := range c.processes {
			if strings.HasPrefix(name, "broker") != brokers || p.done == nil {
				continue
			}
			p.signal(syscall.SIGCONT)
			p.signal(syscall.SIGKILL)
			<-p.ended()
			for _, x := range p.proxies {
				x.close()
			}
		}
	}
	if c.witness != nil {
		c.witness.end()
	}
	if c.release != nil {
		c.release()
	}
}
