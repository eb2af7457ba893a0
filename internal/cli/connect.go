package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"time"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/spf13/pflag"

	"mulligan/internal/pace"
	"mulligan/internal/secrets"
	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// connection says where the pool is.
type connection struct {
	server, context, pool, state string
	token, creds, nkey           string
	ca, cert, key, inbox         string
}

func (c *connection) flags(f *pflag.FlagSet) {
	f.StringVar(&c.server, "server", "", "address of NATS, such as nats://host:4222; several are separated by commas")
	f.StringVar(&c.context, "context", "", "NATS context that says where and as whom to connect")
	f.StringVar(&c.token, "token", "", "token for NATS; better given as MULLIGAN_TOKEN, since command lines can be seen by others")
	f.StringVar(&c.creds, "creds", "", "file of NATS user credentials")
	f.StringVar(&c.nkey, "nkey", "", "file of a NATS nkey seed")
	f.StringVar(&c.ca, "tls-ca", "", "file of the certificates that the server is checked against")
	f.StringVar(&c.cert, "tls-cert", "", "file of the client's certificate")
	f.StringVar(&c.key, "tls-key", "", "file of the client's key")
	f.StringVar(&c.inbox, "inbox-prefix", "", "subject that answers come back on, where permissions demand one")
	c.poolFlag(f)
	c.stateFlag(f)
}

func (c *connection) poolFlag(f *pflag.FlagSet) {
	f.StringVar(&c.pool, "pool", messages.DefaultPrefix, "name of the pool: the prefix of its subjects and streams")
}

func (c *connection) stateFlag(f *pflag.FlagSet) {
	f.StringVar(&c.state, "state", ".mulligan", "state folder of a running mulligan up, whose pool is used when no other address is given")
}

// target is where to connect, and how that is called in messages.
type target struct {
	cfg   jetstream.Config
	where string
}

// resolve finds the pool: flags, then environment and files, then the NATS
// context that is selected, then a running `mulligan up` in the state folder.
func (a *app) resolve() (target, error) {
	c := &a.conn
	server, nctx := a.sources["server"], a.sources["context"]
	switch {
	case c.server != "" && c.context != "" && server == nctx:
		return target{}, usage("--server and --context are both given; give one")
	case c.server != "" && (c.context == "" || server > nctx):
		return a.explicit(), nil
	}
	if flag := a.identity(); flag != "" {
		return target{}, usage("--%s goes with --server: a NATS context and a running mulligan up say themselves who may connect; leave it out, or say where with --server", flag)
	}
	if c.context != "" {
		return a.fromContext(c.context)
	}
	if selected := natscontext.SelectedContext(); selected != "" {
		return a.fromContext(selected)
	}
	return a.fromState()
}

// identity is the flag of the command line that says as whom to connect, or
// how; empty for none. In the environment and in files such values may be meant
// for another command.
func (a *app) identity() string {
	for _, name := range []string{"token", "creds", "nkey", "tls-ca", "tls-cert", "tls-key", "inbox-prefix"} {
		if a.sources[name] == fromFlag {
			return name
		}
	}
	return ""
}

func (a *app) explicit() target {
	c := a.conn
	return target{where: secrets.Address(c.server), cfg: jetstream.Config{
		URL: c.server, Token: c.token, CredsFile: c.creds, NKeyFile: c.nkey, CAFile: c.ca, CertFile: c.cert, KeyFile: c.key, InboxPrefix: c.inbox,
	}}
}

func (a *app) fromContext(name string) (target, error) {
	n, err := natscontext.New(name, true)
	if err != nil {
		return target{}, usage("NATS context %q: %w; `nats context ls` lists them", name, err)
	}
	a.veil.withhold(append(ofAddress(n.ServerURL()), n.Token(), n.Password())...)
	t := target{where: fmt.Sprintf("NATS context %s (%s)", name, secrets.Address(n.ServerURL())), cfg: jetstream.Config{
		URL: n.ServerURL(), Token: n.Token(), CredsFile: n.Creds(), NKeyFile: n.NKey(), CAFile: n.CA(), CertFile: n.Certificate(), KeyFile: n.Key(),
		InboxPrefix: n.InboxPrefix(),
	}}
	if n.User() != "" {
		u, err := url.Parse(t.cfg.URL)
		if err != nil {
			return target{}, usage("NATS context %q: its URL cannot be read", name)
		}
		u.User = url.UserPassword(n.User(), n.Password())
		t.cfg.URL = u.String()
	}
	return t, nil
}

func (a *app) statePath() string {
	if filepath.IsAbs(a.conn.state) {
		return a.conn.state
	}
	return filepath.Join(a.Dir, a.conn.state)
}

func (a *app) fromState() (target, error) {
	dir := a.statePath()
	addr, err := embedded.ReadAddress(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return target{}, withCode(exitUnreachable, fmt.Errorf(
			"no pool is given and none runs in %s: start one with `mulligan up`, give --server URL, or use --embedded where a command has it", dir))
	}
	if err != nil {
		return target{}, withCode(exitUnreachable, err)
	}
	a.veil.withhold(addr.Token)
	return target{where: "mulligan up in " + dir, cfg: jetstream.Config{URL: addr.URL, Token: addr.Token}}, nil
}

// dial connects to the pool that the flags say.
func (a *app) dial(ctx context.Context, name string) (*jetstream.Pool, string, error) {
	t, err := a.resolve()
	if err != nil {
		return nil, "", err
	}
	if _, err := messages.NewPool(a.conn.pool); err != nil {
		return nil, "", withCode(exitUsage, err)
	}
	t.cfg.Name, t.cfg.Prefix, t.cfg.Log = name, a.conn.pool, a.logger(slogQuiet)
	if err := t.cfg.WithDefaults().Validate(); err != nil {
		return nil, "", withCode(exitUsage, err)
	}
	dctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	pool, err := jetstream.Connect(dctx, t.cfg)
	if err != nil {
		return nil, "", unconnected(t.where, err)
	}
	if err := a.answers(ctx, pool, t.where); err != nil {
		pool.Close()
		return nil, "", withCode(exitUnreachable, err)
	}
	return pool, t.where, nil
}

// How long a command waits for a broker that let it in: the one for a server
// that stands alone, the other where an election may be going on (ADR 0013).
const (
	answering = 5 * time.Second
	electing  = 45 * time.Second
)

// answers says whether the broker, which let us in, knows the pool. The servers
// of a cluster answer nothing about a stream while they elect its leader.
func (a *app) answers(ctx context.Context, pool *jetstream.Pool, where string) error {
	patience := answering
	if pool.Clustered() {
		patience = electing
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	told := false
	for p := pace.New(100*time.Millisecond, time.Second); ; {
		_, err := pool.LastSequence(ctx, messages.StreamResults)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, messages.ErrNotFound):
			return fmt.Errorf("%s has no pool %q: coordinators make it, and --pool names it", where, a.conn.pool)
		case errors.Is(err, messages.ErrForbidden):
			return err
		case !pool.Clustered() && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoAnswer)):
			return fmt.Errorf("%s lets us in and answers nothing; a user that may read answers below one prefix only needs --inbox-prefix: %w", where, err)
		case !pool.Clustered():
			return err
		}
		if !told {
			a.say("the brokers at %s let us in and do not answer yet, as in an election; waiting up to %s", where, electing)
			told = true
		}
		if !p.Wait(ctx) {
			return fmt.Errorf("%s lets us in and has not answered for %s: most of its servers are away, they cannot elect a leader, or a user that may read answers below one prefix only needs --inbox-prefix: %w", where, electing, err)
		}
	}
}

// unconnected words why there is no connection. A file of ours that cannot be
// read is a mistake in the flags, and no server that does not answer; nor is one
// that lets nobody in who shows what we showed.
func unconnected(where string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return withCode(exitUsage, fmt.Errorf("a file for the connection to %s cannot be read: %w", where, err))
	}
	if errors.Is(err, jetstream.ErrRefused) {
		return withCode(exitUnreachable, fmt.Errorf("%s does not let us in; give MULLIGAN_TOKEN, --nkey, --creds or --context as it wants it: %w", where, err))
	}
	return withCode(exitUnreachable, fmt.Errorf("%s does not answer: %w", where, err))
}
