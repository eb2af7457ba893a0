package permissions_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"mulligan/internal/permissions"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

const patience = 30 * time.Second

// broker is a server with the configuration that is computed, and a user beside
// it who may do everything.
type broker struct {
	t     *testing.T
	pool  messages.Pool
	url   string
	keys  map[string]nkeys.KeyPair // by name
	inbox map[string]string
	admin *nats.Conn
}

func newKey(t *testing.T) (nkeys.KeyPair, string) {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, public
}

// start serves a pool whose worker has one queue, mail, beside another, bank, as
// a form of the configuration says.
func start(t *testing.T, form func(messages.Pool, []permissions.User) string) *broker {
	t.Helper()
	b := &broker{t: t, keys: map[string]nkeys.KeyPair{}, inbox: map[string]string{}}
	all := users(t, b.pool, func(p *permissions.Principal) {
		var key nkeys.KeyPair
		key, p.NKey = newKey(t)
		b.keys[string(p.Role)] = key
		if p.Role == permissions.Worker {
			p.Queues = []string{"mail"}
		}
	})
	for _, u := range all {
		b.inbox[u.Name] = u.InboxPrefix
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q, max_file_store: 256MB, max_memory_store: 64MB }\n", t.TempDir())
	if err := os.WriteFile(file, []byte(text+form(b.pool, all)), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &server.Options{}
	if err := o.ProcessConfigFile(file); err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	key, public := newKey(t)
	b.keys["admin"], b.inbox["admin"] = key, "_ADMIN"
	o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: public, Account: home(o)})
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server is not ready")
	}
	b.url = s.ClientURL()
	b.admin = b.connect("admin")
	b.provision()
	return b
}

// home is the account of the streams.
func home(o *server.Options) *server.Account {
	return o.Accounts[slices.IndexFunc(o.Accounts, func(a *server.Account) bool { return a.Name == "MULLIGAN" })]
}

func (b *broker) connect(name string) *nats.Conn {
	b.t.Helper()
	key := b.keys[name]
	public, err := key.PublicKey()
	if err != nil {
		b.t.Fatal(err)
	}
	nc, err := nats.Connect(b.url, nats.Nkey(public, key.Sign), nats.CustomInboxPrefix(b.inbox[name]), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		b.t.Fatalf("connect as %s: %v", name, err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

// provision makes the pool as the coordinator of the configuration does, with
// two queues, and answers the requests to coordinators.
func (b *broker) provision() {
	b.t.Helper()
	seed, err := b.keys["coordinator"].Seed()
	if err != nil {
		b.t.Fatal(err)
	}
	file := filepath.Join(b.t.TempDir(), "coordinator.nk")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		b.t.Fatal(err)
	}
	p, err := jetstream.Connect(b.t.Context(), jetstream.Config{URL: b.url, NKeyFile: file, InboxPrefix: b.inbox["coordinator"]})
	if err != nil {
		b.t.Fatal(err)
	}
	defer p.Close()
	for _, err := range []error{
		p.Provision(b.t.Context(), jetstream.TopologyConfig{}),
		p.EnsureQueue(b.t.Context(), "mail"), p.EnsureQueue(b.t.Context(), "bank"),
	} {
		if err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := b.admin.Subscribe("mulligan.svc.*", func(m *nats.Msg) { _ = m.Respond([]byte(`{}`)) }); err != nil {
		b.t.Fatal(err)
	}
	if err := b.admin.Flush(); err != nil {
		b.t.Fatal(err)
	}
}

// outcome is what became of an operation.
type outcome string

const (
	worked  outcome = "yes"
	denied  outcome = "–"       // by the permissions
	refused outcome = "refused" // let through, and not done by the stream
)

// hand tries operations as one principal.
type hand struct {
	*broker
	name string
	nc   *nats.Conn
}

// denies runs what publishes or subscribes, and says whether the server
// complained. Its complaint comes before its answer to the flush.
func (h hand) denies(do func() error) bool {
	h.t.Helper()
	before := h.nc.LastError()
	if err := errors.Join(do(), h.nc.FlushTimeout(patience)); err != nil {
		h.t.Fatal(err)
	}
	after := h.nc.LastError()
	return after != before && errors.Is(after, nats.ErrPermissionViolation)
}

// ask makes a request and returns its first answer.
func (h hand) ask(subject string, header nats.Header, body string) (*nats.Msg, outcome) {
	h.t.Helper()
	reply := h.nc.NewInbox()
	sub, err := h.nc.SubscribeSync(reply)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	m := &nats.Msg{Subject: subject, Reply: reply, Header: header, Data: []byte(body)}
	if h.denies(func() error { return h.nc.PublishMsg(m) }) {
		return nil, denied
	}
	got, err := sub.NextMsg(patience)
	if err != nil {
		h.t.Errorf("%s asks %s and hears nothing: %v", h.name, subject, err)
		return nil, refused
	}
	return got, worked
}

// api is ask, where the answer of a stream or of JetStream may be an error.
func (h hand) api(subject string, header nats.Header, body string) outcome {
	h.t.Helper()
	m, out := h.ask(subject, header, body)
	if out != worked {
		return out
	}
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if status := m.Header.Get("Status"); status == "503" || status != "" && !strings.HasPrefix(status, "4") && status != "204" && status != "100" {
		h.t.Errorf("%s asks %s: status %s", h.name, subject, status)
	}
	if json.Unmarshal(m.Data, &answer) == nil && answer.Error != nil {
		h.t.Logf("%s asks %s: %s", h.name, subject, answer.Error.Description)
		return refused
	}
	return worked
}

// hears says whether a subscription is let through.
func (h hand) hears(subject, queue string) outcome {
	h.t.Helper()
	var sub *nats.Subscription
	no := h.denies(func() (err error) {
		sub, err = h.nc.QueueSubscribe(subject, queue, func(*nats.Msg) {})
		return err
	})
	_ = sub.Unsubscribe()
	if no {
		return denied
	}
	return worked
}

// as is the admin's hand, who makes what is tried on.
func (b *broker) as() hand { return hand{broker: b, name: "admin", nc: b.admin} }

// must stores a message as the admin.
func (b *broker) must(subject, body string) {
	b.t.Helper()
	if out := b.as().api(subject, nil, body); out != worked {
		b.t.Fatalf("the admin publishes to %s: %s", subject, out)
	}
}

// id is a call id that was not used yet.
func (b *broker) id() string { return messages.NewCallID() }

// delivery is the ack subject of a message that a consumer has just handed out.
func (b *broker) delivery(subject, consumer string) string {
	b.t.Helper()
	b.must(subject, "x")
	m, _ := b.as().ask("$JS.API.CONSUMER.MSG.NEXT."+consumer, nil, `{"batch":1,"expires":10000000000}`)
	if m == nil || !strings.HasPrefix(m.Reply, "$JS.ACK.") {
		b.t.Fatalf("nothing comes from %s", consumer)
	}
	return m.Reply
}

// configOf is the configuration of a stream or consumer that is there.
func (b *broker) configOf(subject string) string {
	b.t.Helper()
	m, _ := b.as().ask(subject, nil, "")
	var info struct {
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Config == nil {
		b.t.Fatalf("%s: %s", subject, m.Data)
	}
	return string(info.Config)
}
