package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"mulligan/internal/pool"
	"mulligan/jetstream"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// patience is how long what must happen may take.
const patience = time.Minute

// One pool serves all tests of the package.
var shared struct {
	pool   *pool.Pool
	broker *jetstream.Pool
	ran    ran
}

func TestMain(m *testing.M) {
	code, err := withPool(m)
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func withPool(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if shared.pool, err = pool.Start(ctx, pool.Config{Tools: tools(), Slots: 32, Document: []byte(`{"pool":{"breaker":"off"}}`)}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.pool.Stop(ctx)) }()
	if shared.broker, err = shared.pool.Connect(ctx, "test"); err != nil {
		return 1, err
	}
	defer shared.broker.Close()
	return m.Run(), nil
}

// ran tells of each start of a tool, by the key in its input.
type ran struct {
	mu     sync.Mutex
	starts map[string]chan struct{}
	ends   map[string]chan error
}

func (r *ran) started(key string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starts == nil {
		r.starts = make(map[string]chan struct{})
	}
	if r.starts[key] == nil {
		r.starts[key] = make(chan struct{}, 100)
	}
	return r.starts[key]
}

func (r *ran) ended(key string) chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends == nil {
		r.ends = make(map[string]chan error)
	}
	if r.ends[key] == nil {
		r.ends[key] = make(chan error, 100)
	}
	return r.ends[key]
}

type in struct {
	Key   string `json:"key,omitempty"`
	Text  string `json:"text,omitempty"`
	Order string `json:"order,omitempty"`
}

// whole is a result of a tool of MCP, with all that must survive: a number above
// 2^53, kinds of content that nobody here knows, and what belongs to another exchange.
const whole = `{"content":[{"type":"text","text":"see"},{"type":"image","data":"aGk=","mimeType":"image/png","annotations":{"priority":0.5}},` +
	`{"type":"resource_link","uri":"file:///a","name":"a"},{"type":"later","x":9007199254740993}],"structuredContent":{"n":9007199254740993},` +
	`"_meta":{"example.com/a":1,"io.modelcontextprotocol/serverInfo":{"name":"inner"}}}`

func tools() []*tool.Tool {
	raw := func(name, output string) *tool.Tool {
		return tool.Raw(name, nil, func(context.Context, tool.Call) (tool.Output, error) { return tool.Output{Body: []byte(output)}, nil }, tool.Effect(messages.ReadOnly))
	}
	return []*tool.Tool{
		tool.New("upper", func(_ context.Context, in in) (string, error) {
			shared.ran.started(in.Key) <- struct{}{}
			return strings.ToUpper(in.Text), nil
		}, tool.Effect(messages.Idempotent)),
		tool.New("elsewhere", func(context.Context, in) (string, error) { return "far", nil }, tool.Effect(messages.ReadOnly), tool.Queue("other")),
		tool.New("flaky", func(ctx context.Context, in in) (string, error) {
			if tool.FromContext(ctx).Attempt == 0 {
				return "", errors.New("503 Service Unavailable")
			}
			return in.Text, nil
		}, tool.Effect(messages.ReadOnly)),
		tool.New("forbidden", func(context.Context, in) (string, error) {
			return "", errors.New("403 Forbidden: this account may not")
		}, tool.Effect(messages.ReadOnly)),
		tool.New("held", func(ctx context.Context, in in) (string, error) {
			shared.ran.started(in.Key) <- struct{}{}
			<-ctx.Done()
			shared.ran.ended(in.Key) <- context.Cause(ctx)
			return "", context.Cause(ctx)
		}, tool.Effect(messages.ReadOnly)),
		tool.New("asks", func(_ context.Context, in in) (string, error) {
			if !strings.HasPrefix(in.Order, "ORD-100") {
				return "", fmt.Errorf("order %s not found; did you mean 'ORD-1001'?", in.Order)
			}
			return "refunded " + in.Order, nil
		}, tool.Effect(messages.Unsafe)),
		raw("whole", whole),
		raw("bytes", "\xff\x00"),
	}
}

// served is a server of one test, with its client of the pool.
type served struct {
	*Server
	registry *Registry
	client   *client.Client
}

func serve(t *testing.T, change func(*Config)) *served {
	t.Helper()
	c, err := client.New(shared.broker, client.Config{By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := NewRegistry(shared.broker, nil)
	if err := r.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Broker: shared.broker, Client: c, Registry: r, Name: unique(t), May: May{Answer: true, Cancel: true}}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &served{Server: s, registry: r, client: c}
}

// connect connects a client of the SDK over a pair of pipes, as over standard
// input and output.
func (s *served) connect(t *testing.T, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeIO(ctx, toServer, fromServer)
		_ = fromServer.Close()
	}()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	t.Cleanup(func() {
		if cs != nil {
			_ = cs.Close()
		}
		_ = fromClient.Close()
		_ = toServer.Close()
		<-done
		stop()
	})
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func call(t *testing.T, cs *mcp.ClientSession, p *mcp.CallToolParams) *mcp.CallToolResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := cs.CallTool(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// texts are those of a result, one a line.
func texts(r *mcp.CallToolResult) string {
	var out []string
	for _, c := range r.Content {
		if x, ok := c.(*mcp.TextContent); ok {
			out = append(out, x.Text)
		} else {
			out = append(out, fmt.Sprintf("%T", c))
		}
	}
	return strings.Join(out, "|")
}

// await gives what comes out of a channel in time.
func await[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing came in %s", what, patience)
		panic("unreachable")
	}
}

// unique is a word of this run of a test.
func unique(t *testing.T) string { return t.Name() + messages.NewCallID() }
