package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mulligan/internal/calls"
	"mulligan/internal/catalogue"
	"mulligan/internal/lifecycle"
	"mulligan/pkg/messages"
)

// place is a folder and a home for one run of a program.
type place struct {
	t   *testing.T
	dir string
	env []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	// natscontext reads the process's own environment.
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "home"))
	return &place{t: t, dir: dir, env: []string{"XDG_CONFIG_HOME=" + filepath.Join(dir, "home")}}
}

func (p *place) write(name, content string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// app gives the app after its flags were parsed and configured.
func (p *place) app(args ...string) (*app, error) {
	a := newApp("mulligan", IO{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Env: p.env, Dir: p.dir})
	root := mulliganTree(a)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return nil, err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return nil, err
	}
	return a, a.begin(cmd)
}

func TestFlagsWinOverEnvironmentOverFolderOverUser(t *testing.T) {
	p := newPlace(t)
	p.write("home/mulligan/mulligan.yaml", "server: nats://user\npool: user\ntls-ca: user.pem\nlog-level: error\n")
	p.write("mulligan.yaml", "server: nats://folder\npool: folder\ntls-ca: folder.pem\n")
	p.env = append(p.env, "MULLIGAN_SERVER=nats://env", "MULLIGAN_POOL=env", "MULLIGAN_SOMETHING_ELSE=1", "MULLIGAN_TLS_CA=")
	a, err := p.app("tools", "--server", "nats://flag")
	if err != nil {
		t.Fatal(err)
	}
	if a.conn.server != "nats://flag" || a.conn.pool != "env" || a.conn.ca != "folder.pem" || a.logging.level != "error" {
		t.Fatalf("server %s, pool %s, ca %s, level %s", a.conn.server, a.conn.pool, a.conn.ca, a.logging.level)
	}
}

func TestConfigurationNamesWhatCannotBeUsed(t *testing.T) {
	for content, want := range map[string]string{
		"sever: nats://x\n":       `"sever" is not known; did you mean "server"?`,
		"zebra: 1\n":              `"zebra" is not known; keys are the names of flags`,
		"slots: many\n":           `slots: "many" cannot be used`,
		"server: [a, b]\n":        "server: is a list; give one value",
		"server: {a: b}\n":        "server is a mapping",
		"server: 'x\n":            "configuration",
		"tools: [a.yaml, b.yaml]": "",
		"max-queued: 2\n":         "", // of another program
	} {
		p := newPlace(t)
		p.write("mulligan.yaml", content)
		_, err := p.app("run", "--embedded")
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", content, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != exitUsage):
			t.Errorf("%q: %v (code %d), want %s", content, err, exitCode(err), want)
		}
	}
}

func TestWhereAPoolIsLookedFor(t *testing.T) {
	const contextFile = "home/nats/context/prod.json"
	for _, tc := range []struct {
		name  string
		setup func(*place)
		args  []string
		where string
	}{
		{"flag", func(p *place) { p.env = append(p.env, "MULLIGAN_CONTEXT=prod") }, []string{"--server", "nats://me:secret@a:1"}, "nats://[withheld]@a:1"},
		{"environment", func(p *place) { p.env = append(p.env, "MULLIGAN_SERVER=nats://b:1") }, nil, "nats://b:1"},
		{"flag of the context over the environment", func(p *place) { p.env = append(p.env, "MULLIGAN_SERVER=nats://b:1") }, []string{"--context", "prod"}, "NATS context prod (nats://ctx:4222)"},
		{"the selected context", func(p *place) { p.write("home/nats/context.txt", "prod") }, nil, "NATS context prod (nats://ctx:4222)"},
		{"a running pool", func(p *place) { p.write(".mulligan/address.json", `{"url":"nats://127.0.0.1:7","token":"t"}`) }, nil, "mulligan up in "},
		{"a running pool elsewhere", func(p *place) { p.write("other/address.json", `{"url":"nats://127.0.0.1:7","token":"t"}`) }, []string{"--state", "other"}, "mulligan up in "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t)
			p.write(contextFile, `{"url":"nats://ctx:4222","user":"ann","password":"secret"}`)
			tc.setup(p)
			a, err := p.app(append([]string{"tools"}, tc.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := a.resolve()
			if err != nil || !strings.HasPrefix(got.where, tc.where) {
				t.Fatalf("%s, err %v; want %s", got.where, err, tc.where)
			}
			if strings.Contains(tc.name, "context") && got.cfg.URL != "nats://ann:secret@ctx:4222" {
				t.Fatalf("url %s", got.cfg.URL)
			}
		})
	}
	p := newPlace(t)
	a, err := p.app("tools")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.resolve(); exitCode(err) != exitUnreachable || !strings.Contains(err.Error(), "mulligan up") {
		t.Fatalf("nowhere: %v, code %d", err, exitCode(err))
	}
	if a, err = p.app("tools", "--server", "a", "--context", "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.resolve(); exitCode(err) != exitUsage {
		t.Fatalf("both: %v", err)
	}
}

func TestExitCodes(t *testing.T) {
	for want, err := range map[int]error{
		exitOK: nil, exitInternal: errors.New("x"), exitUsage: usage("x"), exitSome: quietly(exitSome), exitUnfinished: fmt.Errorf("x: %w", errWaitOver),
		exitUnreachable: fmt.Errorf("x: %w", messages.ErrNoResponder), exitNotFound: fmt.Errorf("x: %w", messages.ErrNotFound), exitInterrupted: errInterrupted,
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	if err := errors.Join(usage("x"), nil); exitCode(err) != exitUsage {
		t.Error("a joined error loses its code")
	}
}

func TestProgramsSpeakOfTheirUsage(t *testing.T) {
	for _, tc := range []struct {
		program Program
		args    string
		code    int
		says    string
	}{
		{Mulligan, "--help", exitOK, ""},
		{Mulligan, "run", exitUsage, "the file of calls is missing"},
		{Mulligan, "run a b", exitUsage, `"b" is too much`},
		{Mulligan, "run x.jsonl --order up", exitUsage, `--order "up"`},
		{Mulligan, "run x.jsonl --sequence call", exitUsage, `--sequence "call"`},
		{Mulligan, "run x.jsonl --window 0", exitUsage, "--window 0"},
		{Mulligan, "run x.jsonl --no-journal --journal y", exitUsage, "exclude each other"},
		{Mulligan, "run x.jsonl --tools y.yaml", exitUsage, "--embedded"},
		{Mulligan, "run x.jsonl --embedded --slots 0", exitUsage, "--slots 0"},
		{Mulligan, "run nowhere.jsonl", exitNotFound, "nowhere.jsonl"},
		{Mulligan, "call", exitUsage, "the tool and the JSON"},
		{Mulligan, "call echo", exitUsage, "the JSON of its arguments"},
		{Mulligan, "call echo {} --lane retry", exitUsage, `--lane "retry"`},
		{Mulligan, "call echo {} --deadline soon", exitUsage, `--deadline "soon"`},
		{Mulligan, "cancel", exitUsage, "one of the two"},
		{Mulligan, "cancel 7", exitUsage, "is not a UUID"},
		{Mulligan, "explain 7", exitUsage, "field call"},
		{Mulligan, "explain", exitUsage, "the id of the call is missing"},
		{Mulligan, "tools --log-level loud", exitUsage, `--log-level "loud"`},
		{Mulligan, "up --store-limit tiny", exitUsage, "--store-limit"},
		{Mulligan, "bench throughput --calls -1", exitUsage, "--calls -1"},
		{Mulligan, "nonsense", exitUsage, "unknown command"},
		{Mulligan, "runs gte x", exitUsage, `unknown command "gte" for "mulligan runs"; did you mean "get"?` + "\nsee mulligan runs --help"},
		{Mulligan, "failures x", exitUsage, `failures: "x" is too much; see mulligan failures --help`},
		{Mulligan, "tools", exitUnreachable, "no pool is given"},
		{Worker, "", exitUsage, "no tools"},
		{Worker, "--builtin", exitUnreachable, "no pool is given"},
		{Reflector, "--max-retries 2", exitUsage, "unknown flag: --max-retries"},
		{Coordinator, "--policy nowhere.yaml", exitNotFound, "nowhere.yaml"},
		{Mulligan, "up --policy nowhere.yaml", exitNotFound, "nowhere.yaml"},
		{Mulligan, "up --tools nowhere.yaml", exitNotFound, "nowhere.yaml"},
		{Worker, "--tools nowhere.yaml", exitNotFound, "nowhere.yaml"},
		{Mulligan, "call echo {} --embedded --tools nowhere.yaml", exitNotFound, "nowhere.yaml"},
		{Mulligan, "call echo {} --retries x", exitUsage, `"x" for "--retries" flag: invalid syntax`},
		{Mulligan, "policy check nowhere.yaml", exitNotFound, "nowhere.yaml"},
		{Mulligan, "policy check", exitUsage, "the file is missing"},
		{Mulligan, "policy show -o toml", exitUsage, `--output "toml"`},
		{Mulligan, "policy set x.yaml -o yaml", exitUsage, `--output "yaml"`},
		{Mulligan, "call echo {} --retries -2", exitUsage, "--retries -2 is negative"},
		{Mulligan, "run x.jsonl --retries -2", exitUsage, "--retries -2 is negative"},
		{Mulligan, "policy show", exitUnreachable, "no pool is given"},
		{Coordinator, "--replicas 2", exitUsage, "replicas 2"},
		{Coordinator, "--drain -1s", exitUsage, "--drain -1s"},
		{Reflector, "--drain 0s", exitUsage, "--drain 0s"},
		{Worker, "--builtin --drain -1s", exitUsage, "--drain -1s"},
		{Mulligan, "up --drain -1s", exitUsage, "--drain -1s"},
		{Mulligan, "answer edit x --input @.", exitUsage, "--input: read"},
		{Coordinator, "--pool Bad --server nats://127.0.0.1:1", exitUsage, `pool "Bad"`},
		{Coordinator, "version", exitOK, ""},
	} {
		p := newPlace(t)
		var out, errs bytes.Buffer
		code := tc.program(t.Context(), IO{In: strings.NewReader(""), Out: &out, Err: &errs, Env: p.env, Dir: p.dir}, strings.Fields(tc.args))
		if code != tc.code || !strings.Contains(errs.String(), tc.says) {
			t.Errorf("%q: code %d, says %q; want %d and %q", tc.args, code, errs.String(), tc.code, tc.says)
		}
	}
}

func TestABreakerNeedsTheNameOfATool(t *testing.T) {
	p := newPlace(t)
	var errs bytes.Buffer
	code := Mulligan(t.Context(), IO{In: strings.NewReader(""), Out: io.Discard, Err: &errs, Env: p.env, Dir: p.dir}, []string{"tools", "breaker", "", "--open"})
	if code != exitUsage || !strings.Contains(errs.String(), "the name of the tool is empty") {
		t.Errorf("code %d, says %q", code, errs.String())
	}
}

// Every command has a help with an example and the flag -o.
func TestEveryCommandHasHelpAndExample(t *testing.T) {
	for _, tree := range trees() {
		root := tree(newApp("x", IO{}))
		all := append(root.Commands(), root)
		for _, c := range root.Commands() {
			all = append(all, c.Commands()...)
		}
		for _, c := range all {
			if c.Name() == "completion" || c.Name() == "help" {
				continue
			}
			if c.Example == "" || c.Short == "" {
				t.Errorf("%s has no example or no description", c.CommandPath())
			}
			if c.InheritedFlags().Lookup("output") == nil && c.PersistentFlags().Lookup("output") == nil {
				t.Errorf("%s has no -o", c.CommandPath())
			}
		}
	}
}

func TestASubmissionFromFlags(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	o := callOptions{lane: "high", deadline: "10m", timeout: time.Second, labels: map[string]string{"a": "b"}, run: "r"}
	s, err := o.submission("t", []byte("{"), now)
	if err != nil || s.Deadline != now.Add(10*time.Minute) || s.Lane != messages.LaneHigh || string(s.Input) != "{" || s.Call == "" {
		t.Fatalf("%+v, %v", s, err)
	}
	o.deadline = "2031-01-01T00:00:00Z"
	if s, err = o.submission("t", nil, now); err != nil || s.Deadline.Year() != 2031 {
		t.Fatalf("%+v, %v", s, err)
	}
	o.timeout = -1
	if _, err = o.submission("t", nil, now); exitCode(err) != exitUsage {
		t.Fatalf("err %v", err)
	}
}

func TestTheCommandThatGoesOn(t *testing.T) {
	a := newApp("mulligan", IO{})
	a.args = []string{"run", "my calls.jsonl", "--restart", "--order", "done", "it's"}
	if got := a.again(); got != `mulligan run 'my calls.jsonl' --order done 'it'\''s'` {
		t.Fatal(got)
	}
}

func TestSummariesForPeople(t *testing.T) {
	s := calls.Summary{Submitted: 1234, Succeeded: 1200, Recovered: 7, Failed: 30, Unknown: 4, Refused: 1}
	if got := describe(s); got != "1,235 calls: 1,200 succeeded (7 of them recovered), 30 failed, 4 unknown, 1 refused" {
		t.Fatal(got)
	}
	if got := describe(calls.Summary{Submitted: 1, Succeeded: 1}); got != "1 call: 1 succeeded" {
		t.Fatal(got)
	}
}

type fakeEntries map[string]any

func (f fakeEntries) Entries(_ context.Context, _ messages.Bucket, filter string) ([]messages.Entry, error) {
	var out []messages.Entry
	for k, v := range f {
		if !strings.HasPrefix(k, strings.TrimSuffix(filter, ">")) {
			continue
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out = append(out, messages.Entry{Key: k, Value: b})
	}
	return out, nil
}

func TestToolsAreLiveLateOrWithdrawn(t *testing.T) {
	tl := func(name string, withdrawn bool) messages.Tool {
		return messages.Tool{Spec: messages.ToolSpec{Name: name}.WithDefaults(), Withdrawn: withdrawn}
	}
	var said []string
	warn := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	got, err := catalogue.Tools(t.Context(), fakeEntries{
		"tool.a": tl("a", false), "tool.b": tl("b", false), "tool.c": tl("c", true), "tool.d": tl("d", true), "tool.e": "garbage", "tool.f": messages.Tool{},
		"offer.x": messages.Offer{Worker: "x", Tools: []string{"a", "d"}}, "offer.y": messages.Offer{Worker: "y", Tools: []string{"a"}},
	}, warn)
	if err != nil {
		t.Fatal(err)
	}
	if len(said) != 2 || !strings.Contains(strings.Join(said, "\n"), "the entry tool.e cannot be read and is left out") {
		t.Errorf("of what cannot be read it said %q", said)
	}
	var text []string
	for _, e := range got {
		text = append(text, fmt.Sprintf("%s %s %v", e.Name, e.State, e.Workers))
	}
	if want := "a live [x y], b late [], c withdrawn [], d live [x]"; strings.Join(text, ", ") != want {
		t.Fatalf("%s, want %s", strings.Join(text, ", "), want)
	}
}

func TestHealth(t *testing.T) {
	s := lifecycle.New(func(ctx context.Context, started func()) error {
		started()
		<-ctx.Done()
		return nil
	})
	sick := errors.New("not connected to NATS")
	var ill error
	h := handler(newRegistry(), s, func() error { return ill })
	look := func(path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return fmt.Sprint(w.Code, " ", strings.SplitN(w.Body.String(), "\n", 2)[0])
	}
	check := func(path, want string) {
		t.Helper()
		if got := look(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	check("/healthz", "200 ok")
	check("/readyz", "503 not started yet")
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.Started()
	check("/readyz", "200 ready")
	ill = sick
	check("/readyz", "503 not connected to NATS")
	if got := look("/metrics"); !strings.HasPrefix(got, "200 # HELP") {
		t.Errorf("/metrics: %s", got)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if live := "\ngo_gc_heap_live_bytes "; !strings.Contains(w.Body.String(), live) {
		t.Errorf("/metrics does not tell what the last collection left: no %q", live)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("/healthz", "503 stopped")
	check("/readyz", "503 stopped")
}

func TestTheHTTPAddressIsOnTheLoopbackInterface(t *testing.T) {
	s := lifecycle.New(func(context.Context, func()) error { return nil })
	for _, address := range []string{"0", ":0", "127.0.0.1:0"} {
		w, err := startHTTP(address, newRegistry(), s, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(w.address(), "127.0.0.1:") {
			t.Errorf("%s listens on %s", address, w.address())
		}
		w.stop(newApp("x", IO{Err: io.Discard}).logger(slogQuiet))
	}
	if _, err := startHTTP("127.0.0.1:99999", newRegistry(), s, nil); exitCode(err) != exitUsage {
		t.Errorf("err %v", err)
	}
}

func TestOutputsOfACall(t *testing.T) {
	said, silent := "no\n", ""
	for _, tc := range []struct {
		result   calls.Result
		out, err string
		code     int
	}{
		{calls.Result{Status: messages.Failed, Output: &said, Reason: "it\nbroke", Attempts: 2, Call: "c1"}, "no\n", "failed after 2 attempts: it broke", exitSome},
		{calls.Result{Status: messages.Succeeded, Output: &said, Attempts: 1}, "no\n", "", exitOK},
		{calls.Result{Status: messages.Succeeded, Output: &silent, Attempts: 2, RecoveredBy: "rule"}, "", "recovered after 2 attempts: rule", exitOK},
		{calls.Result{Status: messages.Succeeded, OutputBase64: []byte{0xff}, Attempts: 1}, "\xff\n", "", exitOK},
		{calls.NotAccepted(messages.Submission{}, messages.CodeUnknownTool, "tool 'x' is not available"), "", "refused: tool 'x' is not available", exitSome},
	} {
		var o, e bytes.Buffer
		a := newApp("mulligan", IO{Out: &o, Err: &e})
		err := a.printResult(tc.result)
		if exitCode(err) != tc.code || o.String() != tc.out || !strings.Contains(e.String(), tc.err) {
			t.Errorf("%s: code %d, out %q, err %q", tc.result.Status, exitCode(err), o.String(), e.String())
		}
	}
}

func TestLogNamesTheUnitOfADuration(t *testing.T) {
	var b bytes.Buffer
	slog.New(logHandler(&b, "json", false, slog.LevelInfo)).Info("x", "after", 1500*time.Millisecond)
	if !strings.Contains(b.String(), `"after":"1.5s"`) {
		t.Errorf("got %s", b.String())
	}
}

// What a worker tells a tool is not meant for a mulligan that the tool starts.
func TestAToolsCallSetsNoFlag(t *testing.T) {
	p := newPlace(t)
	for _, name := range toldToTools {
		p.env = append(p.env, name+"=from-the-call")
	}
	p.env = append(p.env, "MULLIGAN_LANE=low")
	a := newApp("mulligan", IO{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Env: p.env, Dir: p.dir})
	cmd, rest, err := mulliganTree(a).Find([]string{"call"})
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = a.begin(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"run": "", "ref": "", "deadline": "", "lane": "low"} {
		if got := cmd.Flags().Lookup(name).Value.String(); got != want {
			t.Errorf("--%s is %q, want %q", name, got, want)
		}
	}
}
