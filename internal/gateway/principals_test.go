package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"mulligan/internal/coordination"
	"mulligan/internal/permissions"
	"mulligan/internal/reflection"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
	"mulligan/pkg/worker"
)

// principals is a pool on a server that lets each part do what its role may and
// nothing else, as `mulligan admin permissions` prints it. The gateway stands
// on the connection of the coordinator, as in the process of that name.
type principals struct {
	coordinator *jetstream.Pool
	worker      *jetstream.Pool
	log         noted // what the connections and parts had to say
	dir         string
	ends        []func(ctx context.Context) error
}

// service is a part that runs.
type service interface {
	Start(ctx context.Context) error
	Started() <-chan struct{}
	Stop(ctx context.Context) error
	Stopped() <-chan struct{}
	Err() error
}

func startPrincipals(ctx context.Context) (p *principals, err error) {
	p = &principals{}
	if p.dir, err = os.MkdirTemp("", "mulligan-principals-"); err != nil {
		return nil, err
	}
	p.ends = append(p.ends, func(context.Context) error { return os.RemoveAll(p.dir) })
	url, inboxes, err := p.serve()
	if err != nil {
		return nil, errors.Join(err, p.stop(ctx))
	}
	log := slog.New(slog.NewTextHandler(&p.log, nil))
	for _, part := range []struct {
		role permissions.Role
		make func(b *jetstream.Pool) (service, error)
	}{
		{permissions.Coordinator, func(b *jetstream.Pool) (service, error) {
			p.coordinator = b
			if err := b.Provision(ctx, jetstream.TopologyConfig{}); err != nil {
				return nil, err
			}
			return coordination.New(coordination.Config{Broker: b, Store: b, Name: "coordinator", Log: log})
		}},
		{permissions.Reflector, func(b *jetstream.Pool) (service, error) {
			return reflection.New(reflection.Config{Broker: b, Name: "reflector", Log: log})
		}},
		{permissions.Worker, func(b *jetstream.Pool) (service, error) {
			p.worker = b
			return worker.New(worker.Config{Broker: b, Name: "worker", Tools: tools(), Slots: 32, Log: log})
		}},
	} {
		if err := p.start(ctx, part.role, jetstream.Config{URL: url, NKeyFile: p.seed(part.role), InboxPrefix: inboxes[part.role], Name: string(part.role), Log: log}, part.make); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", part.role, err), p.stop(ctx))
		}
	}
	return p, nil
}

func (p *principals) seed(r permissions.Role) string { return filepath.Join(p.dir, string(r)+".nk") }

// serve starts the server, with a seed for each role.
func (p *principals) serve() (url string, inboxes map[permissions.Role]string, err error) {
	inboxes = make(map[permissions.Role]string)
	var users []permissions.User
	for _, r := range permissions.Roles() {
		key, err1 := nkeys.CreateUser()
		if err1 != nil {
			return "", nil, err1
		}
		seed, err1 := key.Seed()
		public, err2 := key.PublicKey()
		if err := errors.Join(err1, err2, os.WriteFile(p.seed(r), seed, 0o600)); err != nil {
			return "", nil, err
		}
		u, err := permissions.Of(messages.Pool{}, permissions.Principal{Role: r, NKey: public})
		if err != nil {
			return "", nil, err
		}
		users, inboxes[r] = append(users, u), u.InboxPrefix
	}
	file := filepath.Join(p.dir, "nats.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q, max_file_store: 8GB, max_memory_store: 256MB }\n", filepath.Join(p.dir, "store"))
	if err := os.WriteFile(file, []byte(text+permissions.Config(messages.Pool{}, users)), 0o600); err != nil {
		return "", nil, err
	}
	o := &server.Options{}
	if err := o.ProcessConfigFile(file); err != nil {
		return "", nil, err
	}
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	if err != nil {
		return "", nil, err
	}
	s.Start()
	p.ends = append(p.ends, func(context.Context) error {
		s.Shutdown()
		s.WaitForShutdown()
		return nil
	})
	if !s.ReadyForConnections(patience) {
		return "", nil, errors.New("the server is not ready")
	}
	return s.ClientURL(), inboxes, nil
}

func (p *principals) start(ctx context.Context, r permissions.Role, cfg jetstream.Config, of func(*jetstream.Pool) (service, error)) error {
	b, err := jetstream.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, func(context.Context) error { b.Close(); return nil })
	s, err := of(b)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	p.ends = append(p.ends, s.Stop)
	select {
	case <-s.Started():
		return nil
	case <-s.Stopped():
		return fmt.Errorf("stopped: %w", s.Err())
	case <-time.After(patience):
		return fmt.Errorf("the %s does not start within %s", r, patience)
	}
}

func (p *principals) stop(ctx context.Context) error {
	var errs []error
	for _, end := range slices.Backward(p.ends) {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}

// denied are the lines of the log about what a part was not allowed to do.
func (p *principals) denied() error {
	var errs []error
	for line := range strings.Lines(p.log.text()) {
		if low := strings.ToLower(line); strings.Contains(low, "permission") || strings.Contains(low, "violation") {
			errs = append(errs, errors.New(strings.TrimSpace(line)))
		}
	}
	return errors.Join(errs...)
}
