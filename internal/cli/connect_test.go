package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"mulligan/internal/natstest"
)

// A file that is not there is a mistake in the flags, and no reason to look for
// a server.
func TestAMissingFileOfTheConnectionIsAMistakeInTheFlags(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, p := range map[string]struct {
		program Program
		args    []string
	}{
		"mulligan":    {Mulligan, []string{"tools"}},
		"coordinator": {Coordinator, nil},
		"worker":      {Worker, []string{"--builtin"}},
		"reflector":   {Reflector, nil},
	} {
		for _, flags := range [][]string{{"--creds", missing}, {"--nkey", missing}, {"--tls-ca", missing}, {"--tls-cert", missing, "--tls-key", missing}} {
			var out, errs bytes.Buffer
			args := append(append(p.args[:len(p.args):len(p.args)], "--server", "nats://127.0.0.1:1"), flags...)
			code := p.program(t.Context(), IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: t.TempDir()}, args)
			if code != exitUsage || !strings.Contains(errs.String(), missing) {
				t.Errorf("%s %s: code %d, says %q", name, flags[0], code, errs.String())
			}
		}
	}
}

// Who says as whom to connect, and not where, is told that it would not count.
func TestAnIdentityWithoutAServer(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	for _, args := range [][]string{{"tools", "--token", "wrong"}, {"tools", "--context", "some", "--creds", "some.creds"}} {
		code := Mulligan(t.Context(), IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: dir, Env: []string{"HOME=" + dir}}, args)
		if code != exitUsage || !strings.Contains(errs.String(), args[len(args)-2]+" goes with --server") || strings.Contains(errs.String(), "wrong") {
			t.Errorf("%s: code %d, says %q", args, code, errs.String())
		}
		errs.Reset()
	}
}

// Who is not let in is told so, and with what to come; "does not answer" would
// send them to look for a broker that is there.
func TestWhoIsNotLetInIsToldWhatToShow(t *testing.T) {
	s := natstest.Server(t)
	for _, args := range [][]string{{"tools"}, {"tools", "--token", "wrong"}} {
		code, errs := atServer(t, s.ClientURL(), args)
		if code != exitUnreachable || !strings.Contains(errs, "does not let us in; give MULLIGAN_TOKEN") || strings.Contains(errs, "does not answer") {
			t.Errorf("%s: code %d, says %q", args, code, errs)
		}
	}
}

// A user that may read answers below a prefix of its own hears none elsewhere.
func TestWhoHearsNoAnswersIsToldOfTheInboxPrefix(t *testing.T) {
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
		Users: []*natsserver.User{{Username: "observer", Password: "pass", Permissions: &natsserver.Permissions{
			Subscribe: &natsserver.SubjectPermission{Allow: []string{"_I.observer.>"}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	url := strings.Replace(s.ClientURL(), "nats://", "nats://observer:pass@", 1)
	if code, errs := atServer(t, url, []string{"tools"}); code != exitUnreachable || !strings.Contains(errs, "needs --inbox-prefix") {
		t.Errorf("without its prefix: code %d, says %q", code, errs)
	}
	if code, errs := atServer(t, url, []string{"tools", "--inbox-prefix", "_I.observer"}); code != exitUnreachable || !strings.Contains(errs, "has no pool") {
		t.Errorf("with its prefix: code %d, says %q", code, errs)
	}
}

func atServer(t *testing.T, url string, args []string) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	dir := t.TempDir()
	code := Mulligan(t.Context(), IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: dir, Env: []string{"HOME=" + dir}}, append(args, "--server", url))
	return code, errs.String()
}
