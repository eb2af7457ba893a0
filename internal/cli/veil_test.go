package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/internal/memory"
	"mulligan/internal/secrets"
	"mulligan/pkg/messages"
)

// first ends a program with the first that it says.
type first struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	stop func()
}

func (f *first) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
	return f.buf.Write(p)
}

func (f *first) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buf.String()
}

// TestNoSecretIsSaid gives every program every secret, at every entrance that
// it has, while there is no broker to go to, and reads all that comes out.
func TestNoSecretIsSaid(t *testing.T) {
	const secret = "opensesame-47"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	broken, key := write("broken.nk", "SU"+secret+"\n"), write("key.txt", secret+"\n")
	creds := write("user.creds", "-----BEGIN NATS USER JWT-----\n"+secret+"\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\nSU"+secret+"\n------END USER NKEY SEED------\n")
	file := write("bad.yaml", "tokn: "+secret+"\n")
	const nowhere = "127.0.0.1:1"
	entrances := map[string]struct{ env, args []string }{
		"a token":              {args: []string{"--server", "nats://" + nowhere, "--token", secret}},
		"a token elsewhere":    {env: []string{"MULLIGAN_TOKEN=" + secret}, args: []string{"--server", "nats://" + nowhere}},
		"an address":           {args: []string{"--server", "nats://joe:" + secret + "@" + nowhere}},
		"a token in one":       {args: []string{"--server", "nats://" + secret + "@" + nowhere + ",tls://joe:" + secret + "@" + nowhere}},
		"an address elsewhere": {env: []string{"MULLIGAN_SERVER=nats://joe:" + secret + "@" + nowhere}},
		"a broken address":     {args: []string{"--server", "nats://joe:" + secret + "%@" + nowhere + ":port"}},
		"another scheme":       {args: []string{"--server", "redis://joe:" + secret + "@" + nowhere}},
		"a broken seed":        {args: []string{"--server", "nats://" + nowhere, "--nkey", broken}},
		"broken credentials":   {args: []string{"--server", "nats://" + nowhere, "--creds", creds}},
		"a typing error":       {env: []string{"MULLIGAN_CONFIG=" + file}},
	}
	programs := map[string]struct {
		main Program
		args []string
	}{
		"mulligan": {Mulligan, []string{"tools"}}, "coordinator": {Coordinator, nil}, "worker": {Worker, []string{"--builtin"}}, "reflector": {Reflector, nil},
		"a reflector with a model": {Reflector, []string{"--llm-url", "http://example.test/v1", "--llm-model", "m", "--llm-key-file", key, "--llm-redact", secret}},
		"an address of a model":    {Reflector, []string{"--llm-url", "http://joe:" + secret + "@example.test/v1", "--llm-model", "m"}},
	}
	for name, p := range programs {
		for entrance, e := range entrances {
			for _, format := range []string{"json", "text"} {
				ctx, stop := context.WithCancelCause(t.Context())
				out := &first{stop: func() { stop(errInterrupted) }}
				env := append([]string{"HOME=" + dir, "MULLIGAN_LLM_KEY=" + secret}, e.env...)
				args := append(append(append([]string{}, p.args...), e.args...), "--log-level", "debug", "--log-format", format)
				p.main(ctx, IO{In: strings.NewReader(""), Out: out, Err: out, Dir: dir, Env: env}, args)
				if text := out.String(); strings.Contains(text, secret) || text == "" {
					t.Errorf("%s, %s: says %q", name, entrance, text)
				}
				stop(nil)
			}
		}
	}
}

// What tools and models said stands in logs at all levels, and their secrets do not.
func TestLogsHoldNoSecret(t *testing.T) {
	const secret = "opensesame-47"
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		a := newApp("x", IO{Err: &out, Env: []string{"MULLIGAN_TOKEN=to\"ken-1234"}})
		a.logging = logging{level: "debug", format: format, lvl: slog.LevelDebug}
		if err := a.veil.withholdLike([]string{`card \d+`}); err != nil {
			t.Fatal(err)
		}
		log := a.logger(slog.LevelDebug).With("who", "token="+secret)
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(t.Context(), level, "dial postgres://joe:"+secret+"@db", "error", errors.New("Authorization: Bearer "+secret),
				slog.Group("input", "text", `{"password":"`+secret+`"}`), "said", "to\"ken-1234", "paid", "card 4711")
		}
		a.say("%v", fmt.Errorf("tool said: api_key=%s", secret))
		for _, s := range []string{secret, `ken-1234`, "4711"} {
			if strings.Contains(out.String(), s) {
				t.Errorf("%s: %q is in\n%s", format, s, out.String())
			}
		}
		if n := strings.Count(out.String(), "dial postgres://"); n != 4 {
			t.Errorf("%s: %d of 4 lines are there:\n%s", format, n, out.String())
		}
	}
}

// A story is told without what looks like a secret, in both forms.
func TestAStoryHoldsNoSecret(t *testing.T) {
	const secret = "opensesame-47"
	b := memory.New(memory.Config{Lease: time.Minute})
	call := messages.Call{ID: messages.NewCallID(), Run: messages.NamedRun("r"), Tool: "dial", Queue: "default", Lane: messages.LaneNormal, Effect: messages.Unsafe, Key: "k"}
	m, err := b.Names().EncodeFailure(messages.Failure{
		Call: call, Input: messages.Text(`{"host":"db","password":"` + secret + `"}`), Output: messages.Text("x"), Code: messages.CodeToolError,
		Error: "postgres://joe:" + secret + "@db: refused", Executed: true, At: time.Now().UTC(),
	})
	if err == nil {
		_, err = b.PutOnce(t.Context(), m)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"text", "json"} {
		var out bytes.Buffer
		a := newApp("mulligan", IO{Out: &out, Err: &out})
		a.output = output
		if err := a.tell(t.Context(), b, call.ID); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Contains(text, secret) || strings.Count(text, secrets.Withheld) < 2 || output == "json" && !json.Valid(out.Bytes()) {
			t.Errorf("%s:\n%s", output, text)
		}
	}
}
