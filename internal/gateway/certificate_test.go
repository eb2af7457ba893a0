package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issue writes a certificate of this machine, which signs itself, and its key.
// when is the time of change of both files.
func issue(t *testing.T, dir string, serial int64, when time.Time) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gateway"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, pool = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()
	put(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), when)
	put(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), when)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return cert, key, pool
}

func put(t *testing.T, path string, b []byte, when time.Time) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
}

// serial connects anew, checks the certificate against those of pool, and says
// which one was shown.
func serial(t *testing.T, s *served, pool *x509.CertPool) int64 {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.g.Address()+"/v1/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
}

// plainly asks without TLS.
func plainly(t *testing.T, s *served) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// A gateway with a certificate speaks TLS alone, takes up a renewed certificate
// while it runs, and keeps the one that it has where the new one is broken.
func TestTLS(t *testing.T) {
	dir, day := t.TempDir(), time.Now().Add(-24*time.Hour)
	cert, key, first := issue(t, dir, 1, day)
	s := serve(t, func(c *Config) {
		var err error
		if c.Certificate, err = LoadCertificate(cert, key); err != nil {
			t.Fatal(err)
		}
	})
	if n := serial(t, s, first); n != 1 {
		t.Errorf("certificate %d", n)
	}
	if status := plainly(t, s); status != http.StatusBadRequest {
		t.Errorf("without TLS: %d", status)
	}
	_, _, second := issue(t, dir, 2, day.Add(time.Hour))
	if n := serial(t, s, second); n != 2 {
		t.Errorf("after the renewal: certificate %d", n)
	}
	put(t, cert, []byte("nothing"), day.Add(2*time.Hour))
	for range 2 {
		if n := serial(t, s, second); n != 2 {
			t.Errorf("with a broken one: certificate %d", n)
		}
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if n := serial(t, s, second); n != 2 {
		t.Errorf("without a key: certificate %d", n)
	}
	if n := strings.Count(s.logged(), "cannot be used; the one before it stays"); n != 2 {
		t.Errorf("said %d times: %s", n, s.logged())
	}
	if _, err := LoadCertificate(cert, key); err == nil || !strings.Contains(err.Error(), "key.pem") {
		t.Errorf("%v", err)
	}
}

// A gateway that others can reach says that it speaks no TLS.
func TestAnAddressThatIsOpenWithoutTLSIsSaid(t *testing.T) {
	open := serve(t, func(c *Config) {
		c.Address, c.Tokens = "0.0.0.0:0", tokens(t, "tokens: [{name: a, token: "+tokenA+"}]")
	})
	if !strings.Contains(open.logged(), "speaks no TLS") {
		t.Errorf("%s", open.logged())
	}
	if s := serve(t, nil); strings.Contains(s.logged(), "speaks no TLS") {
		t.Errorf("%s", s.logged())
	}
}
