package cli

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/httptool"
)

// webhookOptions say whether, and how, webhooks are told that runs are over.
type webhookOptions struct {
	on     bool
	secret string
	allow  []string
}

func (w *webhookOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&w.on, "webhooks", false, "tell the webhooks that runs name when they are over; private addresses are refused")
	f.StringVar(&w.secret, "webhook-secret-file", "", "file with the secret that what webhooks are sent is signed with; it is sent to nobody")
	f.StringSliceVar(&w.allow, "webhook-allow", nil, "private addresses that webhooks may have all the same, such as 10.0.0.0/8")
}

// mostAnswer is how much of what a webhook answers is read, in bytes.
const mostAnswer = 64 << 10

// notify posts a run as JSON; nil where webhooks are off.
func (w *webhookOptions) notify() (func(ctx context.Context, address, id string, body []byte) error, error) {
	if !w.on {
		if w.secret != "" || len(w.allow) > 0 {
			return nil, usage("--webhook-secret-file and --webhook-allow belong to --webhooks, which is not given")
		}
		return nil, nil
	}
	r := httptool.Request{Method: "POST", AllowAddresses: w.allow, Headers: map[string]string{"Content-Type": "application/json"}}
	secret, err := w.readSecret()
	if err != nil {
		return nil, err
	}
	check := r
	check.URL = "https://example.com"
	if err := check.Validate(); err != nil {
		return nil, usage("--webhook-allow: %w", err)
	}
	return func(ctx context.Context, address, id string, body []byte) error {
		of := r
		of.URL = address
		if len(secret) > 0 {
			of.Headers = maps.Clone(r.Headers)
			sign(of.Headers, secret, id, time.Now(), body)
		}
		post, err := httptool.New("webhook", messages.Keyed, of, mostAnswer)
		if err != nil {
			return fmt.Errorf("webhook: %w", err)
		}
		_, err = post(ctx, tool.Call{Key: id, Input: body})
		return err
	}, nil
}

// readSecret gives the bytes that signatures are made with: those of the file,
// or those that its text stands for when it begins as the specification has it.
func (w *webhookOptions) readSecret() ([]byte, error) {
	if w.secret == "" {
		return nil, nil
	}
	b, err := os.ReadFile(w.secret)
	if err != nil {
		return nil, usage("--webhook-secret-file: %w", err)
	}
	text := strings.TrimSpace(string(b))
	encoded, ok := strings.CutPrefix(text, "whsec_")
	secret := []byte(text)
	if ok {
		if secret, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, usage("--webhook-secret-file %s: what follows whsec_ is no base64: %w", w.secret, err)
		}
	}
	if len(secret) < leastSecret {
		return nil, usage("--webhook-secret-file %s: the secret is %d bytes long, and whoever sees a message could guess it; give at least %d, as `openssl rand -base64 32` makes them",
			w.secret, len(secret), leastSecret)
	}
	return secret, nil
}

const leastSecret = 24

// sign adds the headers of a message of Standard Webhooks 1.0, by which its
// receiver knows who sent it and that it is not an old one.
func sign(h map[string]string, secret []byte, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	h["Webhook-Id"], h["Webhook-Timestamp"] = id, stamp
	h["Webhook-Signature"] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
