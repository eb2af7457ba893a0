package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"mulligan/pkg/messages"
)

// stranger is a client of the broker that speaks no word of the wire.
type stranger struct {
	t  *testing.T
	nc *nats.Conn
	c  *cluster
	r  *rand.Rand
}

func (c *cluster) stranger() *stranger {
	c.t.Helper()
	nc, err := nats.Connect(c.url, nats.Token(c.token), nats.Timeout(patience))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	return &stranger{t: c.t, nc: nc, c: c, r: rand.New(rand.NewPCG(1, 2))}
}

// bodies are what it has to say.
func (s *stranger) bodies() [][]byte {
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(s.r.Uint32())
	}
	return [][]byte{
		nil, {0}, noise, []byte("{"), []byte("null"), []byte(`{"version":"999"}`), []byte(`{"version":"1"}`), []byte(`[]`), []byte(`"1"`),
		[]byte(strings.Repeat("[", 200_000)), []byte(`{"version":"1","code":"nonsense","dispatch":-1,"attempt":1e9,"n":99999999999999999999}`),
	}
}

func (s *stranger) headers() []nats.Header {
	h := func(pairs ...string) nats.Header {
		out := nats.Header{}
		for i := 0; i+1 < len(pairs); i += 2 {
			out[pairs[i]] = []string{pairs[i+1]}
		}
		return out
	}
	return []nats.Header{
		nil,
		h(messages.HeaderVersion, "2"),
		h(messages.HeaderVersion, "1"),
		h(messages.HeaderVersion, "1", messages.HeaderCall, "nonsense", messages.HeaderRun, "=", messages.HeaderTool, "\xff"),
		h(messages.HeaderVersion, "1", messages.HeaderCall, messages.NewCallID(), messages.HeaderTool, "echo", messages.HeaderAttempt, "-9223372036854775808",
			messages.HeaderDispatch, "99999999999999999999", messages.HeaderEffect, "harmless", messages.HeaderLane, "retry"),
	}
}

// subjects are all that services listen to, with tokens of every kind.
func (s *stranger) subjects() []string {
	n := s.c.pool.Names()
	id := messages.NewCallID()
	run := messages.UnnamedRun(id)
	prefix := n.Prefix()
	out := []string{
		n.CallSubject("default", messages.LaneNormal, run, id, 0), n.CallSubject("default", messages.LaneRetry, run, id, 3),
		n.ResultSubject(run, messages.NewCallID()), n.FailureSubject(run, id, 0), n.DecisionSubject(run, id, 0), n.AnswerSubject(run, id, 0),
		n.SettledSubject(run, id, 0), n.CancelSubject(run, id), n.StartSubject(run, id, 0), n.LateSubject(run, id, 0, "x"),
	}
	for _, kind := range []string{"call.default.normal", "result", "failure", "decision", "answer", "settled", "cancel", "late", "start", "due.dispatch", "due.deadline"} {
		for _, rest := range []string{"x", "x.y", "x.y.z", "=00.=00.0", "x." + id + ".-1", "x." + id + ".99999999999999999999", "x.y.z.0.1.2.3"} {
			out = append(out, prefix+"."+kind+"."+rest)
		}
	}
	return out
}

// shout says a sixth of all that can be said to all subjects.
func (s *stranger) shout() {
	s.t.Helper()
	for _, subject := range s.subjects() {
		for _, h := range s.headers() {
			for _, b := range s.bodies() {
				m := &nats.Msg{Subject: subject, Header: h, Data: b}
				if s.r.IntN(6) > 0 {
					continue
				}
				if _, err := s.nc.RequestMsg(m, patience); err != nil && !errors.Is(err, nats.ErrNoResponders) {
					s.t.Errorf("%s: %v", subject, err)
				}
			}
		}
	}
}

// ask sends the same to the services; whatever it is, they answer.
func (s *stranger) ask() {
	s.t.Helper()
	for _, endpoint := range []string{messages.EndpointSubmit, messages.EndpointOffer, messages.EndpointCancel} {
		for _, b := range append(s.bodies(), s.offers()...) {
			reply, err := s.nc.Request(s.c.pool.Names().ServiceSubject(endpoint), b, patience)
			if err != nil || !strings.Contains(string(reply.Data), `"error"`) && !strings.Contains(string(reply.Data), `"refused"`) {
				s.t.Errorf("%s answered %.100q to %.100q: %v", endpoint, data(reply), b, err)
			}
		}
	}
}

func data(m *nats.Msg) []byte {
	if m == nil {
		return nil
	}
	return m.Data
}

// offers are of tools that nobody should take up.
func (s *stranger) offers() [][]byte {
	offer := func(tool string) []byte {
		return []byte(`{"version":"1","worker":"stranger","tools":[` + tool + `]}`)
	}
	bomb := `{"$ref":"#/$defs/0","$defs":{`
	for i := range 40 {
		bomb += fmt.Sprintf(`"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%[2]d"}]},`, i, i+1)
	}
	bomb += `"40":{}}}`
	return [][]byte{
		offer(`{"name":""}`), offer(`{"name":"` + strings.Repeat("x", 600) + `"}`), offer(`{"name":"x","effect":"harmless"}`), offer(`{"name":"x","queue":"` + strings.Repeat("q", 100) + `"}`),
		offer(`{"name":"x","effect":"unsafe","queue":"default","schema":{"type":7}}`),
		offer(`{"name":"x","effect":"unsafe","queue":"default","schema":{"$ref":"http://127.0.0.1:1/x"}}`),
		offer(`{"name":"x","effect":"unsafe","queue":"default","schema":{"$ref":"#"}}`),
		offer(`{"name":"x","effect":"unsafe","queue":"default","schema":` + bomb + `}`),
		offer(`{"name":"echo","effect":"unsafe","queue":"another"}`),
	}
}

// scribble puts the same into the buckets that are watched.
func (s *stranger) scribble() {
	s.t.Helper()
	n := s.c.pool.Names()
	id := messages.NewCallID()
	for bucket, keys := range map[messages.Bucket][]string{
		messages.BucketTools:    {"tool.x", "tool.=00", "offer.x", "x"},
		messages.BucketControl:  {"call.x." + id, "run.x", "x", "call.x"},
		messages.BucketRuns:     {"x", "=00", "x.y"},
		messages.BucketAttempts: {"x." + id, "x", "x.y.z"},
	} {
		for _, key := range keys {
			for i, b := range s.bodies() {
				if err := s.nc.Publish(fmt.Sprintf("$KV.%s.%s%d", n.BucketName(bucket), key, i), b); err != nil {
					s.t.Fatal(err)
				}
			}
		}
	}
	if err := s.nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
}

// idle waits until no consumer has anything to do: what cannot be read must
// not come again and again.
func (c *cluster) idle() {
	c.t.Helper()
	ctx, cancel := contextWithPatience(c.t)
	defer cancel()
	n := c.pool.Names()
	type consumer struct {
		stream messages.Stream
		name   string
	}
	all := []consumer{{messages.StreamSchedule, "coordinator-due"}}
	for _, name := range []string{"reflector", "coordinator-decisions", "coordinator-answers", "coordinator-cancels", "coordinator-settled"} {
		all = append(all, consumer{messages.StreamRecovery, name})
	}
	for _, lane := range messages.Lanes() {
		all = append(all, consumer{messages.StreamCalls, n.LaneConsumer("default", lane)})
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, k := range all {
		for {
			waiting, unacked, err := c.pool.Backlog(ctx, k.stream, k.name)
			if err == nil && waiting+unacked == 0 {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				c.t.Errorf("%s: %d wait and %d are given out for good, %v", k.name, waiting, unacked, err)
			}
			if ctx.Err() != nil {
				break
			}
		}
	}
}

// TestGarbageHarmsNobody lets a client that may write everywhere do so. Good
// calls run as if nothing were there, and what cannot be read is put away.
func TestGarbageHarmsNobody(t *testing.T) {
	t.Parallel()
	c := start(t, 2, "--builtin", "--slots", "8")
	c.serving(2)
	s := c.stranger()
	s.shout()
	s.scribble()
	s.ask()
	var calls []messages.Submission
	for i := range 60 {
		calls = append(calls, call("echo", fmt.Sprintf(`{"i":%d}`, i)), call("fail", `{"times":1,"kind":"retry_after","retry_after_ms":50}`))
	}
	c.submit(calls)
	e := c.results(calls, func(int) {})
	for id, r := range e.results {
		if r.Status != messages.Succeeded {
			t.Errorf("call %s ended %s: %s", id, r.Status, r.Reason)
		}
	}
	c.idle()
	c.unharmed()
	c.mulligan(0, "tools", "-o", "json")
	c.mulligan(0, "call", "echo", "{}")
}
