package jetstream_test

import (
	"strings"
	"testing"
	"time"

	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// TestAddresses: what is no address of a server is told before anything looks
// for it, and no password is repeated.
func TestAddresses(t *testing.T) {
	for address, says := range map[string]string{
		"foo://bar":                                `unknown scheme "foo"; give nats, tls, ws or wss`,
		"nats://a:1,http://b:2":                    `unknown scheme "http"`,
		"nats://":                                  "is no address",
		"nats://joe:opensesame@host:port":          `server "nats://[withheld]@host:port" is no address`,
		"nats://joe:open%sesame@host:1":            "is no address",
		"nats://joe:opensesame@127.0.0.1:1":        "connect to nats://[withheld]@127.0.0.1:1",
		"tls://opensesame@127.0.0.1:1,127.0.0.1:2": "connect to tls://[withheld]@127.0.0.1:1,127.0.0.1:2",
		"nats://joe:open,sesame@127.0.0.1:1":       "is no address",
		"ws://joe:opensesame@127.0.0.1:1":          "connect to ws://[withheld]@127.0.0.1:1",
		"joe:opensesame@127.0.0.1:1":               "connect to [withheld]@127.0.0.1:1",
	} {
		p, err := jetstream.Connect(t.Context(), jetstream.Config{URL: address, Lease: time.Second, Prefix: messages.DefaultPrefix})
		if err == nil {
			p.Close()
			t.Errorf("%s: connected", address)
			continue
		}
		if text := err.Error(); !strings.Contains(text, says) || strings.Contains(text, "sesame") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
