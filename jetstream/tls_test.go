package jetstream_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}}
	a.file, _, a.key = a.sign(a.cert)
	return a
}

// sign writes a certificate and its key to files; without a key of its own yet
// the authority signs itself.
func (a *authority) sign(c *x509.Certificate) (certFile, keyFile string, key *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	by := a.key
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return certFile, keyFile, key
}

// issue makes a certificate for a server at an address, or for a client.
func (a *authority) issue(address string) (certFile, keyFile string) {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "issued"}, IPAddresses: []net.IP{net.ParseIP(address)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	certFile, keyFile, _ = a.sign(c)
	return certFile, keyFile
}

// encrypted is the single server of deploy/nats with TLS, which asks clients
// for a certificate.
func encrypted(t *testing.T, a *authority, address string) *server.Server {
	t.Helper()
	certFile, keyFile := a.issue(address)
	return deployed(t, "single.conf", map[string]string{"MULLIGAN_NATS_TOKEN": "the-token"}, func(o *server.Options) {
		cfg, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: certFile, KeyFile: keyFile, CaFile: a.file, Verify: true, Timeout: 2})
		if err != nil {
			t.Fatal(err)
		}
		o.TLS, o.TLSVerify, o.TLSConfig, o.TLSTimeout = true, true, cfg, 10
	})
}

// A pool works over TLS with a certificate on either side, and nobody connects
// who cannot check the server or is not known to it.
func TestTLS(t *testing.T) {
	a, foreign := newAuthority(t), newAuthority(t)
	s := encrypted(t, a, "127.0.0.1")
	cert, key := a.issue("127.0.0.1")
	foreignCert, foreignKey := foreign.issue("127.0.0.1")
	good := jetstream.Config{URL: s.ClientURL(), Token: "the-token", CAFile: a.file, CertFile: cert, KeyFile: key}
	p := connect(t, good)
	provision(t, p, jetstream.TopologyConfig{})
	mustPut(t, p, result(p, "r", "x"))

	wrongName := encrypted(t, a, "127.0.0.2")
	plain := deployed(t, "single.conf", map[string]string{"MULLIGAN_NATS_TOKEN": "the-token"}, nil)
	for what, change := range map[string]func(*jetstream.Config){
		"roots of the system":             func(c *jetstream.Config) { c.CAFile = "" },
		"another authority":               func(c *jetstream.Config) { c.CAFile = foreign.file },
		"no certificate of the client":    func(c *jetstream.Config) { c.CertFile, c.KeyFile = "", "" },
		"a client's certificate by other": func(c *jetstream.Config) { c.CertFile, c.KeyFile = foreignCert, foreignKey },
		"a server of another name":        func(c *jetstream.Config) { c.URL = wrongName.ClientURL() },
		"a server without TLS":            func(c *jetstream.Config) { c.URL = plain.ClientURL() },
		"a wrong token":                   func(c *jetstream.Config) { c.Token = "other" },
	} {
		cfg := good
		change(&cfg)
		if p, err := jetstream.Connect(t.Context(), cfg); !errors.Is(err, jetstream.ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
			if p != nil {
				p.Close()
			}
		}
	}
}

// An address that says tls:// is never spoken to in the clear.
func TestTLSIsNotTalkedDown(t *testing.T) {
	s := natstest.Server(t)
	url := "tls://" + strings.TrimPrefix(s.ClientURL(), "nats://")
	if p, err := jetstream.Connect(t.Context(), jetstream.Config{URL: url, Token: s.Token()}); !errors.Is(err, jetstream.ErrUnreachable) {
		t.Errorf("%v", err)
		if p != nil {
			p.Close()
		}
	}
}
