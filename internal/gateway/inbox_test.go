package gateway

import (
	"strings"
	"testing"

	"mulligan/internal/inbox"
	"mulligan/pkg/messages"
)

// A call that asks a human is listed, answered once, and tells who was first.
func TestTheInbox(t *testing.T) {
	s := serve(t, nil)
	park := func(run string) accepted {
		return decode[accepted](t, s.ask("POST", "/v1/calls", `{"tool":"asks","run":"`+run+`","policy":{"ask_user":"park"},"input":{"key":"i","order":"ORD-101"}}`).body)
	}
	asked := func(run string) []inbox.Question {
		return decode[[]inbox.Question](t, s.ask("GET", "/v1/inbox?run="+run, "").body)
	}
	c := park("inbox-1")
	until(t, "it asks", func() bool { return len(asked("inbox-1")) == 1 })
	q := asked("inbox-1")[0]
	if q.Call != c.Call || q.Tool != "asks" || q.Proposed == nil || len(q.Answers) == 0 {
		t.Fatalf("%+v", q)
	}
	path := strings.Replace(c.Location, "/v1/calls/", "/v1/inbox/", 1) + "/answer"
	for _, b := range []struct {
		body   string
		status int
		code   messages.Code
	}{
		{`{"answer":"maybe"}`, 422, messages.CodeBadCall},
		{`{"answer":"edit"}`, 422, messages.CodeBadCall},
		{`{"answer":"retry","input":{}}`, 422, messages.CodeBadCall},
		{`{"answer":"edit","input":{},"input_text":"{}"}`, 422, messages.CodeBadCall},
		{`{"answer":"retry","why":"x"}`, 400, codeBroken},
		{`{"answer":"retry","dispatch":7}`, 409, messages.CodeNotParked},
	} {
		problemIn(t, s.ask("POST", path, b.body), b.status, b.code)
	}
	a := s.ask("POST", path, `{"answer":"edit","input":{"key":"i","order":"ORD-1001"},"reason":"a typing error"}`)
	if g := decode[answerGiven](t, a.body); a.status != 200 || !g.Counts || g.Call != c.Call || g.Answer != messages.AnswerEdit {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if p := problemIn(t, s.ask("POST", path, `{"answer":"fail"}`), 409, messages.CodeAnswered); !strings.Contains(p.Detail, "gateway:local") {
		t.Errorf("%+v", p)
	}
	st := decode[callState](t, s.ask("GET", c.Location+"?wait=60", "").body)
	if st.Result == nil || st.Result.Status != messages.Succeeded || *st.Result.Output != "refunded ORD-1001" {
		t.Fatalf("%+v", st)
	}
	quiet := decode[accepted](t, s.ask("POST", "/v1/calls", `{"tool":"upper","run":"inbox-1","input":{"key":"n","text":"x"}}`).body)
	s.ask("GET", quiet.Location+"?wait=60", "")
	problemIn(t, s.ask("POST", strings.Replace(quiet.Location, "/v1/calls/", "/v1/inbox/", 1)+"/answer", `{"answer":"retry"}`), 409, messages.CodeNotParked)
}
