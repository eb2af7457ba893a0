package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/pflag"

	"mulligan/internal/gateway"
	"mulligan/internal/lifecycle"
	"mulligan/jetstream"
)

// gatewayOptions say whether a process serves the pool over HTTP, and to whom.
type gatewayOptions struct{ address, tokens, cert, key string }

func (o *gatewayOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.address, "gateway", "", "address of the HTTP gateway, such as 127.0.0.1:7070; a port alone is on the loopback interface; empty for none")
	f.StringVar(&o.tokens, "gateway-tokens", "", "file of the tokens that may ask the gateway; an address that others can reach needs one")
	f.StringVar(&o.cert, "gateway-cert", "", "file of the gateway's certificate (PEM), for TLS; read again when it changes; needs --gateway-key")
	f.StringVar(&o.key, "gateway-key", "", "file of the key of --gateway-cert")
}

// config is that of the gateway, but for its broker; nil where there is none.
func (o *gatewayOptions) config(log *slog.Logger) (*gateway.Config, error) {
	if o.address == "" {
		if o.tokens+o.cert+o.key != "" {
			return nil, usage("--gateway-tokens, --gateway-cert and --gateway-key go with --gateway, which says where it listens")
		}
		return nil, nil
	}
	if (o.cert == "") != (o.key == "") {
		return nil, usage("--gateway-cert and --gateway-key go together: give the certificate and its key")
	}
	cfg := &gateway.Config{Address: listenAddress(o.address), Log: log.With("part", "gateway")}
	if o.tokens != "" {
		var err error
		if cfg.Tokens, err = gateway.LoadTokens(o.tokens); err != nil {
			return nil, notFound(fmt.Errorf("--gateway-tokens: %w", err))
		}
	}
	if o.cert != "" {
		var err error
		if cfg.Certificate, err = gateway.LoadCertificate(o.cert, o.key); err != nil {
			return nil, notFound(fmt.Errorf("--gateway-cert: %w", err))
		}
	}
	if err := cfg.CheckAddress(); err != nil {
		return nil, usage("--gateway: %w", err)
	}
	return cfg, nil
}

// listenAddress puts a port alone on the loopback interface.
func listenAddress(s string) string {
	if _, _, err := net.SplitHostPort(s); err != nil {
		return "127.0.0.1:" + s
	}
	if s[0] == ':' {
		return "127.0.0.1" + s
	}
	return s
}

// besides runs a gateway beside what it is a client of: it starts after it, and
// stops before it, so that what waits there is still answered.
func besides(s service, cfg *gateway.Config, connect func(context.Context) (*jetstream.Pool, func(), error)) service {
	if cfg == nil {
		return s
	}
	return lifecycle.New(func(ctx context.Context, started func()) (err error) {
		if err := s.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()
		select {
		case <-s.Started():
		case <-s.Stopped():
			return s.Err()
		case <-ctx.Done():
			return nil
		}
		broker, closeBroker, err := connect(ctx)
		if err != nil {
			return err
		}
		defer closeBroker()
		return serveGateway(ctx, s, *cfg, broker, started)
	})
}

func serveGateway(ctx context.Context, s service, cfg gateway.Config, broker *jetstream.Pool, started func()) (err error) {
	cfg.Broker = broker
	cfg.Healthy = func() error {
		if !broker.Connected() {
			return errors.New("not connected to NATS")
		}
		return nil
	}
	g, err := gateway.New(cfg)
	if err != nil {
		return err
	}
	if err := g.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop(context.WithoutCancel(ctx))) }()
	select {
	case <-g.Started():
		started()
	case <-g.Stopped():
		return withCode(exitUsage, fmt.Errorf("--gateway: %w", g.Err()))
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.Stopped():
		return s.Err()
	case <-g.Stopped():
		return g.Err()
	}
}
