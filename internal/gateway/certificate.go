package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Certificate is what a gateway shows to who connects over TLS. It is read
// again when its files change, so that a renewed one needs no restart. Safe for
// concurrent use.
type Certificate struct {
	cert, key string // files

	mu      sync.Mutex
	pair    *tls.Certificate
	changed [2]time.Time // of the files, when they were last looked at
}

// LoadCertificate reads a certificate, with those of its authorities behind it,
// and its key, both PEM.
func LoadCertificate(cert, key string) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key}
	if _, err := c.fresh(); err != nil {
		return nil, err
	}
	return c, nil
}

// fresh reads the files if they are other ones than before. Where they cannot be
// used, the pair that was read before stays, and the error comes once for each
// change.
func (c *Certificate) fresh() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, err1 := os.Stat(c.cert)
	two, err2 := os.Stat(c.key)
	if err := errors.Join(err1, err2); err != nil {
		return c.pair, c.once([2]time.Time{}, err)
	}
	now := [2]time.Time{one.ModTime(), two.ModTime()}
	if c.pair != nil && now == c.changed {
		return c.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return c.pair, c.once(now, fmt.Errorf("certificate %s with the key %s: %w", c.cert, c.key, err))
	}
	c.pair, c.changed = &pair, now
	return c.pair, nil
}

func (c *Certificate) once(now [2]time.Time, err error) error {
	if c.pair != nil && c.changed == now {
		return nil
	}
	c.changed = now
	return err
}

// config is that of the listener: TLS 1.2 or later.
func (c *Certificate) config(log *slog.Logger) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := c.fresh()
		if err != nil {
			log.Error("the new certificate of the gateway cannot be used; the one before it stays", "error", err)
		}
		return pair, nil
	}}
}
