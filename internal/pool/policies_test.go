package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/jetstream"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// governed is a pool whose tools all fail, by policies of their own.
type governed struct {
	*testing.T
	client *client.Client
	broker *jetstream.Pool
}

// govern starts a pool with this document. Each tool fails with a text that
// promises that trying again helps, and is in the queue that its name begins with.
func govern(t *testing.T, document string, names ...string) *governed {
	t.Helper()
	var failing []*tool.Tool
	for _, name := range names {
		queue := "default"
		if q, _, ok := strings.Cut(name, "/"); ok {
			queue = q
		}
		failing = append(failing, tool.New(name, fails, tool.Queue(queue), tool.Effect(messages.Unsafe)))
	}
	p, err := Start(t.Context(), Config{Tools: failing, Coordinators: 2, Reflectors: 2, Document: json.RawMessage(document)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p) })
	b, err := p.Connect(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(b, client.Config{By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		b.Close()
	})
	return &governed{T: t, client: c, broker: b}
}

func fails(context.Context, map[string]any) (string, error) {
	return "", errors.New("503 Service Unavailable")
}

func (g *governed) call(name string, change ...func(*messages.Submission)) messages.Result {
	g.Helper()
	s := messages.Submission{Call: messages.NewCallID(), Tool: name, Run: "of " + name, Input: []byte(`{"id": 1}`)}
	for _, f := range change {
		f(&s)
	}
	r, err := g.client.Call(g.Context(), s)
	if err != nil {
		g.Fatal(err)
	}
	return r
}

// decision is what was decided on dispatch n of a call that has ended.
func (g *governed) decision(r messages.Result, n int) messages.Decision {
	g.Helper()
	m, err := g.broker.Get(g.Context(), g.broker.Names().DecisionSubject(r.Run, r.Call, n))
	if err != nil {
		g.Fatal(err)
	}
	d, err := messages.DecodeDecision(m.Body)
	if err != nil {
		g.Fatal(err)
	}
	return d
}

func (g *governed) failure(r messages.Result, n int) messages.Failure {
	g.Helper()
	m, err := g.broker.Get(g.Context(), g.broker.Names().FailureSubject(r.Run, r.Call, n))
	if err != nil {
		g.Fatal(err)
	}
	f, err := messages.DecodeFailure(m.Body)
	if err != nil {
		g.Fatal(err)
	}
	return f
}

const everyField = `{
	"pool": {"jitter": 0, "initial_backoff_ms": 1, "breaker": "off"},
	"queues": {"some": {"include_tools": ["some/in"]}, "slow": {"initial_backoff_ms": 3, "multiplier": 4, "max_backoff_ms": 20}},
	"tools": {
		"none": {"strategy": "none"},
		"once": {"max_retries": 1},
		"excluded": {"exclude_tools": ["excluded"]},
		"noop": {"reflectors": ["noop"]},
		"prompted": {"max_retries": 0, "prompt_template": "{tool_name} said {error}"},
		"stopped": {"max_retries": 1},
		"hopeful": {"max_retries": 1, "retry_critical": true},
		"careful": {"max_retries": 1},
		"trusted": {"max_retries": 1, "allow_substance": true},
		"harmless": {"max_retries": 0, "effect": "read_only"},
		"random": {"max_retries": 1, "initial_backoff_ms": 400, "jitter": 1}
	},
	"rules": [
		{"name": "critical", "when": "tool in ['stopped', 'hopeful']", "recoverable": true, "severity": "critical", "cause": "all is lost"},
		{"name": "another-object", "when": "tool in ['careful', 'trusted']", "cause": "the wrong one", "patch": [{"op": "replace", "path": "/id", "value": 2}]}
	]}`

// Every field of the policies does what docs/policies.md says, in a pool: what
// concerns humans, breakers and budgets is tested where they are.
func TestS2_6_EveryFieldOfThePoliciesShows(t *testing.T) {
	g := govern(t, everyField, "none", "once", "excluded", "noop", "prompted", "stopped", "hopeful", "careful", "trusted", "harmless", "random",
		"plain", "some/in", "some/out", "slow/search")
	attempts := func(name string, want int, reason string) messages.Result {
		t.Helper()
		r := g.call(name)
		if r.Attempts != want || !strings.Contains(r.Reason, reason) || r.Status == messages.Succeeded {
			t.Errorf("%s: %d attempts, want %d; %s: %q", name, r.Attempts, want, r.Status, r.Reason)
		}
		return r
	}
	attempts("plain", 4, "max retries (3) exceeded")
	attempts("none", 1, "503")
	attempts("once", 2, "max retries (1) exceeded")
	attempts("excluded", 1, `recovery is switched off for tool "excluded"`)
	attempts("some/in", 4, "max retries (3) exceeded")
	attempts("some/out", 1, `recovery is switched off for tool "some/out"`)
	if r := attempts("noop", 1, "503"); g.decision(r, 0).Rule != "" {
		t.Errorf("noop: decided by rule %s", g.decision(r, 0).Rule)
	}
	if r := attempts("prompted", 1, "max retries (0) exceeded"); r.Guidance != "prompted said 503 Service Unavailable" {
		t.Errorf("guidance %q", r.Guidance)
	}
	attempts("stopped", 1, "critical failure without a correction")
	attempts("hopeful", 2, "max retries (1) exceeded")
	if r := attempts("careful", 1, "high-severity failure with correction available"); r.Code != messages.CodeAskUser {
		t.Errorf("a change of substance to an unsafe tool: %s", r.Code)
	}
	if f := g.failure(attempts("trusted", 2, ""), 1); string(f.Input.Inline) != `{"id":2}` {
		t.Errorf("the correction was not applied: %s", f.Input.Inline)
	}
	slow := attempts("slow/search", 4, "max retries (3) exceeded")
	for n, want := range []time.Duration{3, 12, 20} {
		if d := g.decision(slow, n).Action; d.Delay.Duration() != want*time.Millisecond {
			t.Errorf("delay %d is %v, want %d ms", n, d.Delay.Duration(), want)
		}
	}
	if d := g.decision(attempts("plain", 4, ""), 2).Action; d.Delay.Duration() != 4*time.Millisecond {
		t.Errorf("the third delay of a tool without a policy of its own: %v", d.Delay.Duration())
	}
	if d := g.decision(attempts("random", 2, ""), 0).Action; d.Delay.Duration() >= 400*time.Millisecond {
		t.Errorf("nothing of the delay is random: %v", d.Delay.Duration())
	}
	if f := g.failure(attempts("harmless", 1, ""), 0); f.Call.Effect != messages.ReadOnly {
		t.Errorf("the effect of the policy is not that of the call: %s", f.Call.Effect)
	}
}

// A call may have its own way where it concerns nobody else, and is refused
// where it does.
func TestACallBringsItsOwnPolicy(t *testing.T) {
	g := govern(t, `{"pool": {"jitter": 0, "initial_backoff_ms": 1}, "tools": {"t": {"max_retries": 1}}}`, "t")
	own := func(policy string) func(*messages.Submission) {
		return func(s *messages.Submission) { s.Policy = json.RawMessage(policy) }
	}
	if r := g.call("t"); r.Attempts != 2 {
		t.Errorf("%+v", r)
	}
	if r := g.call("t", own(`{"max_retries":2}`)); r.Attempts != 3 {
		t.Errorf("%+v", r)
	}
	if r := g.call("t", own(`{"strategy":"none"}`)); r.Attempts != 1 {
		t.Errorf("%+v", r)
	}
	for policy, says := range map[string]string{`{"effect":"read_only"}`: "effect is the operator's to set", `{"max_retris":1}`: "did you mean", `{"max_retries":-1}`: "max retries -1"} {
		refused, err := g.client.Submit(t.Context(), []messages.Submission{{Tool: "t", Input: []byte(`{}`), Policy: json.RawMessage(policy)}})
		if err != nil || len(refused) != 1 || refused[0].Code != messages.CodeBadCall || !strings.Contains(refused[0].Text, says) {
			t.Errorf("%s: %+v, %v", policy, refused, err)
		}
	}
}

// A change holds everywhere within a second, while calls go on: on a machine that
// is held up not every time, but time and again.
func TestS2_6_AChangeOfThePoliciesHoldsWithinASecond(t *testing.T) {
	const document = `{"pool": {"jitter": 0, "initial_backoff_ms": 1, "breaker": "off", "max_retries": %d}}`
	g := govern(t, fmt.Sprintf(document, 0), "t")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var load sync.WaitGroup
	for range 2 {
		load.Go(func() {
			for ctx.Err() == nil {
				if _, err := g.client.Call(ctx, messages.Submission{Tool: "t", Input: []byte(`{}`)}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	inTime := 0
	for change := 1; inTime < 3; change++ {
		if change > 20 {
			t.Fatal("calls that began more than a second after a change followed the older policies, nearly every time")
		}
		retries := 1 + change%3
		if _, err := g.client.SetPolicies(t.Context(), messages.PolicyRequest{
			Document: json.RawMessage(fmt.Sprintf(document, retries))}); err != nil {
			t.Fatal(err)
		}
		set := time.Now()
		var late time.Duration      // when the last call that followed the older ones began
		for same := 0; same < 10; { // by any of the reflectors
			begun := time.Since(set)
			if r := g.call("t"); r.Attempts == retries+1 {
				same++
				continue
			}
			if same, late = 0, begun; late > patience {
				t.Fatalf("a call that began %v after the change followed the older policies", late)
			}
		}
		t.Logf("%d retries hold; the last call that followed the older policies began %v after the change", retries, late)
		if late <= time.Second {
			inTime++
		}
	}
	end()
	load.Wait()
}

// Policies outlive the pool's processes, and a document of another start
// replaces them.
func TestPoliciesOutliveAPool(t *testing.T) {
	dir := t.TempDir()
	retries := func(document string) int {
		t.Helper()
		cfg := Config{Dir: dir, Tools: []*tool.Tool{tool.New("t", fails)}}
		if document != "" {
			cfg.Document = json.RawMessage(document)
		}
		p, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, p)
		b, err := p.Connect(t.Context(), "test")
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		c, err := client.New(b, client.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		r, err := c.Call(t.Context(), messages.Submission{Tool: "t", Input: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		return r.Attempts - 1
	}
	for _, start := range []struct {
		document string
		want     int
	}{{`{"pool":{"max_retries":1,"initial_backoff_ms":1}}`, 1}, {``, 1}, {`{"pool":{"max_retries":0}}`, 0}, {``, 0}} {
		if got := retries(start.document); got != start.want {
			t.Errorf("started with %q: %d retries, want %d", start.document, got, start.want)
		}
	}
}
