//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mulligan/internal/freeport"
)

// brokerConfig: clients are not told of other addresses, which would lead them
// past the proxies.
const brokerConfig = `server_name: %[1]s
listen: "%[2]s"
http: "%[3]s"
authorization { token: "` + token + `" }
max_payload: 1MB
jetstream { store_dir: "%[4]s", max_file_store: 4GB, max_memory_store: 64MB }
`

// clusterConfig: brokers reach each other through proxies. What a broker
// advertises is where nobody listens, or the others would find a way past them.
const clusterConfig = `cluster { name: chaos, listen: "%s", no_advertise: true, cluster_advertise: "127.0.0.1:9", routes: [ %s ] }
`

func brokerName(i int) string { return fmt.Sprintf("broker-%d", i) }

func (c *cluster) startBrokers(natsServer string) error {
	ports, release, err := freeport.Addresses(3 * c.Nodes)
	if err != nil {
		return err
	}
	c.release = release
	c.clients, c.monitors = ports[:c.Nodes], ports[c.Nodes:2*c.Nodes]
	listen := ports[2*c.Nodes:]
	for i := range c.Nodes {
		c.processes[brokerName(i)] = &process{name: brokerName(i), log: filepath.Join(c.dir, brokerName(i)+".log")}
	}
	for i := range c.Nodes {
		p := c.processes[brokerName(i)]
		text := fmt.Sprintf(brokerConfig, p.name, c.clients[i], c.monitors[i], filepath.Join(c.dir, p.name))
		if c.Nodes > 1 {
			routes, err := c.routesOf(i, listen)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(clusterConfig, listen[i], strings.Join(routes, ", "))
		}
		text += c.Broker
		file := filepath.Join(c.dir, p.name+".conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		p.command = func() *exec.Cmd { return exec.Command(natsServer, "-c", file) }
	}
	for i := range c.Nodes {
		if err := c.processes[brokerName(i)].start(); err != nil {
			return err
		}
	}
	return nil
}

// routesOf gives the addresses at which broker i reaches the others, each a
// proxy that both ends of the route can be cut off by.
func (c *cluster) routesOf(i int, listen []string) ([]string, error) {
	var routes []string
	for j, there := range listen {
		if j == i {
			continue
		}
		x, err := newProxy(there, nil)
		if err != nil {
			return nil, err
		}
		for _, end := range []int{i, j} {
			p := c.processes[brokerName(end)]
			p.proxies = append(p.proxies, x)
		}
		routes = append(routes, `"nats-route://`+x.address()+`"`)
	}
	return routes, nil
}

// leader asks the brokers which of them leads a stream.
func (c *cluster) leader(ctx context.Context, stream string) (string, error) {
	if c.Nodes == 1 {
		return brokerName(0), nil
	}
	ctx, stop := context.WithTimeout(ctx, startTime)
	defer stop()
	for {
		for _, m := range c.monitors {
			if s, ok := streamBy(ctx, m, stream); ok && c.processes[s.Cluster.Leader] != nil {
				return s.Cluster.Leader, nil
			}
		}
		if pause(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return "", fmt.Errorf("no broker says who leads %s: %w", stream, ctx.Err())
		}
	}
}

// brokerStream is a stream as one broker knows it.
type brokerStream struct {
	Name    string `json:"name"`
	Cluster struct {
		Leader string `json:"leader"` // empty where it knows none
	} `json:"cluster"`
	State struct {
		Messages int `json:"messages"`
	} `json:"state"`
}

func streamBy(ctx context.Context, monitor, stream string) (brokerStream, bool) {
	var told struct {
		Accounts []struct {
			Streams []brokerStream `json:"stream_detail"`
		} `json:"account_details"`
	}
	if ask(ctx, monitor, "/jsz?accounts=true&streams=true", &told) != nil {
		return brokerStream{}, false
	}
	for _, a := range told.Accounts {
		for _, s := range a.Streams {
			if s.Name == stream {
				return s, true
			}
		}
	}
	return brokerStream{}, false
}

// holds is how many messages a stream holds.
func (c *cluster) holds(ctx context.Context, stream string) int {
	most := 0
	for _, m := range c.monitors {
		if s, ok := streamBy(ctx, m, stream); ok {
			most = max(most, s.State.Messages)
		}
	}
	return most
}

// healthy says that a broker is up, and has all that the others have.
func healthy(ctx context.Context, monitor string) bool {
	var told struct {
		Status string `json:"status"`
	}
	return ask(ctx, monitor, "/healthz", &told) == nil && told.Status == "ok"
}

// ask gets what a broker tells of itself. One that is frozen answers nothing.
func ask(ctx context.Context, monitor, path string, dst any) error {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+monitor+path, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", path, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(dst)
}
