package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/pflag"

	"mulligan/internal/pool"
	"mulligan/jetstream"
	"mulligan/pkg/client"
)

// session is a connection to a pool, or to one of its own in this process.
type session struct {
	broker *jetstream.Pool
	client *client.Client
	where  string
	own    *pool.Pool // nil when the pool is elsewhere
}

// pooling says whether a command brings its own pool, and what that serves.
type pooling struct {
	embedded bool
	tools    []string
	slots    int
	lease    time.Duration
	patience time.Duration
}

func (p *pooling) flags(f *pflag.FlagSet) {
	f.BoolVar(&p.embedded, "embedded", false, "run a pool of its own in this process, with the built-in tools echo, sleep and fail and those of --tools")
	f.StringSliceVar(&p.tools, "tools", nil, "file that declares tools, for --embedded; may be given several times")
	f.IntVar(&p.slots, "slots", 8, "how many tools run at a time, for --embedded")
	f.DurationVar(&p.lease, "lease", ownLease, "after what time calls that a crashed process held are taken up again, for --embedded")
}

func (p *pooling) check() error {
	if !p.embedded && len(p.tools) > 0 {
		return usage("--tools declares tools for --embedded, which is not given; a pool elsewhere gets its tools from its workers")
	}
	if p.patience < 0 {
		return usage("--patience %s is negative; give a duration such as 30s", p.patience)
	}
	return checkOwn(p.slots, p.lease)
}

// ownLease is the lease of a pool in one process. Nobody else could take a call
// over there, so it only bounds how soon work goes on after a crash.
const ownLease = 10 * time.Second

func checkOwn(slots int, lease time.Duration) error {
	switch {
	case slots < 1:
		return usage("--slots %d: give 1 or more", slots)
	case lease < 100*time.Millisecond:
		return usage("--lease %s: give 100ms or more", lease)
	}
	return nil
}

// open connects. dir is the folder of an embedded pool; empty means a
// temporary one that goes with the session.
func (a *app) open(ctx context.Context, p pooling, dir string) (*session, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s := &session{}
	var err error
	if p.embedded {
		s.own, err = a.ownPool(ctx, p, dir)
		if err != nil {
			return nil, err
		}
		s.where = "embedded"
		s.broker, err = s.own.Connect(ctx, "mulligan "+a.program)
	} else {
		s.broker, s.where, err = a.dial(ctx, "mulligan")
	}
	if err == nil {
		s.client, err = client.New(s.broker, client.Config{By: a.by(), Patience: p.patience, Log: a.logger(slogQuiet)})
	}
	if err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (a *app) ownPool(ctx context.Context, p pooling, dir string) (*pool.Pool, error) {
	tools, err := loadTools(p.tools)
	if err != nil {
		return nil, notFound(err)
	}
	own, err := pool.Start(ctx, pool.Config{Dir: dir, Tools: tools, Slots: p.slots, Lease: p.lease, Log: a.logger(slogQuiet)})
	if err != nil {
		return nil, fmt.Errorf("embedded pool: %w", err)
	}
	return own, nil
}

// close lets go of the pool; one of its own is drained first, for as long as
// its tools need, unless ctx ends.
func (s *session) close(ctx context.Context) error {
	if s.client != nil {
		s.client.Close()
	}
	if s.broker != nil {
		s.broker.Close()
	}
	if s.own != nil {
		return s.own.Stop(ctx)
	}
	return nil
}

// closing joins the error of closing to that of a command. The context of the
// command may have ended, which must not cut the drain short.
func (s *session) closing(ctx context.Context, err *error) {
	*err = errors.Join(*err, s.close(context.WithoutCancel(ctx)))
}

// by says who submits.
func (a *app) by() string {
	name := a.getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return name + "@" + host
}
