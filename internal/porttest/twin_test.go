package porttest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mulligan/internal/memory"
	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// TestTwinsAgree does the same random things to both brokers and expects the
// same answers: what is tested against the twin then means something.
func TestTwinsAgree(t *testing.T) {
	const lease = time.Hour // nothing ends by itself here
	real := natstest.Connect(t, natstest.Server(t), jetstream.Config{Lease: lease})
	if err := real.Provision(t.Context(), jetstream.TopologyConfig{}); err != nil {
		t.Fatal(err)
	}
	rounds := 0
	rapid.Check(t, func(rt *rapid.T) {
		rounds++
		tw := &twins{T: rt, t: t, real: real, twin: memory.New(memory.Config{Lease: lease}), id: fmt.Sprintf("t%d", rounds)}
		tw.both("ensure queue", func(b Broker) string { return kind(b.EnsureQueue(t.Context(), tw.id)) })
		for range 4 {
			tw.calls = append(tw.calls, call{messages.NamedRun(tw.id), messages.NewCallID()})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put once": tw.putOnce, "get": tw.get, "publish": tw.publish, "fetch": tw.fetch, "settle": tw.settle,
			"purge": tw.purge, "list": tw.list, "save": tw.save, "load": tw.load, "put": tw.put, "delete": tw.delete, "entries": tw.entries,
		})
	})
}

type twins struct {
	*rapid.T
	t          *testing.T
	real, twin Broker
	id         string
	calls      []call
	held       [][2]messages.Delivery // handed over, by both
	revisions  map[string][2]uint64   // last known, of each key
}

// both does one thing to each and compares what they say.
func (tw *twins) both(what string, do func(b Broker) string) {
	tw.Helper()
	if twin, real := do(tw.twin), do(tw.real); twin != real {
		tw.Fatalf("%s: the twin says %s, JetStream %s", what, twin, real)
	}
}

// kind is what a caller can tell of an error.
func kind(err error) string {
	for _, known := range []error{messages.ErrNotFound, messages.ErrConflict, messages.ErrExists, messages.ErrFull, messages.ErrTooLarge} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "another error"
	}
	return "fine"
}

func (tw *twins) anyCall() call { return rapid.SampledFrom(tw.calls).Draw(tw.T, "call") }

func (tw *twins) anySubject() string {
	c, n, names := tw.anyCall(), rapid.IntRange(0, 1).Draw(tw.T, "n"), tw.real.Names()
	return rapid.SampledFrom([]string{
		names.ResultSubject(c.run, c.id), names.FailureSubject(c.run, c.id, n), names.StartSubject(c.run, c.id, n), names.CancelSubject(c.run, c.id),
	}).Draw(tw.T, "subject")
}

func (tw *twins) putOnce(*rapid.T) {
	m := messages.Message{Subject: tw.anySubject(), Body: []byte(rapid.StringN(0, 5, 5).Draw(tw.T, "body"))}
	tw.both("put once", func(b Broker) string {
		winner, err := b.PutOnce(tw.t.Context(), m)
		if winner != nil {
			return "lost to " + string(winner.Body)
		}
		return kind(err)
	})
}

func (tw *twins) get(*rapid.T) {
	subject := tw.anySubject()
	if rapid.Bool().Draw(tw.T, "a call") {
		c := tw.anyCall()
		subject = tw.real.Names().CallFilter(c.run, c.id)
	}
	tw.both("get", func(b Broker) string {
		s, err := b.Get(tw.t.Context(), subject)
		return fmt.Sprintf("%s %q %s", s.Subject, s.Body, kind(err))
	})
}

func (tw *twins) publish(*rapid.T) {
	c, n := tw.anyCall(), rapid.IntRange(0, 3).Draw(tw.T, "n")
	m := messages.Message{Subject: tw.real.Names().CallSubject(tw.id, messages.LaneNormal, c.run, c.id, n), Body: []byte(c.id)}
	tw.both("publish", func(b Broker) string { return kind(b.Publish(tw.t.Context(), m)) })
}

func (tw *twins) fetch(*rapid.T) {
	most := rapid.IntRange(1, 3).Draw(tw.T, "most")
	take := func(b Broker, most int, wait time.Duration) []messages.Delivery {
		ds, err := b.Fetch(tw.t.Context(), messages.StreamCalls, b.Names().LaneConsumer(tw.id, messages.LaneNormal), most, wait)
		if err != nil {
			tw.Fatal(err)
		}
		return ds
	}
	want := take(tw.twin, most, 0)
	var got []messages.Delivery
	for len(got) < len(want) { // the server learns a moment later of what it may hand over
		ds := take(tw.real, len(want)-len(got), patience)
		if len(ds) == 0 {
			tw.Fatalf("JetStream handed over %d of %d", len(got), len(want))
		}
		got = append(got, ds...)
	}
	if len(want) < most {
		got = append(got, take(tw.real, 1, 0)...)
	}
	say := func(ds []messages.Delivery) (out []string) {
		for _, d := range ds {
			out = append(out, fmt.Sprintf("%s delivery %d", d.Subject, d.Delivery))
		}
		return out
	}
	if !slices.Equal(say(want), say(got)) {
		tw.Fatalf("the twin hands over %v, JetStream %v", say(want), say(got))
	}
	for i := range want {
		tw.held = append(tw.held, [2]messages.Delivery{want[i], got[i]})
	}
}

// settle settles any delivery ever handed over, also one that is over.
func (tw *twins) settle(*rapid.T) {
	if len(tw.held) == 0 {
		tw.Skip("nothing was handed over")
	}
	pair := tw.held[rapid.IntRange(0, len(tw.held)-1).Draw(tw.T, "delivery")]
	how := rapid.SampledFrom([]string{"ack", "nak", "extend"}).Draw(tw.T, "how")
	for i, b := range []Broker{tw.twin, tw.real} {
		f := map[string]func() error{
			"ack":    func() error { return b.Ack(tw.t.Context(), pair[i]) },
			"nak":    func() error { return b.Nak(tw.t.Context(), pair[i]) },
			"extend": func() error { return b.Extend(tw.t.Context(), pair[i]) },
		}[how]
		if err := f(); err != nil {
			tw.Fatal(err)
		}
	}
	// A settlement is not answered; what is asked behind it on the same
	// connection comes behind it at the consumer.
	lane := tw.real.Names().LaneConsumer(tw.id, messages.LaneNormal)
	_, wantUnacked, err := tw.twin.Backlog(tw.t.Context(), messages.StreamCalls, lane)
	if err != nil {
		tw.Fatal(err)
	}
	_, wantErr := tw.twin.Get(tw.t.Context(), pair[0].Subject)
	for begin := time.Now(); ; {
		_, unacked, err := tw.real.Backlog(tw.t.Context(), messages.StreamCalls, lane)
		_, gone := tw.real.Get(tw.t.Context(), pair[1].Subject) // the stream learns of an ack after the consumer
		if err == nil && unacked == wantUnacked && kind(gone) == kind(wantErr) {
			return
		}
		if time.Since(begin) > patience {
			tw.Fatalf("after %s: the twin has %d unacked, JetStream %d, %v", how, wantUnacked, unacked, err)
		}
	}
}

func (tw *twins) purge(*rapid.T) {
	c := tw.anyCall()
	tw.both("purge", func(b Broker) string { return kind(b.Purge(tw.t.Context(), b.Names().ResultSubject(c.run, c.id))) })
}

func (tw *twins) list(*rapid.T) {
	c := tw.anyCall()
	filters := tw.real.Names().StoryFilters(c.run, c.id)
	tw.both("list", func(b Broker) string {
		var all []string
		err := b.List(tw.t.Context(), messages.StreamRecovery, filters, func(s messages.Stored) bool {
			all = append(all, s.Subject+"="+string(s.Body))
			return true
		})
		return fmt.Sprint(all, kind(err))
	})
}

func (tw *twins) anyKey() string {
	return tw.id + "." + rapid.SampledFrom([]string{"a", "b", "c.d"}).Draw(tw.T, "key")
}

// save expects nothing, the last known revision, or one that never was.
func (tw *twins) save(*rapid.T) {
	key, value := tw.anyKey(), []byte(rapid.StringN(0, 5, 5).Draw(tw.T, "value"))
	expect := tw.revisions[key]
	switch rapid.IntRange(0, 2).Draw(tw.T, "expect") {
	case 0:
		expect = [2]uint64{}
	case 1:
		expect = [2]uint64{1 << 40, 1 << 40}
	}
	var got [2]uint64
	var say [2]string
	for i, b := range []Broker{tw.twin, tw.real} {
		var err error
		got[i], err = b.Save(tw.t.Context(), bucket, key, value, expect[i], 0)
		say[i] = kind(err)
	}
	if say[0] != say[1] {
		tw.Fatalf("save %s: the twin says %s, JetStream %s", key, say[0], say[1])
	}
	if say[0] == "fine" {
		tw.remember(key, got)
	}
}

func (tw *twins) remember(key string, revisions [2]uint64) {
	if tw.revisions == nil {
		tw.revisions = make(map[string][2]uint64)
	}
	tw.revisions[key] = revisions
}

func (tw *twins) load(*rapid.T) {
	key := tw.anyKey()
	var revisions [2]uint64
	i := 0
	tw.both("load", func(b Broker) string {
		e, err := b.Load(tw.t.Context(), bucket, key)
		revisions[i], i = e.Revision, i+1
		return fmt.Sprintf("%s=%q %v %s", e.Key, e.Value, e.Deleted, kind(err))
	})
	if revisions[0] != 0 {
		tw.remember(key, revisions)
	}
}

func (tw *twins) put(*rapid.T) {
	key, value := tw.anyKey(), []byte(rapid.StringN(0, 5, 5).Draw(tw.T, "value"))
	tw.both("put", func(b Broker) string { return kind(b.Put(tw.t.Context(), bucket, key, value, 0)) })
}

func (tw *twins) delete(*rapid.T) {
	key := tw.anyKey()
	tw.both("delete", func(b Broker) string { return kind(b.Delete(tw.t.Context(), bucket, key)) })
}

func (tw *twins) entries(*rapid.T) {
	filter := tw.id + rapid.SampledFrom([]string{".>", ".*", ".c.*"}).Draw(tw.T, "filter")
	tw.both("entries", func(b Broker) string {
		all, err := b.Entries(tw.t.Context(), bucket, filter)
		out := ""
		for _, e := range all {
			out += fmt.Sprintf("%s=%q ", e.Key, e.Value)
		}
		return out + kind(err)
	})
}
