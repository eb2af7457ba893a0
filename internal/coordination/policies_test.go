package coordination_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// policy sets the policies of the pool; text null takes them away.
func (r *rig) policy(text string, expect uint64) messages.PolicyReply {
	r.t.Helper()
	req := messages.PolicyRequest{Document: json.RawMessage(text), Expect: expect, By: "ops"}
	raw, err := r.admin.Request(r.t.Context(), messages.EndpointPolicy, must(messages.EncodeService(req)))
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return must(messages.DecodeService[messages.PolicyReply](raw))
}

func (r *rig) setPolicy(text string) uint64 {
	r.t.Helper()
	reply := r.policy(text, 0)
	if reply.Error != "" || reply.Revision == 0 {
		r.t.Fatalf("%+v", reply)
	}
	return reply.Revision
}

// policies are what CONTROL holds of them.
func (r *rig) policies() (messages.PolicyEntry, uint64) {
	r.t.Helper()
	e, err := r.admin.Load(r.t.Context(), messages.BucketControl, messages.PolicyKey)
	if errors.Is(err, messages.ErrNotFound) {
		return messages.PolicyEntry{}, 0
	}
	if err != nil {
		r.t.Fatal(err)
	}
	var p messages.PolicyEntry
	if err := json.Unmarshal(e.Value, &p); err != nil {
		r.t.Fatal(err)
	}
	return p, e.Revision
}

func TestPoliciesAreSetWithWhoAndWhenAndStay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		const text = `{"tools":{"t":{"max_retries":1}}}`
		revision := r.setPolicy(text)
		at := time.Now()
		m.stop()                          // time passes faster without it
		<-time.After(40 * 24 * time.Hour) // ages of everything in CONTROL
		if p, rev := r.policies(); string(p.Document) != text || p.By != "ops" || !p.At.Equal(at) || p.Version != messages.Version || rev != revision {
			t.Errorf("%+v, revision %d of %d", p, rev, revision)
		}
	})
}

func TestPoliciesThatCannotBeUsedChangeNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		revision := r.setPolicy(`{"pool":{"max_retries":1}}`)
		for text, says := range map[string]string{
			`{"pool":{"max_retries":-1}}`:                "max retries -1",
			`{"tools":{"t":{"max_retris":1}}}`:           "did you mean",
			`{"pool":{"effect":"read_only"}}`:            "effect is that of a tool",
			`{"rules":[{"name":"a","when":"nonsense"}]}`: "rules: rule 1 (a)",
			`{"hooks":[{"name":"a"}]}`:                   "hooks: hook 1 (a)",
			`7`:                                          "a document has pool",
		} {
			if reply := r.policy(text, 0); !strings.Contains(reply.Error, says) || reply.Revision != 0 {
				t.Errorf("%s: %+v", text, reply)
			}
		}
		if _, rev := r.policies(); rev != revision {
			t.Error("something was written")
		}
		raw := must(r.admin.Request(t.Context(), messages.EndpointPolicy, []byte(`{"version":"1","document":{}}`)))
		if reply := must(messages.DecodeService[messages.PolicyReply](raw)); !strings.Contains(reply.Error, "by is empty") {
			t.Errorf("nobody says so: %+v", reply)
		}
	})
}

func TestPoliciesAreComparedAndSet(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		first := r.setPolicy(`{"pool":{"max_retries":1}}`)
		second := r.policy(`{"pool":{"max_retries":2}}`, first)
		if second.Error != "" || second.Revision <= first {
			t.Fatalf("%+v", second)
		}
		if again := r.policy(`{"pool": {"max_retries": 2}}`, first); again.Error != "" || again.Revision != second.Revision {
			t.Errorf("a request that is sent again: %+v", again)
		}
		if late := r.policy(`{"pool":{"max_retries":3}}`, first); !strings.Contains(late.Error, "was set by ops") || late.Revision != 0 {
			t.Errorf("of two who change the same, the second: %+v", late)
		}
		gone := r.policy(`null`, second.Revision)
		if p, rev := r.policies(); gone.Error != "" || string(p.Document) != "null" || p.By != "ops" || rev != gone.Revision {
			t.Errorf("%+v, %+v", gone, p)
		}
		if again := r.policy(`null`, 0); again.Revision != gone.Revision {
			t.Errorf("taken away twice: %+v", again)
		}
	})
}

// Of many who change at the same time, each replaces what it has seen or says
// that it was late.
func TestConcurrentChangesOfPoliciesLoseNone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.coordinator()
		first := r.setPolicy(`{}`)
		var all sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range 8 {
			all.Go(func() {
				req := messages.PolicyRequest{Document: json.RawMessage(`{"pool":{"budget_tokens":` + string(rune('1'+i)) + `}}`), Expect: first, By: "ops"}
				raw, err := r.admin.Peer().Request(t.Context(), messages.EndpointPolicy, must(messages.EncodeService(req)))
				if err != nil {
					t.Error(err)
					return
				}
				if reply := must(messages.DecodeService[messages.PolicyReply](raw)); reply.Error == "" {
					mu.Lock()
					won++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if won != 1 {
			t.Errorf("%d changes of one revision", won)
		}
	})
}

func TestPoliciesThatCannotBeStoredAreNotSet(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(hook(func(_ *memory.Broker, op memory.Op, on string) error {
			if op == memory.OpSave && strings.HasSuffix(on, messages.PolicyKey) {
				return errors.New("no room")
			}
			return nil
		}))
		if reply := r.policy(`{}`, 0); !strings.Contains(reply.Error, "no room") {
			t.Errorf("%+v", reply)
		}
	})
}

func TestAConfiguredDocumentIsPutInPlaceOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const text = `{"tools":{"t":{"max_retries":1}}}`
		with := func(c *coordination.Config) { c.Name, c.Document = "first", json.RawMessage(text) }
		r.coordinator(with)
		p, revision := r.policies()
		if string(p.Document) != text || p.By != "first" {
			t.Fatalf("%+v", p)
		}
		r.coordinator(func(c *coordination.Config) { c.Document = json.RawMessage(`{"tools": {"t": {"max_retries": 1}}}`) })
		if _, again := r.policies(); again != revision {
			t.Error("the same was written again")
		}
		r.setPolicy(`{}`)
		r.coordinator(with)
		if p, _ := r.policies(); string(p.Document) != text {
			t.Errorf("a start did not bring its document back: %s", p.Document)
		}
		r.coordinator()
		if p, _ := r.policies(); string(p.Document) != text {
			t.Errorf("who has none takes that of the pool away: %s", p.Document)
		}
	})
	cfg := coordination.Config{Broker: memory.New(memory.Config{}), Document: json.RawMessage(`{"pool":{"jitter":2}}`)}
	if err := cfg.WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), "document of policies: pool: ") {
		t.Error(err)
	}
}

// A coordinator that is to place policies does not begin before it could.
func TestAConfiguredDocumentIsInsistedOn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		failing := 3
		r.coordinator(func(c *coordination.Config) { c.Document = json.RawMessage(`{}`) },
			hook(func(_ *memory.Broker, op memory.Op, on string) error {
				if op == memory.OpSave && strings.HasSuffix(on, messages.PolicyKey) && failing > 0 {
					failing--
					return errors.New("away")
				}
				return nil
			}))
		if _, revision := r.policies(); revision == 0 || failing != 0 {
			t.Errorf("revision %d, %d failures left", revision, failing)
		}
	})
}

// S7.1: the effect that a policy says is frozen into a call in place of what
// its tool declares, and stays with all its dispatches.
func TestTheEffectOfAPolicyIsFrozenIntoACall(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		before := r.accept()
		r.setPolicy(`{"queues":{"q":{"effect":"idempotent"}}}`)
		after := r.accept()
		if before.Effect != messages.Unsafe || after.Effect != messages.Idempotent {
			t.Fatalf("%s, %s", before.Effect, after.Effect)
		}
		r.failAndDecide(before, messages.Retry(0))
		r.setPolicy(`{"tools":{"t":{"effect":"unsafe"}}}`)
		r.failAndDecide(after, messages.Retry(0))
		synctest.Wait()
		if a, b := r.wantQueued(before, 1), r.wantQueued(after, 1); a.Effect != messages.Unsafe || b.Effect != messages.Idempotent {
			t.Errorf("a change of the policy changed what was accepted before: %s, %s", a.Effect, b.Effect)
		}
		r.setPolicy(`null`)
		if c := r.accept(); c.Effect != messages.Unsafe {
			t.Errorf("it still holds: %s", c.Effect)
		}
	})
}

// A submission that is sent again after a change of the policy is no second
// call, under whatever rule.
func TestARepeatedSubmissionFollowsTheRuleOfTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		s := submission()
		send := func() messages.Call {
			if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}, Repeat: true}); reply.Error != "" || len(reply.Refused) > 0 {
				t.Fatalf("%+v", reply)
			}
			c, _ := r.queued(messages.NamedRun(s.Run), s.Call)
			return c
		}
		send()
		r.setPolicy(`{"tools":{"t":{"effect":"read_only"}}}`)
		if c := send(); c.Effect != messages.Unsafe {
			t.Errorf("the queued call follows another rule by now: %s", c.Effect)
		}
	})
}

func TestTheEffectOfAPolicyCountsForTheToolOfAChange(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		r.tool("other", messages.ReadOnly)
		r.setPolicy(`{"tools":{"other":{"effect":"unsafe"}}}`)
		c := r.accept()
		r.fail(c)
		r.decide(c, messages.Retry(0), changeTo("other"))
		synctest.Wait()
		if c1 := r.wantQueued(c, 1); c1.Tool != "other" || c1.Effect != messages.Unsafe {
			t.Errorf("%+v", c1)
		}
	})
}

func changeTo(tool string) func(*messages.Decision) {
	return func(d *messages.Decision) {
		d.Analysis.Correction = &messages.Correction{Type: messages.ToolChange, Description: "another tool", AlternativeTool: &tool}
	}
}

// S3.3: a tool that its own policy excludes, or that of the tool that failed, is
// never changed to, from the moment that the policy is set.
func TestAnExcludedToolIsNotChangedTo(t *testing.T) {
	for _, policy := range []string{
		`{"queues":{"q":{"exclude_tools":["other"]}}}`, `{"tools":{"t":{"exclude_tools":["other"]}}}`, `{"tools":{"t":{"include_tools":["t"]}}}`,
	} {
		bubble(t, func(t *testing.T, r *rig) { r.changesNotTo(policy) })
	}
}

func (r *rig) changesNotTo(policy string) {
	r.t.Helper()
	r.coordinator()
	r.tool("t", messages.Idempotent)
	r.tool("other", messages.Idempotent)
	r.setPolicy(policy)
	c := r.accept()
	r.fail(c)
	r.decide(c, messages.Retry(0), changeTo("other"))
	synctest.Wait()
	if c1 := r.wantQueued(c, 1); c1.Tool != "t" {
		r.t.Errorf("changed to %s", c1.Tool)
	}
	if rec := r.record(c); len(rec.Corrections) != 1 || !strings.Contains(rec.Corrections[0].Reason, "excluded by the policy") {
		r.t.Errorf("%+v", rec.Corrections)
	}
}

// A human cannot approve it either, and is told why.
func TestAnExcludedToolIsNotApproved(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		r.tool("other", messages.Idempotent)
		c := r.accept()
		r.fail(c)
		r.decide(c, messages.AskUser("may it?"), changeTo("other"), func(d *messages.Decision) { d.Park = true })
		synctest.Wait()
		r.setPolicy(`{"tools":{"t":{"exclude_tools":["other"]}}}`)
		reply := r.answer(messages.AnswerRequest{Run: c.Run, Call: c.ID, Kind: messages.AnswerApprove, By: "ann"})
		if reply.Code != messages.CodeInvalidArguments || !strings.Contains(reply.Error, "excluded by the policy of tool 't'") {
			t.Errorf("%+v", reply)
		}
	})
}

// An operator who takes a tool for safer than it says of itself finds that in
// the log, whichever comes first, tool or policy.
func TestAWeakerEffectIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var mu sync.Mutex
		var log bytes.Buffer
		r.coordinator(func(c *coordination.Config) { c.Log = slog.New(slog.NewTextHandler(&locked{mu: &mu, w: &log}, nil)) })
		said := func() int {
			mu.Lock()
			defer mu.Unlock()
			n := strings.Count(log.String(), "takes a tool for safer than it declares")
			log.Reset()
			return n
		}
		r.tool("t", messages.Unsafe)
		r.tool("safe", messages.ReadOnly)
		if said() != 0 {
			t.Error("nobody said anything yet")
		}
		r.setPolicy(`{"tools":{"t":{"effect":"keyed"},"safe":{"effect":"unsafe"},"later":{"effect":"read_only"}}}`)
		if n := said(); n != 1 {
			t.Errorf("said %d times, once is for t", n)
		}
		r.tool("later", messages.Idempotent)
		if n := said(); n != 1 {
			t.Errorf("said %d times of a tool that came later", n)
		}
	})
}

type locked struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
