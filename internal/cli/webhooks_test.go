package cli

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestWebhooksArePostedWithKeyAndSignatureAndNotToPrivateAddresses(t *testing.T) {
	var got *http.Request
	var body []byte
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(status)
	}))
	defer server.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	post, err := (&webhookOptions{on: true, secret: secret, allow: []string{"127.0.0.0/8"}}).notify()
	if err != nil {
		t.Fatal(err)
	}
	if err := post(t.Context(), server.URL+"/runs", "r@1", []byte(`{"run":"r"}`)); err != nil {
		t.Fatal(err)
	}
	if got.Method != http.MethodPost || got.URL.Path != "/runs" || string(body) != `{"run":"r"}` ||
		!strings.Contains(got.Header.Get("Idempotency-Key"), "r@1") {
		t.Fatalf("%s %s %v: %s", got.Method, got.URL, got.Header, body)
	}
	at, err := strconv.ParseInt(got.Header.Get("Webhook-Timestamp"), 10, 64)
	if err != nil || got.Header.Get("Webhook-Id") != "r@1" {
		t.Fatalf("%v: %v", err, got.Header)
	}
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	sign(want, key, "r@1", time.Unix(at, 0), body)
	if got.Header.Get("Webhook-Signature") != want["Webhook-Signature"] {
		t.Errorf("signed %v", got.Header)
	}
	for name, values := range got.Header {
		if strings.Contains(strings.Join(values, " "), "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") {
			t.Errorf("the secret is sent in %s", name)
		}
	}
	status = http.StatusServiceUnavailable
	if err := post(t.Context(), server.URL, "r@1", []byte(`{}`)); err == nil {
		t.Error("a webhook that answers 503 has taken it")
	}
	got = nil
	post, err = (&webhookOptions{on: true}).notify()
	if err != nil {
		t.Fatal(err)
	}
	if err := post(t.Context(), server.URL, "r@1", []byte(`{}`)); err == nil || got != nil {
		t.Errorf("a private address was told: %v", err)
	}
	if _, err := (&webhookOptions{allow: []string{"10.0.0.0/8"}}).notify(); err == nil {
		t.Error("what belongs to --webhooks was taken without it")
	}
	if _, err := (&webhookOptions{on: true, allow: []string{"nonsense"}}).notify(); err == nil {
		t.Error("a prefix that is none was taken")
	}
}

// The example is that of the specification of Standard Webhooks.
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := make(map[string]string)
	sign(h, key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if h["Webhook-Signature"] != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" || h["Webhook-Timestamp"] != "1614265330" {
		t.Errorf("%v", h)
	}
}

func TestASecretOfWebhooksThatCannotBeUsed(t *testing.T) {
	for _, text := range []string{"", "short", "whsec_$", "whsec_c2hvcnQ="} {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (&webhookOptions{on: true, secret: path}).notify(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// `mulligan up` takes the same flags, and gives them to its pool.
func TestUpTakesTheFlagsOfWebhooks(t *testing.T) {
	for _, c := range []struct {
		args      []string
		tells, ok bool
	}{
		{nil, false, true},
		{[]string{"--webhooks", "--webhook-allow", "10.0.0.0/8"}, true, true},
		{[]string{"--webhook-allow", "10.0.0.0/8"}, false, false},
		{[]string{"--webhooks", "--webhook-secret-file", filepath.Join(t.TempDir(), "none")}, false, false},
	} {
		o := &upOptions{storeLimit: "1GiB", slots: 1, lease: ownLease}
		f := pflag.NewFlagSet("up", pflag.ContinueOnError)
		o.serving.flags(f)
		o.webhooks.flags(f)
		if err := f.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		cfg, err := o.config(newApp("mulligan", IO{}))
		if (err == nil) != c.ok || (cfg.Notify != nil) != c.tells {
			t.Errorf("%v: tells %v, %v", c.args, cfg.Notify != nil, err)
		}
	}
}
