package binding_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mulligan/examples/shop/binding"
	"mulligan/examples/shop/data"
	"mulligan/examples/shop/faults"
	"mulligan/examples/shop/serve"
	"mulligan/examples/shop/shopclient"
	"mulligan/examples/shop/store"
	"mulligan/examples/shop/tools"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop answers what a test says, and remembers what it was asked.
type shop struct {
	output  string
	isError bool
	err     error
	asked   []string
}

func (s *shop) Call(_ context.Context, run, call, key, name string, input []byte) (string, bool, error) {
	s.asked = []string{run, call, key, name, string(input)}
	return s.output, s.isError, s.err
}

func offered(t *testing.T, c binding.Config) map[string]*tool.Tool {
	t.Helper()
	list, err := binding.Tools(c)
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*tool.Tool)
	for _, one := range list {
		byName[one.Name()] = one
	}
	return byName
}

func TestOfferedTools(t *testing.T) {
	with := offered(t, binding.Config{Shop: &shop{}})
	without := offered(t, binding.Config{Shop: &shop{}, NoSchemas: true})
	if len(with) != 30 || len(without) != 30 {
		t.Fatalf("%d and %d tools", len(with), len(without))
	}
	for _, s := range tools.Tools() {
		spec := with[s.Name].Spec()
		if spec.Queue != s.Domain || string(spec.Effect) != s.Effect || string(spec.Schema) != string(s.Schema) || spec.Description != s.Description {
			t.Errorf("%s is offered as %+v", s.Name, spec)
		}
		spec.Schema = nil
		if bare := without[s.Name].Spec(); bare.Schema != nil || bare.Effect != spec.Effect || bare.Queue != spec.Queue {
			t.Errorf("%s is offered without a schema as %+v", s.Name, bare)
		}
	}
	if with["retail/get_order_details"].Spec().Effect != messages.ReadOnly || with["airline/book_reservation"].Spec().Effect != messages.Unsafe {
		t.Error("the effects are not those of readers and writers")
	}
}

// A tool that an agent made up is answered by the shop, as the recorded one did.
func TestAlsoOffered(t *testing.T) {
	db, err := store.Load(data.Small())
	if err != nil {
		t.Fatal(err)
	}
	server := tools.New(store.NewRuns(db, 10), nil)
	also := []string{"retail/made up", "retail/think", "airline/", "retail/made up"}
	list := offered(t, binding.Config{Shop: direct{server}, Also: also})
	if len(list) != 32 {
		t.Fatalf("%d tools", len(list))
	}
	if spec := list["retail/made up"].Spec(); spec.Queue != "retail" || spec.Effect != messages.Unsafe || spec.Schema != nil {
		t.Errorf("offered as %+v", spec)
	}
	e := list["retail/made up"].Execute(t.Context(), tool.Call{ID: "c", Input: []byte(`{}`)}, tool.Limits{})
	if e.Failure == nil || string(e.Failure.Body) != "Unknown action made up" || e.Failure.Ambiguous {
		t.Errorf("the answer is %+v", e.Failure)
	}
}

// direct asks a shop without a network.
type direct struct{ shop *tools.Shop }

func (d direct) Call(_ context.Context, run, call, key, name string, input []byte) (string, bool, error) {
	a, err := d.shop.Do(tools.Request{Run: run, Call: call, Key: key, Tool: name, Input: input})
	return a.Output, a.IsError, err
}

func TestToolsNamesWhatIsWrong(t *testing.T) {
	for want, c := range map[string]binding.Config{
		"Shop is nil":                         {},
		`"search" has no domain of the shop`:  {Shop: &shop{}, Also: []string{"search"}},
		`"hotel/x" has no domain of the shop`: {Shop: &shop{}, Also: []string{"hotel/x"}},
		"tool name":                           {Shop: &shop{}, Also: []string{"retail/" + strings.Repeat("x", 600)}},
	} {
		if _, err := binding.Tools(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestWhatTheShopIsAsked(t *testing.T) {
	s := &shop{output: "out"}
	think := offered(t, binding.Config{Shop: s})["retail/think"]
	for _, c := range []struct {
		call tool.Call
		want string
	}{
		{tool.Call{ID: "id", Ref: "ref", Run: messages.NamedRun("my run/1"), Key: "key", Input: []byte("{ }")}, "my run/1|ref|key|retail/think|{ }"},
		{tool.Call{ID: "id", Run: messages.UnnamedRun("01a22ced-3e72-7ecf-a797-2b64ac2f9074"), Key: "id", Input: []byte("{}")}, "id|id|id|retail/think|{}"},
	} {
		e := think.Execute(t.Context(), c.call, tool.Limits{})
		if got := strings.Join(s.asked, "|"); got != c.want || e.Failure != nil || string(e.Output.Body) != "out" {
			t.Errorf("asked %s, got %+v", got, e)
		}
	}
}

func TestFailures(t *testing.T) {
	gone := errors.New("EOF")
	for name, c := range map[string]struct {
		shop shop
		want tool.Failure
	}{
		"the tool's own": {shop{output: "Error: \xff\n", isError: true}, tool.Failure{Code: messages.CodeToolError, Text: "Error: \xff\n"}},
		"nothing said":   {shop{isError: true}, tool.Failure{Code: messages.CodeToolError, Text: `Tool "retail/think" failed without a text`}},
		"429": {
			shop{err: &shopclient.RefusedError{Status: 429, RetryAfter: 7 * time.Second, Text: "slow"}},
			tool.Failure{Code: messages.CodeRateLimited, Text: "shop refused (HTTP 429): slow", NothingDone: true, RetryAfter: 7 * time.Second},
		},
		"503": {
			shop{err: &shopclient.RefusedError{Status: 503, Text: "busy"}},
			tool.Failure{Code: messages.CodeUnavailable, Text: "shop refused (HTTP 503): busy", NothingDone: true},
		},
		"nobody there": {
			shop{err: &shopclient.RefusedError{Text: "connection refused", Err: gone}},
			tool.Failure{Code: messages.CodeUnavailable, Text: "shop not reached: connection refused", NothingDone: true},
		},
		"not sent": {
			shop{err: &shopclient.RejectedError{Text: "input"}},
			tool.Failure{Code: messages.CodeInvalidArguments, Text: "shop not asked: input", NotExecuted: true},
		},
		"413": {
			shop{err: &shopclient.RejectedError{Status: 413, Text: "large"}},
			tool.Failure{Code: messages.CodeInvalidArguments, Text: "shop rejected the request (HTTP 413): large", NotExecuted: true},
		},
		"no shop": {
			shop{err: &shopclient.RejectedError{Status: 404, Text: "no reason given"}},
			tool.Failure{Code: messages.CodeToolError, Text: "shop rejected the request (HTTP 404): no reason given"},
		},
		"lost answer": {
			shop{err: &shopclient.AmbiguousError{Err: gone}},
			tool.Failure{Code: messages.CodeConnectionLost, Text: "no answer from the shop, which may have executed the tool: EOF", Ambiguous: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := offered(t, binding.Config{Shop: &c.shop})["retail/think"].Execute(t.Context(), tool.Call{ID: "c", Input: []byte("{}")}, tool.Limits{})
			f, want := e.Failure, c.want
			if f == nil || f.Code != want.Code || f.Text != want.Text || f.Ambiguous != want.Ambiguous || f.NotExecuted != want.NotExecuted ||
				f.NothingDone != want.NothingDone || f.RetryAfter != want.RetryAfter {
				t.Errorf("got %+v", f)
			}
			if c.shop.output != "" && string(f.Body) != c.shop.output {
				t.Errorf("the body is %q", f.Body)
			}
		})
	}
}

// Every fault of a real shop, as a worker sees it. What began and was not
// answered is ambiguous, whether the tool was executed or not.
func TestFaultsOfTheShop(t *testing.T) {
	for kind, want := range map[faults.Kind]struct {
		code      messages.Code
		ambiguous bool
	}{
		faults.None:        {"", false},
		faults.TimeOut:     {messages.CodeTimeout, true},
		faults.Silent:      {messages.CodeTimeout, true},
		faults.Dropped:     {messages.CodeConnectionLost, true},
		faults.RateLimited: {messages.CodeRateLimited, false},
		faults.Unavailable: {messages.CodeUnavailable, false},
		faults.StoreRace:   {messages.CodeToolError, false},
	} {
		t.Run(string(kind), func(t *testing.T) {
			client := shopclient.New(serving(t, fate(kind)))
			defer client.Close()
			limits := tool.Limits{Grace: 10 * time.Second}
			if kind == faults.TimeOut || kind == faults.Silent {
				limits.Timeout = 50 * time.Millisecond
			}
			e := offered(t, binding.Config{Shop: client})["airline/send_certificate"].Execute(t.Context(),
				tool.Call{ID: "c", Input: []byte(`{"user_id": "bo_sample_2002", "amount": 1}`)}, limits)
			switch {
			case e.Abandoned != nil:
				t.Error("the tool did not end with its time-out")
			case want.code == "" && e.Failure != nil:
				t.Errorf("failed: %v", e.Failure)
			case want.code != "" && (e.Failure == nil || e.Failure.Code != want.code || e.Failure.Ambiguous != want.ambiguous):
				t.Errorf("got %+v", e.Failure)
			}
		})
	}
}

// fate is what always happens.
type fate faults.Kind

func (f fate) Next(string) (faults.Kind, error) { return faults.Kind(f), nil }

// serving starts a real shop whose every execution has the same fate.
func serving(t *testing.T, fates serve.Fates) (url string) {
	t.Helper()
	db, err := store.Load(data.Small())
	if err != nil {
		t.Fatal(err)
	}
	s, err := serve.New(serve.Config{FaultTimeout: time.Minute}, tools.New(store.NewRuns(db, 10), nil), fates, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(s.Handler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return server.URL
}
