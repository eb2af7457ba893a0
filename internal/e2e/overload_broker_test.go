//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mulligan/internal/freeport"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

const brokerToken = "token of the test"

// brokers are nats-servers in processes of their own: one, or a cluster.
type brokers struct {
	t     *testing.T
	nodes []*brokerNode
}

type brokerNode struct {
	t      *testing.T
	name   string
	dir    string // configuration, log and, unless it lies elsewhere, store
	store  string
	client string // host:port for clients
	http   string // host:port of the monitoring
	route  string
	extra  string    // lines of the configuration
	limits string    // of the JetStream block
	cmd    *exec.Cmd // nil while it does not run
	done   chan struct{}
	// start makes the process; nil runs the server as it is.
	start func(server, config string) *exec.Cmd
}

var natsServer = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaries, "nats-server")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w\n%s", err, out)
	}
	return path, nil
})

// newBrokers makes n nodes, which do not run yet.
func newBrokers(t *testing.T, n int) *brokers {
	t.Helper()
	b := &brokers{t: t}
	ports := freePorts(t, 3*n)
	var routes []string
	for i := range n {
		dir := t.TempDir()
		node := &brokerNode{t: t, name: fmt.Sprintf("n%d", i), dir: dir, store: filepath.Join(dir, "store"), limits: "max_file_store: 4GB",
			client: ports[3*i], http: ports[3*i+1], route: ports[3*i+2]}
		b.nodes = append(b.nodes, node)
		routes = append(routes, `"nats-route://`+node.route+`"`)
		t.Cleanup(node.kill)
	}
	if n > 1 {
		for _, node := range b.nodes {
			node.extra += fmt.Sprintf("cluster { name: overload, listen: %q, routes: [ %s ] }\n", node.route, strings.Join(routes, ", "))
		}
	}
	return b
}

func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		out = append(out, fmt.Sprintf("127.0.0.1:%d", freeport.Get(t)))
	}
	return out
}

func (b *brokers) urls() string {
	var out []string
	for _, n := range b.nodes {
		out = append(out, "nats://"+n.client)
	}
	return strings.Join(out, ",")
}

// up starts every node that does not run and waits until all are well.
func (b *brokers) up() {
	b.t.Helper()
	for _, n := range b.nodes {
		if n.cmd == nil {
			n.up()
		}
	}
	for _, n := range b.nodes {
		n.healthy()
	}
}

// configure writes the configuration.
func (n *brokerNode) configure() string {
	n.t.Helper()
	return writeFile(n.t, n.dir, "nats.conf", fmt.Sprintf(`server_name: %s
listen: %q
http: %q
authorization { token: %q }
max_payload: 1MB
jetstream { store_dir: %q, max_memory_store: 64MB, %s }
%s`, n.name, n.client, n.http, brokerToken, n.store, n.limits, n.extra))
}

func (n *brokerNode) up() {
	n.t.Helper()
	server, err := natsServer()
	if err != nil {
		n.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(n.dir, "nats.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	config := n.configure()
	if n.cmd = exec.Command(server, "-c", config); n.start != nil {
		n.cmd = n.start(server, config)
	}
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	cmd, done := n.cmd, make(chan struct{})
	n.done = done
	go func() {
		_ = cmd.Wait()
		_ = log.Close()
		close(done)
	}()
}

// kill is kill -9.
func (n *brokerNode) kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	<-n.done
	n.cmd = nil
	if n.t.Failed() {
		b, _ := os.ReadFile(filepath.Join(n.dir, "nats.log"))
		n.t.Logf("%s:\n%s", n.name, tail(b, 3000))
	}
}

// reload makes the running server read its configuration again.
func (n *brokerNode) reload() {
	n.t.Helper()
	n.configure()
	if err := n.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		n.t.Fatal(err)
	}
}

// ask decodes an answer of the monitoring.
func (n *brokerNode) ask(path string, v any) error {
	resp, err := http.Get("http://" + n.http + path)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

func (n *brokerNode) healthy() {
	n.t.Helper()
	eventually(n.t, "the broker is well", func() error {
		var v struct{ Status string }
		return n.ask("/healthz", &v)
	})
}

// cluster is a cluster without services at these brokers, which run.
func (b *brokers) cluster(cfg jetstream.TopologyConfig) *cluster {
	b.t.Helper()
	c := connected(b.t, b.urls(), brokerToken)
	eventually(b.t, "the pool is made", func() error { return c.pool.Provision(b.t.Context(), cfg) })
	return c
}

// within starts a worker in this process, with a connection of its own. It ends
// with the test.
func (c *cluster) within(name string, slots int, tools ...*tool.Tool) *worker.Worker {
	c.t.Helper()
	p, err := jetstream.Connect(c.t.Context(), jetstream.Config{URL: c.url, Token: c.token, Name: name, Lease: lease})
	if err != nil {
		c.t.Fatal(err)
	}
	w, err := worker.New(worker.Config{Broker: p, Name: name, Tools: tools, Slots: slots, Lease: lease, DrainTimeout: -1, FlushTimeout: time.Second, KeepOffer: true})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := w.Start(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.Stop(ctx)
		p.Close()
	})
	return w
}

// once fails the test where a call has not exactly one result.
func (c *cluster) once(calls []messages.Submission) {
	c.t.Helper()
	ends := c.ends()
	for _, s := range calls {
		if n := ends[s.Call]; n != 1 {
			c.t.Errorf("call %s has %d results", s.Call, n)
		}
	}
}

// command is one of `mulligan` for this pool.
func (c *cluster) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(binaries, "mulligan"), args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "MULLIGAN_SERVER="+c.url, "MULLIGAN_TOKEN="+c.token)
	return cmd
}
