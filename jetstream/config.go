package jetstream

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"mulligan/internal/secrets"
	"mulligan/pkg/messages"
)

// Config says where the broker is, who connects, and how long to wait.
type Config struct {
	// URL is one server or several, separated by commas, of the schemes nats, tls,
	// ws and wss, which is nats where there is none. Default nats://127.0.0.1:4222.
	URL string
	// InProcess connects to a server in this process and makes URL unused.
	InProcess interface{ InProcessConn() (net.Conn, error) }
	// Name is shown by the server's connection list. Default "mulligan".
	Name string
	// Prefix is the pool's prefix, see [messages.NewPool]. Default "mulligan".
	Prefix string

	// Token, CredsFile (a JWT and its nkey) and NKeyFile (a seed) are three
	// ways to say who this is; at most one may be set.
	Token     string
	CredsFile string
	NKeyFile  string
	// CAFile holds the roots that the server's certificate is checked against,
	// in place of the system's; CertFile and KeyFile, both or none, are ours.
	CAFile   string
	CertFile string
	KeyFile  string

	// InboxPrefix is the first part of the subjects that answers come back on.
	// Give each principal its own and allow it to subscribe there only, since
	// whoever can read an inbox can read the answers. Default "_INBOX".
	InboxPrefix string

	// Lease is how long a fetched message stays with its consumer without an
	// ack or an extension, 100 ms or more. It becomes AckWait of the durables
	// that Provision and EnsureQueue create. Too short, and what runs is handed
	// out twice; too long, and what a dead worker held waits. Default 60 s.
	Lease time.Duration
	// QueueLimits bounds, for the queues named in it, how many calls are in
	// the hands of workers at once, in the whole pool. It is divided over the
	// lanes as MaxAckPending; see [Pool.EnsureQueue]. Absent means unbounded.
	QueueLimits map[string]int

	// Timeout bounds a request to the broker, also where its context allows
	// more: a broker in an election loses requests. When it passes nobody knows
	// whether the broker did it. Requests to coordinators have the time that
	// their context gives, and this one without. Default 5 s.
	Timeout time.Duration
	// RetryConnect makes Connect succeed without a server, and keep trying.
	// Otherwise it fails at once where none answers.
	RetryConnect bool
	// DrainTimeout bounds Close. Default 5 s.
	DrainTimeout time.Duration
	// ServeLimit is how many requests of one endpoint are handled at once;
	// more wait, first unread, then in the requester's time-out. Default 64.
	ServeLimit int

	// Log receives what nobody waits for: reconnects, permission errors, lost
	// followers. Nil discards.
	Log *slog.Logger
}

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	c.URL = cmp.Or(c.URL, "nats://127.0.0.1:4222")
	c.Name = cmp.Or(c.Name, "mulligan")
	c.Prefix = cmp.Or(c.Prefix, messages.DefaultPrefix)
	c.InboxPrefix = cmp.Or(c.InboxPrefix, "_INBOX")
	c.Lease = cmp.Or(c.Lease, 60*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Second)
	c.ServeLimit = cmp.Or(c.ServeLimit, 64)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Validate names the field that cannot be used, its value and the way out.
func (c Config) Validate() error {
	if _, err := messages.NewPool(c.Prefix); err != nil {
		return fmt.Errorf("prefix: %w", err)
	}
	ways := 0
	for _, v := range []string{c.Token, c.CredsFile, c.NKeyFile} {
		if v != "" {
			ways++
		}
	}
	switch {
	case ways > 1:
		return fmt.Errorf("token, creds file and nkey file: %d are set; give one", ways)
	case (c.CertFile == "") != (c.KeyFile == ""):
		return fmt.Errorf("cert file %q and key file %q: give both or none", c.CertFile, c.KeyFile)
	case strings.ContainsAny(c.InboxPrefix, " \t\r\n*>") || strings.HasSuffix(c.InboxPrefix, "."):
		return fmt.Errorf("inbox prefix %q: give a subject without wildcards and without a dot at its end", c.InboxPrefix)
	case c.Lease < 100*time.Millisecond:
		return fmt.Errorf("lease %v: give 100ms or more", c.Lease)
	case c.Timeout < 0:
		return fmt.Errorf("timeout %v is negative", c.Timeout)
	case c.DrainTimeout < 0:
		return fmt.Errorf("drain timeout %v is negative", c.DrainTimeout)
	case c.ServeLimit < 0:
		return fmt.Errorf("serve limit %d is negative", c.ServeLimit)
	}
	for q, n := range c.QueueLimits {
		if n < 1 {
			return fmt.Errorf("limit of queue %q is %d: give 1 or more, or leave it out for none", q, n)
		}
	}
	return checkURL(c.URL)
}

// checkURL says what is wrong with the addresses of servers, in place of the
// parser, which would repeat a password.
func checkURL(servers string) error {
	for server := range strings.SplitSeq(servers, ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		switch {
		case err != nil || u.Hostname() == "":
			return fmt.Errorf("server %q is no address; give one such as nats://host:4222", secrets.Address(servers))
		case !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
			return fmt.Errorf("server %q: unknown scheme %q; give nats, tls, ws or wss", secrets.Address(servers), u.Scheme)
		}
	}
	return nil
}
