package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"mulligan/internal/calls"
	"mulligan/internal/catalogue"
	"mulligan/internal/story"
	"mulligan/pkg/messages"
)

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// problemIn reads an answer that has to be a problem.
func problemIn(t *testing.T, a answer, status int, code messages.Code) problem {
	t.Helper()
	p := decode[problem](t, a.body)
	if a.status != status || p.Status != status || p.Code != code || a.header.Get("Content-Type") != problemType {
		t.Fatalf("status %d %s, want %d %s: %s", a.status, p.Code, status, code, a.body)
	}
	if p.Type != problemNamespace+string(code) || p.Title != http.StatusText(status) || p.Detail == "" || p.RequestID == "" || p.RequestID != a.header.Get(headerRequestID) {
		t.Fatalf("incomplete: %s", a.body)
	}
	return p
}

func TestACallIsWaitedForOrLeft(t *testing.T) {
	s := serve(t, nil)
	a := s.ask("POST", "/v1/calls?wait=60", `{"tool":"upper","ref":"r1","labels":{"a":"b"},"input":{"key":"k1","text":"hello"}}`)
	r := decode[calls.Result](t, a.body)
	if a.status != 200 || r.Status != messages.Succeeded || r.Output == nil || *r.Output != "HELLO" || r.Ref != "r1" || r.Labels["a"] != "b" || r.Run != "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a.header.Get("Preference-Applied") != "wait=60" {
		t.Errorf("preference %q", a.header.Get("Preference-Applied"))
	}

	a = s.ask("POST", "/v1/calls", `{"tool":"held","run":"day/1","ref":"r2","input":{"key":"left"}}`)
	left := decode[accepted](t, a.body)
	if a.status != 202 || left.Run != "day/1" || left.Ref != "r2" || a.header.Get("Location") != left.Location {
		t.Fatalf("%d %s", a.status, a.body)
	}
	until(t, "the tool runs", func() bool { return shared.ran.count("left") > 0 })
	a = s.ask("GET", left.Location, "", "Prefer", "wait=1")
	if st := decode[callState](t, a.body); a.status != 200 || st.State != story.Running || st.Result != nil || st.Now == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	close(shared.ran.gate("left"))
	for _, path := range []string{left.Location, "/v1/calls/day%2F1/" + left.Call} { // a name may stand for its token
		a = s.ask("GET", path+"?wait=60", "")
		if st := decode[callState](t, a.body); st.State != story.Ended || st.Result == nil || *st.Result.Output != "let go" || st.Result.Run != "day/1" {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	problemIn(t, s.ask("GET", "/v1/calls/other/"+left.Call, ""), 404, messages.CodeNotFound)
	problemIn(t, s.ask("GET", "/v1/calls/day%2F1/"+messages.NewCallID()+"?wait=1", ""), 404, messages.CodeNotFound)
	problemIn(t, s.ask("GET", "/v1/calls/day%2F1/nothing", ""), 400, codeBadParameter)
}

// The location of a call without a run can be followed too.
func TestTheLocationOfACallWithoutARun(t *testing.T) {
	s := serve(t, nil)
	for _, key := range []string{"", "alone"} {
		var headers []string
		if key != "" {
			headers = []string{headerKey, key + t.Name()}
		}
		left := decode[accepted](t, s.ask("POST", "/v1/calls", `{"tool":"upper","input":{"key":"alone","text":"x"}}`, headers...).body)
		a := s.ask("GET", left.Location+"?wait=60", "")
		if st := decode[callState](t, a.body); st.Result == nil || *st.Result.Output != "X" || st.Run != "" {
			t.Fatalf("%s: %d %s", left.Location, a.status, a.body)
		}
	}
}

func TestRefusedCalls(t *testing.T) {
	s := serve(t, nil)
	p := problemIn(t, s.ask("POST", "/v1/calls", `{"tool":"uper","ref":"mine","input":{}}`), 422, messages.CodeUnknownTool)
	if p.Ref != "mine" || p.Call == "" || !strings.Contains(p.Detail, "upper") {
		t.Errorf("%+v", p)
	}
	p = problemIn(t, s.ask("POST", "/v1/calls", `{"tool":"upper","inputs":{}}`), 400, messages.CodeBadCall)
	if !strings.Contains(p.Detail, "field inputs is not known") {
		t.Errorf("%+v", p)
	}
	problemIn(t, s.ask("POST", "/v1/calls", `{"tool":"upper","deadline":"2001-01-01T00:00:00Z","input":{}}`), 409, messages.CodeDeadlinePassed)
	if p := problemIn(t, s.ask("POST", "/v1/calls?wait=soon", `{}`), 400, codeBadParameter); p.Field != "wait" || p.Value != "soon" {
		t.Errorf("%+v", p)
	}
	if p := problemIn(t, s.ask("POST", "/v1/calls?wat=1", `{}`), 400, codeBadParameter); p.Field != "wat" {
		t.Errorf("%+v", p)
	}
}

// A key stands for one request: however often and at whatever gateway it comes,
// at the same time too, the call runs once and all get its result.
func TestAKeyRunsACallOnce(t *testing.T) {
	one, two := serve(t, nil), serve(t, nil)
	const body = `{"tool":"once","input":{"key":"keyed","text":"once"}}`
	answers := make([]calls.Result, 24)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			s := []*served{one, two}[i%2]
			a := s.ask("POST", "/v1/calls?wait=60", body, headerKey, "order-1")
			if a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
				return
			}
			answers[i] = decode[calls.Result](t, a.body)
		})
	}
	wg.Wait()
	for _, r := range answers {
		if r.Call != answers[0].Call || r.Status != messages.Succeeded {
			t.Fatalf("%+v and %+v", answers[0], r)
		}
	}
	if n := shared.ran.count("keyed"); n != 1 {
		t.Fatalf("it ran %d times", n)
	}
	p := problemIn(t, one.ask("POST", "/v1/calls", strings.Replace(body, `"text":"once"`, `"text":"more"`, 1), headerKey, "order-1"), 422, codeKeyReused)
	if p.Field != headerKey {
		t.Errorf("%+v", p)
	}
	problemIn(t, one.ask("POST", "/v1/calls", body, headerKey, strings.Repeat("k", 256)), 400, codeBadParameter)
	if a := one.ask("POST", "/v1/calls?wait=60", body, headerKey, "order-2"); a.status != 200 || shared.ran.count("keyed") != 2 {
		t.Fatalf("another key: %d, ran %d times", a.status, shared.ran.count("keyed"))
	}
}

// Who goes away while the call runs finds it again with the key.
func TestAKeyComesBackToACallThatRuns(t *testing.T) {
	s := serve(t, nil)
	const body = `{"tool":"held","input":{"key":"again"}}`
	first := decode[accepted](t, s.ask("POST", "/v1/calls?wait=1", body, headerKey, "again-1").body)
	until(t, "the tool runs", func() bool { return shared.ran.count("again") > 0 })
	close(shared.ran.gate("again"))
	r := decode[calls.Result](t, s.ask("POST", "/v1/calls?wait=60", body, headerKey, "again-1").body)
	if r.Call != first.Call || *r.Output != "let go" || shared.ran.count("again") != 1 {
		t.Fatalf("%+v, then %+v, ran %d times", first, r, shared.ran.count("again"))
	}
}

func TestStoriesWithholdSecrets(t *testing.T) {
	s := serve(t, nil)
	r := decode[calls.Result](t, s.ask("POST", "/v1/calls?wait=60", `{"tool":"leak","run":"leaks","input":{"key":"l"}}`).body)
	a := s.ask("GET", "/v1/calls/leaks/"+r.Call+"/story", "")
	st := decode[story.Story](t, a.body)
	if a.status != 200 || st.Call != r.Call || len(st.Dispatches) == 0 || st.End == nil || strings.Contains(a.body, "sk-abcdef") {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

func TestACallIsCancelled(t *testing.T) {
	s := serve(t, nil)
	left := decode[accepted](t, s.ask("POST", "/v1/calls", `{"tool":"held","run":"ends","input":{"key":"cancelled"}}`).body)
	until(t, "the tool runs", func() bool { return shared.ran.count("cancelled") > 0 })
	a := s.ask("POST", left.Location+"/cancel", `{"reason":"not needed"}`)
	if c := decode[cancelled](t, a.body); a.status != 200 || c.Call != left.Call || c.Run != "ends" || c.EndedBefore != "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	st := decode[callState](t, s.ask("GET", left.Location+"?wait=60", "").body)
	if st.Result == nil || st.Result.Status != messages.Cancelled || !strings.Contains(st.Result.Reason, "not needed") {
		t.Fatalf("%+v", st)
	}
	if c := decode[cancelled](t, s.ask("POST", left.Location+"/cancel", "").body); c.EndedBefore != "cancelled" {
		t.Fatalf("%+v", c)
	}
	problemIn(t, s.ask("POST", left.Location+"/cancel", `{"reasons":"x"}`), 400, codeBroken)
}

func TestToolsAreListed(t *testing.T) {
	s := serve(t, nil)
	var names []string
	for _, tl := range decode[[]catalogue.Tool](t, s.ask("GET", "/v1/tools", "").body) {
		names = append(names, tl.Name+" "+tl.State)
	}
	if got, want := fmt.Sprint(names), "[asks live elsewhere live forbidden live hangs live held live leak live once live upper live]"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}
