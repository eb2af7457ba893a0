package gateway

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"mulligan/internal/runstate"
	"mulligan/pkg/messages"
)

// view is the run that an answer shows.
func view(t *testing.T, a answer) runstate.View {
	t.Helper()
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return decode[runstate.View](t, a.body)
}

// A run is declared, has progress while its calls go on, is closed and then over.
func TestARunFromItsDeclarationToItsEnd(t *testing.T) {
	s := serve(t, nil)
	const spec = `{"labels":{"team":"travel"},"expected":3,"policy":{"max_retries":0},"budget":{"calls":3}}`
	for range 2 { // the same may be said again
		if v := view(t, s.ask("PUT", "/v1/runs/tour", spec)); v.Name != "tour" || v.State != runstate.Open || v.By != "gateway:local" || v.Spec.Labels["team"] != "travel" || v.Spec.Budget.Calls != 3 {
			t.Fatalf("%+v", v)
		}
	}
	if p := problemIn(t, s.ask("PUT", "/v1/runs/tour", `{"labels":{"team":"sales"}}`), 409, messages.CodeRunDiffers); p.Field == "" {
		t.Error("it does not say what differs")
	}
	for _, call := range []string{
		`{"tool":"upper","run":"tour","input":{"key":"tour","text":"a"}}`,
		`{"tool":"forbidden","run":"tour","input":{"key":"tour"}}`,
	} {
		if a := s.ask("POST", "/v1/calls?wait=60", call); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	s.ask("POST", "/v1/calls", `{"tool":"held","run":"tour","input":{"key":"tour-held"}}`)
	v := view(t, s.ask("GET", "/v1/runs/tour", ""))
	if p := v.Progress; p.Ended != 2 || p.Queued != 1 || p.Total != 3 || p.Sure || v.Left == nil {
		t.Errorf("%+v, left %v", p, v.Left)
	}
	if c := v.Counts; c.Calls != 2 || c.Outcomes[messages.Succeeded] != 1 || c.Tools["upper"][messages.Succeeded] != 1 || c.Tools["forbidden"][messages.Failed] != 1 {
		t.Errorf("%+v", c)
	}
	if v := view(t, s.ask("GET", "/v1/runs/tour?quick=true", "")); v.Counts != nil || v.Progress.Ended != 2 {
		t.Errorf("quick: %+v", v)
	}
	if v := view(t, s.ask("POST", "/v1/runs/tour/close", `{"calls":3}`)); v.State != runstate.Closed || *v.Closed.Calls != 3 {
		t.Errorf("closed: %+v", v)
	}
	if v := view(t, s.ask("POST", "/v1/runs/tour/close", "")); *v.Closed.Calls != 3 {
		t.Errorf("closed again: %+v", v)
	}
	problemIn(t, s.ask("POST", "/v1/calls", `{"tool":"upper","run":"tour","input":{"key":"late"}}`), 409, messages.CodeRunClosed)
	close(shared.ran.gate("tour-held"))
	until(t, "the run is over", func() bool {
		v = view(t, s.ask("GET", "/v1/runs/tour", ""))
		return v.State == runstate.Over
	})
	if v.Counts.Calls != 3 || v.Progress.Total != 3 || !v.Progress.Sure || v.Left != nil {
		t.Errorf("over: %+v %+v", v.Counts, v.Progress)
	}
}

func TestRunsAreListedByPages(t *testing.T) {
	s := serve(t, nil)
	var want []string
	for i := range 5 {
		s.ask("PUT", fmt.Sprintf("/v1/runs/listed-%d", i), `{"labels":{"of":"list","n":"`+fmt.Sprint(i%2)+`"}}`)
		want = append([]string{fmt.Sprint("listed-", i)}, want...)
	}
	s.ask("POST", "/v1/runs/listed-4/close", "")
	var got []string
	pages := 0
	for at := "/v1/runs?label=of%3Dlist&limit=2"; at != ""; pages++ {
		l := decode[runList](t, s.ask("GET", at, "").body)
		for _, v := range l.Runs {
			got = append(got, v.Name)
		}
		at = l.Next
	}
	if strings.Join(got, " ") != strings.Join(want, " ") || pages != 3 {
		t.Errorf("%d pages: %v, want %v", pages, got, want)
	}
	oldest := view(t, s.ask("GET", "/v1/runs/listed-1?quick=1", "")).Created.Format("2006-01-02T15:04:05.999999999Z07:00")
	for query, want := range map[string]string{
		"label=of,n%3D1":                      "listed-3 listed-1",
		"label=of%3Dlist,n%3D7":               "",
		"label=of&state=open":                 "listed-3 listed-2 listed-1 listed-0",
		"label=of&since=" + oldest:            "listed-4 listed-3 listed-2 listed-1",
		"label=of&before=listed-1":            "listed-0",
		"label=of&state=ended":                "",
		"label=of&since=2999-01-01T00:00:00Z": "",
	} {
		l := decode[runList](t, s.ask("GET", "/v1/runs?"+query, "").body)
		var got []string
		for _, v := range l.Runs {
			got = append(got, v.Name)
		}
		if strings.Join(got, " ") != want || l.Next != "" {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
	if l := decode[runList](t, s.ask("GET", "/v1/runs?label=of&state=closed,over,ended", "").body); len(l.Runs) != 1 || l.Runs[0].Name != "listed-4" {
		t.Errorf("closed: %+v", l.Runs)
	}
	for query, field := range map[string]string{"state=done": "state", "since=24h": "since", "limit=0": "limit", "before=nosuch": "before", "label=of&before=tour": "before"} {
		if p := problemIn(t, s.ask("GET", "/v1/runs?"+query, ""), 400, codeBadParameter); p.Field != field {
			t.Errorf("%s: field %q", query, p.Field)
		}
	}
}

func TestRunsThatCannotBe(t *testing.T) {
	s := serve(t, nil)
	problemIn(t, s.ask("GET", "/v1/runs/nowhere", ""), 404, messages.CodeNotFound)
	problemIn(t, s.ask("GET", "/v1/runs/nowhere?quick=perhaps", ""), 400, codeBadParameter)
	problemIn(t, s.ask("POST", "/v1/runs/nowhere/close", ""), 404, messages.CodeNotFound)
	problemIn(t, s.ask("GET", "/v1/runs/nowhere/results", ""), 404, messages.CodeNotFound)
	problemIn(t, s.ask("GET", "/v1/runs/nowhere/export", ""), 404, messages.CodeNotFound)
	problemIn(t, s.ask("GET", "/v1/runs/nowhere/export?wait=1", ""), 400, codeBadParameter)
	problemIn(t, s.ask("POST", "/v1/runs/nowhere/cancel", ""), 404, messages.CodeNotFound)
	problemIn(t, s.ask("POST", "/v1/runs/nowhere/close", `{"calls":-1}`), 422, messages.CodeBadRun)
	problemIn(t, s.ask("POST", "/v1/runs/nowhere/close", `{"call":1}`), 400, codeBroken)
	problemIn(t, s.ask("PUT", "/v1/runs/nowhere", `{"lables":{}}`), 400, codeBroken)
	for body, field := range map[string]string{
		`{"in_flight":-1}`:                    "in_flight",
		`{"webhook":"https://example.com"}`:   "webhook", // the pool of these tests tells none
		`{"deadline":"2001-01-01T00:00:00Z"}`: "deadline",
		`{"policy":{"effect":"read_only"}}`:   "policy",
	} {
		if p := problemIn(t, s.ask("PUT", "/v1/runs/nowhere", body), 422, messages.CodeBadRun); p.Field != field {
			t.Errorf("%s: field %q: %s", body, p.Field, p.Detail)
		}
	}
	if a := s.ask("DELETE", "/v1/runs/nowhere", ""); a.status != 405 || a.header.Get("Allow") != "GET, PUT" {
		t.Errorf("%d, allowed %s", a.status, a.header.Get("Allow"))
	}
}

// A batch declares its run before its calls and closes it behind them, whether
// it has a name or not, and whether somebody waits or not.
func TestABatchDeclaresItsRun(t *testing.T) {
	s := serve(t, nil)
	spec := "spec=" + url.QueryEscape(`{"labels":{"of":"batch"}}`)
	for i, prefer := range []string{"wait=60", "respond-async"} {
		for k, run := range []string{"", fmt.Sprintf("&run=declared-%d", i)} {
			key := fmt.Sprintf("declared-%d-%d", i, k)
			body := lines(3, key) + `{"tool":"nosuch","input":{}}` + "\n" + `{"tool":"upper","run":"another","input":{"key":"x"}}` + "\n"
			for again := range 2 { // the same request finds its run closed, and its calls in it
				a := s.ask("POST", "/v1/batches?"+spec+run, body, headerKey, key, "Prefer", prefer)
				at := a.header.Get("Content-Location")
				if a.status/100 != 2 || at == "" {
					t.Fatalf("%d %s: at %q", a.status, a.body, at)
				}
				v := view(t, s.ask("GET", at, ""))
				if v.State == runstate.Open || *v.Closed.Calls != 3 || v.Spec.Expected != 5 || v.Spec.Labels["of"] != "batch" || v.Progress.Total != 3 || !v.Progress.Sure {
					t.Fatalf("%s, time %d: %+v %+v", key, again, v, v.Progress)
				}
				if prefer == "wait=60" && v.Counts.Outcomes[messages.Succeeded] != 3 {
					t.Errorf("%s: %+v", key, v.Counts)
				}
			}
			problemIn(t, s.ask("POST", "/v1/batches?spec=%7B%7D"+run, body, headerKey, key, "Prefer", prefer), 422, codeKeyReused)
		}
	}
	problemIn(t, s.ask("POST", "/v1/batches?run=declared-0&spec=%7B%7D", lines(1, "differs")), 409, messages.CodeRunDiffers)
	problemIn(t, s.ask("POST", "/v1/batches?spec=x", lines(1, "unread")), 400, codeBroken)
	if n := shared.ran.count("differs-0") + shared.ran.count("unread-0"); n != 0 {
		t.Errorf("%d calls ran of batches that could not be declared", n)
	}
}

// A batch keeps back what its run would only refuse for now.
func TestABatchKeepsToInFlight(t *testing.T) {
	s := serve(t, nil)
	const n = 8
	spec := "spec=" + url.QueryEscape(`{"in_flight":2}`)
	a := s.ask("POST", "/v1/batches?run=narrow&"+spec, lines(n, "narrow"))
	if got := strings.Count(a.body, `"status":"succeeded"`); got != n {
		t.Errorf("%d of %d: %s", got, n, a.body)
	}
	problemIn(t, s.ask("POST", "/v1/batches?"+spec, lines(1, "narrow-left"), "Prefer", "respond-async"), 400, codeBadParameter)
	if p := (&batchRun{spec: &messages.RunSpec{InFlight: 2}}).places(); p != 2 {
		t.Errorf("%d lines are under way", p)
	}
	for _, spec := range []*messages.RunSpec{nil, {}, {InFlight: 2 * window}} {
		if p := (&batchRun{spec: spec}).places(); p != window {
			t.Errorf("%+v: %d lines are under way", spec, p)
		}
	}
}

// A batch that was not submitted as a whole leaves its run open, and the same
// request with the same key closes it.
func TestABatchThatIsNotSubmittedLeavesItsRunOpen(t *testing.T) {
	s := serve(t, nil)
	spec := "&run=unclosed&spec=" + url.QueryEscape(`{"in_flight":1}`)
	body := `{"tool":"held","input":{"key":"unclosed"}}` + "\n" + lines(1, "unclosed")
	s.ask("POST", "/v1/batches?wait=1"+spec, body, headerKey, "unclosed")
	if v := view(t, s.ask("GET", "/v1/runs/unclosed", "")); v.State != runstate.Open {
		t.Errorf("%+v", v)
	}
	close(shared.ran.gate("unclosed"))
	a := s.ask("POST", "/v1/batches?wait=60"+spec, body, headerKey, "unclosed")
	if v := view(t, s.ask("GET", "/v1/runs/unclosed", "")); v.State == runstate.Open || *v.Closed.Calls != 2 {
		t.Errorf("%+v: %s", v, a.body)
	}
}

func TestWhoMayDealWithRuns(t *testing.T) {
	s := serve(t, func(c *Config) {
		c.Tokens = tokens(t, "tokens:\n  - {name: a, token: "+tokenA+", tools: [upper], may: [declare, cancel]}\n  - {name: b, token: "+tokenB+"}\n")
	})
	a, b := *s, *s
	a.token, b.token = tokenA, tokenB
	for _, r := range []struct{ method, path, body string }{
		{"PUT", "/v1/runs/whose", `{}`}, {"POST", "/v1/runs/whose/close", ""}, {"POST", "/v1/batches?spec=%7B%7D", lines(1, "whose")},
	} {
		if p := problemIn(t, a.ask(r.method, r.path, r.body), 403, codeForbidden); !strings.Contains(p.Detail, "held to some tools") {
			t.Errorf("%s %s: %s", r.method, r.path, p.Detail)
		}
		if p := problemIn(t, b.ask(r.method, r.path, r.body), 403, codeForbidden); !strings.Contains(p.Detail, "[declare]") {
			t.Errorf("%s %s: %s", r.method, r.path, p.Detail)
		}
	}
	for _, path := range []string{"/v1/runs", "/v1/runs/whose"} {
		problemIn(t, a.ask("GET", path, ""), 403, codeForbidden)
	}
	if r := b.ask("GET", "/v1/runs", ""); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	problemIn(t, b.ask("GET", "/v1/runs/whose", ""), 404, messages.CodeNotFound)
}
