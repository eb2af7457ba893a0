package porttest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"mulligan/pkg/messages"
)

var errStopped = errors.New("the test stopped it")

func streamCases() []Case {
	return []Case{
		{"put once keeps the first and shows it", PutOnceKeepsFirst},
		{"put once of many at a time has one winner", putOnceRace},
		{"headers and body come back as they were", roundTrip},
		{"headers above 64 KiB are refused", headersTooLarge},
		{"a message above the limit is refused", messageTooLarge},
		{"get sees the last of a filter", getWildcard},
		{"get of nothing is not found", getNothing},
		{"publish refuses a dispatch that is still there", publishTwice},
		{"publish all answers each", publishAll},
		{"purge removes what matches", purge},
		{"a run is erased, and nothing else", erase},
		{"list is in order and stops", list},
		{"list begins anywhere", listFrom},
		{"list is long", listLong},
		{"list takes several filters", listFilters},
		{"follow starts anywhere and goes on", follow},
		{"follow by a filter", followFilter},
		{"last sequence counts what was stored", lastSequence},
		{"matching counts what is there, in work queues too", matching},
		{"list heads gives all but the bodies, and ends", listHeads},
	}
}

// PutOnceKeepsFirst: the first write wins and the second is shown the winner.
func PutOnceKeepsFirst(e *Env) {
	c := newCall("r")
	winner, err := e.B.PutOnce(e.Ctx, e.result(c, "first"))
	if winner != nil || err != nil {
		e.Fatalf("first: %v, %v", winner, err)
	}
	for range 2 {
		winner, err = e.B.PutOnce(e.Ctx, e.result(c, "second"))
		if err != nil || winner == nil || string(winner.Body) != "first" || winner.Header.Get(messages.HeaderCall) != c.id {
			e.Fatalf("second: %v, %v", winner, err)
		}
	}
	got, err := e.B.Get(e.Ctx, e.Names.ResultSubject(c.run, c.id))
	if err != nil || string(got.Body) != "first" || got.Sequence == 0 || got.Time.IsZero() {
		e.Fatalf("get: %+v, %v", got, err)
	}
	if found, err := e.B.Find(e.Ctx, got.Subject); err != nil || !reflect.DeepEqual(found, got) {
		e.Fatalf("found %+v, not %+v, %v", found, got, err)
	}
	if _, err := e.B.Find(e.Ctx, e.Names.ResultSubject(c.run, messages.NewCallID())); !errors.Is(err, messages.ErrNotFound) {
		e.Fatalf("found what is not there: %v", err)
	}
}

func putOnceRace(e *Env) {
	c := newCall("r")
	const n = 32
	won := make(chan string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			body := fmt.Sprint(i)
			winner, err := e.B.PutOnce(e.Ctx, e.result(c, body))
			switch {
			case err != nil:
				e.Error(err)
			case winner == nil:
				won <- body
			default:
				won <- "not " + body + " but " + string(winner.Body)
			}
		})
	}
	all.Wait()
	close(won)
	var winners, told []string
	for w := range won {
		if name, ok := strings.CutPrefix(w, "not "); ok {
			told = append(told, name[strings.Index(name, "but ")+4:])
		} else {
			winners = append(winners, w)
		}
	}
	if len(winners) != 1 || len(told) != n-1 || slices.ContainsFunc(told, func(s string) bool { return s != winners[0] }) {
		e.Fatalf("winners %v, the others were told %v", winners, told)
	}
}

// PutOnceFull: the code that says "there is one already" also says "full", and
// then nothing is there: it must not pass for a refusal by a winner (P7.4).
func PutOnceFull(e *Env) {
	old, fresh := newCall("r"), newCall("r")
	_, err := e.B.PutOnce(e.Ctx, e.result(old, "kept"))
	e.must(err)
	release := e.Fill(messages.StreamResults)
	winner, err := e.B.PutOnce(e.Ctx, e.result(fresh, "lost"))
	if winner != nil || !errors.Is(err, messages.ErrFull) {
		e.Fatalf("a new one on a full stream: winner %v, err %v", winner, err)
	}
	winner, err = e.B.PutOnce(e.Ctx, e.result(old, "again"))
	if err != nil || winner == nil || string(winner.Body) != "kept" {
		e.Fatalf("one that is there, on a full stream: winner %v, err %v", winner, err)
	}
	release()
	if winner, err = e.B.PutOnce(e.Ctx, e.result(fresh, "now")); winner != nil || err != nil {
		e.Fatalf("with room again: winner %v, err %v", winner, err)
	}
}

// PutOnceWithoutMsgID: an id of the broker's duplicate window makes the second
// write look stored, so no write has one, and a second start is refused (P7.14).
func PutOnceWithoutMsgID(e *Env) {
	c := newCall("r")
	m := messages.Message{Subject: e.Names.StartSubject(c.run, c.id, 0), Header: messages.Header{"Nats-Msg-Id": {c.id}}}
	if _, err := e.B.PutOnce(e.Ctx, m); err == nil {
		e.Fatal("a message with Nats-Msg-Id was taken")
	}
	m.Header = nil
	m.Body = []byte("mine")
	winner, err := e.B.PutOnce(e.Ctx, m)
	if winner != nil || err != nil {
		e.Fatalf("first start: %v, %v", winner, err)
	}
	winner, err = e.B.PutOnce(e.Ctx, m)
	if err != nil || winner == nil {
		e.Fatalf("the same start again must be refused, not swallowed: winner %v, err %v", winner, err)
	}
}

func roundTrip(e *Env) {
	c := newCall("r")
	m := e.result(c, "")
	m.Body = []byte{0, 1, 2, 255, '\r', '\n', '"'}
	m.Header["Mulligan-Labels"] = []string{`{"a":"b c"}`}
	m.Header["lower-case"] = []string{"kept"}
	_, err := e.B.PutOnce(e.Ctx, m)
	e.must(err)
	m.Header["lower-case"][0], m.Body[0] = "changed by the caller", 9
	got, err := e.B.Get(e.Ctx, m.Subject)
	e.must(err)
	if string(got.Body) != "\x00\x01\x02\xff\r\n\"" || got.Header.Get("lower-case") != "kept" || got.Header.Get("Mulligan-Labels") != `{"a":"b c"}` {
		e.Fatalf("got %+v", got)
	}
}

func headersTooLarge(e *Env) {
	m := e.result(newCall("r"), "x")
	m.Header["Mulligan-Labels"] = []string{strings.Repeat("x", 65<<10)}
	if _, err := e.B.PutOnce(e.Ctx, m); !errors.Is(err, messages.ErrTooLarge) {
		e.Fatalf("got %v", err)
	}
}

func messageTooLarge(e *Env) {
	m := e.result(newCall("r"), strings.Repeat("x", 1<<20+1))
	if _, err := e.B.PutOnce(e.Ctx, m); !errors.Is(err, messages.ErrTooLarge) {
		e.Fatalf("put once: %v", err)
	}
	if err := e.B.Publish(e.Ctx, messages.Message{Subject: e.queued("q", newCall("r"), 0).Subject, Body: m.Body}); !errors.Is(err, messages.ErrTooLarge) {
		e.Fatalf("publish: %v", err)
	}
}

func getWildcard(e *Env) {
	c := newCall("r")
	for n := range 3 {
		e.must(e.B.Publish(e.Ctx, e.queued("some/queue", c, n)))
	}
	got, err := e.B.Get(e.Ctx, e.Names.CallFilter(c.run, c.id))
	e.must(err)
	if a, err := e.Names.Parse(got.Subject); err != nil || a.N != 2 || a.Queue != "some/queue" {
		e.Fatalf("got %s, %v", got.Subject, err)
	}
}

func getNothing(e *Env) {
	c := newCall("r")
	for _, subject := range []string{e.Names.ResultSubject(c.run, c.id), e.Names.CallFilter(c.run, c.id)} {
		if _, err := e.B.Get(e.Ctx, subject); !errors.Is(err, messages.ErrNotFound) {
			e.Errorf("get %s: %v", subject, err)
		}
	}
}

func publishTwice(e *Env) {
	e.queue("q")
	c := newCall("r")
	e.must(e.B.Publish(e.Ctx, e.queued("q", c, 0)))
	if err := e.B.Publish(e.Ctx, e.queued("q", c, 0)); !errors.Is(err, messages.ErrExists) {
		e.Fatalf("the same dispatch: %v", err)
	}
	d := e.one("q")
	if err := e.B.Publish(e.Ctx, e.queued("q", c, 0)); !errors.Is(err, messages.ErrExists) {
		e.Fatalf("the same dispatch in the hands of a worker: %v", err)
	}
	e.must(e.B.Ack(e.Ctx, d))
	e.must(e.B.Publish(e.Ctx, e.queued("q", c, 1)))
	next := e.one("q")
	if a, _ := e.Names.Parse(next.Subject); a.N != 1 {
		e.Fatalf("got %s", next.Subject)
	}
	// Uniqueness ends with the ack: that is why what may be a repetition says so.
	e.must(e.B.Publish(e.Ctx, e.queued("q", c, 0)))
}

// PublishFull: a full stream takes no dispatch and says so, and still tells one
// that is there from one that it has no room for (P7.6).
func PublishFull(e *Env) {
	e.queue("q")
	c := newCall("r")
	e.must(e.B.Publish(e.Ctx, e.queued("q", c, 0)))
	release := e.Fill(messages.StreamCalls)
	if err := e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)); !errors.Is(err, messages.ErrFull) {
		e.Fatalf("a new one: %v", err)
	}
	if err := e.B.Publish(e.Ctx, e.queued("q", c, 0)); !errors.Is(err, messages.ErrExists) {
		e.Fatalf("one that is there: %v", err)
	}
	release()
	e.must(e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)))
}

// lastQueued is where CALLS ends; a pool may have begun it.
func (e *Env) lastQueued() uint64 {
	last, err := e.B.LastSequence(e.Ctx, messages.StreamCalls)
	e.must(err)
	return last
}

func publishAll(e *Env) {
	const n = 700
	ms := make([]messages.Message, n)
	for i := range ms {
		ms[i] = e.queued("q", newCall("r"), 0)
	}
	ms[3] = ms[2]
	before := e.lastQueued()
	errs := e.B.PublishAll(e.Ctx, ms)
	for i, err := range errs {
		if i == 3 && !errors.Is(err, messages.ErrExists) || i != 3 && err != nil {
			e.Fatalf("%d: %v", i, err)
		}
	}
	if stored := e.lastQueued() - before; stored != n-1 || len(errs) != n {
		e.Fatalf("%d stored, %d answers", stored, len(errs))
	}
}

func purge(e *Env) {
	e.queue("q")
	mine, other := newCall("mine"), newCall("other")
	e.must(e.B.Publish(e.Ctx, e.queued("q", mine, 0)))
	e.must(e.B.Publish(e.Ctx, e.queued("q", other, 0)))
	e.must(e.B.Purge(e.Ctx, e.Names.RunCallsFilter(mine.run)))
	e.must(e.B.Purge(e.Ctx, e.Names.RunCallsFilter(messages.NamedRun("nothing"))))
	d := e.one("q")
	if a, _ := e.Names.Parse(d.Subject); a.Call != other.id {
		e.Fatalf("got %s", d.Subject)
	}
	if ds := e.fetch("q", 1, 0); len(ds) != 0 {
		e.Fatalf("also got %v", ds)
	}
}

// erase removes what stands in hands, too, and leaves what others hold as it was.
func erase(e *Env) {
	mine, other := newCall("mine"), newCall("other")
	for _, c := range []call{other, mine, other} {
		for n := range 3 {
			m := messages.Message{Subject: e.Names.DecisionSubject(c.run, newCall("x").id, n), Body: []byte("d")}
			_, err := e.B.PutOnce(e.Ctx, m)
			e.must(err)
		}
		_, err := e.B.PutOnce(e.Ctx, messages.Message{Subject: e.Names.ResultSubject(c.run, newCall("x").id), Body: []byte("r")})
		e.must(err)
	}
	var held []messages.Delivery
	for range 9 {
		d, err := e.B.Fetch(e.Ctx, messages.StreamRecovery, messages.ConsumerDecisions, 1, patience)
		e.must(err)
		held = append(held, d...)
	}
	for i, want := range []int64{3, 0} {
		if n, err := e.B.Erase(e.Ctx, messages.StreamRecovery, e.Names.RunStories(mine.run)); err != nil || n != want {
			e.Fatalf("try %d erased %d of the story, %v", i, n, err)
		}
	}
	if n, err := e.B.Erase(e.Ctx, messages.StreamResults, e.Names.ResultsFilter(mine.run)); err != nil || n != 1 {
		e.Fatalf("erased %d results, %v", n, err)
	}
	for run, want := range map[messages.Run]uint64{mine.run: 0, other.run: 6} {
		if n, err := e.B.Matching(e.Ctx, messages.StreamRecovery, e.Names.RunStories(run)); err != nil || n != want {
			e.Fatalf("%d messages of the story of %s, %v", n, run, err)
		}
	}
	if n, err := e.B.Matching(e.Ctx, messages.StreamResults, e.Names.ResultsFilter(other.run)); err != nil || n != 2 {
		e.Fatalf("%d results of others, %v", n, err)
	}
	if len(held) != 9 {
		e.Fatalf("%d of 9 were handed over", len(held))
	}
	e.must(e.B.Ack(e.Ctx, held[8])) // must not let go of what is held before it
	for got := 0; got < 5; {        // those of the one who held them and died
		again, err := e.B.Fetch(e.Ctx, messages.StreamRecovery, messages.ConsumerDecisions, 1, patience)
		if err != nil || len(again) != 1 {
			e.Fatalf("%d of 5 came again, %v", got, err)
		}
		if a, err := e.Names.Parse(again[0].Subject); err != nil || a.Run != other.run {
			e.Fatalf("%s came again, %v", again[0].Subject, err)
		}
		e.must(e.B.Ack(e.Ctx, again[0]))
		got++
	}
}

func list(e *Env) {
	calls := make([]call, 5)
	for i := range calls {
		calls[i] = newCall("r")
		_, err := e.B.PutOnce(e.Ctx, e.result(calls[i], fmt.Sprint(i)))
		e.must(err)
	}
	var got []string
	collect := func(s messages.Stored) bool {
		got = append(got, string(s.Body))
		return len(got) < 3
	}
	e.must(e.B.List(e.Ctx, messages.StreamResults, nil, collect))
	if !slices.Equal(got, []string{"0", "1", "2"}) {
		e.Fatalf("stopped after %v", got)
	}
	got = nil
	e.must(e.B.List(e.Ctx, messages.StreamResults, []string{e.Names.ResultsFilter(messages.NamedRun("none"))}, collect))
	if got != nil {
		e.Fatalf("nothing matches, got %v", got)
	}
}

func listFrom(e *Env) {
	for n := range 3 {
		for _, run := range []string{"r", "other"} {
			_, err := e.B.PutOnce(e.Ctx, messages.Message{Subject: e.Names.DecisionSubject(messages.NamedRun(run), newCall(run).id, n), Body: []byte(fmt.Sprint(run, n))})
			e.must(err)
		}
	}
	for from, want := range map[uint64][]string{0: {"r0", "r1", "r2"}, 1: {"r0", "r1", "r2"}, 3: {"r1", "r2"}, 4: {"r2"}, 6: nil, 99: nil} {
		var got []string
		e.must(e.B.ListFrom(e.Ctx, messages.StreamRecovery, []string{e.Names.DecisionsFilter(messages.NamedRun("r"))}, from, func(s messages.Stored) bool {
			got = append(got, string(s.Body))
			return true
		}))
		if !slices.Equal(got, want) {
			e.Fatalf("from %d: %v, want %v", from, got, want)
		}
	}
}

func listLong(e *Env) {
	const n = 1500
	ms := make([]messages.Message, n)
	for i := range ms {
		ms[i] = e.queued("q", newCall("r"), 0)
		ms[i].Body = []byte(fmt.Sprint(i))
	}
	before := e.lastQueued()
	for _, err := range e.B.PublishAll(e.Ctx, ms) {
		e.must(err)
	}
	i := 0
	e.must(e.B.List(e.Ctx, messages.StreamCalls, []string{e.Names.RunCallsFilter("r"), e.Names.RunCallsFilter("none")}, func(s messages.Stored) bool {
		if string(s.Body) != fmt.Sprint(i) || s.Sequence != before+uint64(i+1) {
			e.Fatalf("message %d is %q with sequence %d", i, s.Body, s.Sequence)
		}
		i++
		return true
	}))
	if i != n {
		e.Fatalf("listed %d of %d", i, n)
	}
}

func listFilters(e *Env) {
	c, other := newCall("r"), newCall("r")
	put := func(subject string) {
		_, err := e.B.PutOnce(e.Ctx, messages.Message{Subject: subject, Body: []byte("x")})
		e.must(err)
	}
	put(e.Names.FailureSubject(c.run, c.id, 0))
	put(e.Names.CancelSubject(other.run, other.id))
	put(e.Names.DecisionSubject(c.run, c.id, 0))
	put(e.Names.CancelSubject(c.run, c.id))
	put(e.Names.FailureSubject(c.run, c.id, 1))
	var kinds []string
	e.must(e.B.List(e.Ctx, messages.StreamRecovery, e.Names.StoryFilters(c.run, c.id), func(s messages.Stored) bool {
		a, err := e.Names.Parse(s.Subject)
		e.must(err)
		kinds = append(kinds, a.Kind)
		return true
	}))
	if !slices.Equal(kinds, []string{"failure", "decision", "cancel", "failure"}) {
		e.Fatalf("story is %v", kinds)
	}
}

func follow(e *Env) {
	for i := range 4 {
		_, err := e.B.PutOnce(e.Ctx, e.result(newCall("r"), fmt.Sprint(i)))
		e.must(err)
	}
	got := make(chan messages.Stored, 100)
	stop := e.background(func(ctx context.Context) error {
		return e.B.Follow(ctx, messages.StreamResults, nil, 3, func(s messages.Stored) { got <- s })
	})
	expect := func(body string, seq uint64) {
		e.Helper()
		if s := wait(e, "message "+body, got); string(s.Body) != body || s.Sequence != seq {
			e.Fatalf("got %q with sequence %d, want %q, %d", s.Body, s.Sequence, body, seq)
		}
	}
	expect("2", 3)
	expect("3", 4)
	_, err := e.B.PutOnce(e.Ctx, e.result(newCall("r"), "live"))
	e.must(err)
	expect("live", 5)
	if err := stop(); !errors.Is(err, errStopped) {
		e.Fatalf("follow ended with %v", err)
	}
}

func followFilter(e *Env) {
	got := make(chan messages.Stored, 100)
	mine := messages.UnnamedRun("01924d1c-5f7e-7000-8000-000000000001")
	e.background(func(ctx context.Context) error {
		return e.B.Follow(ctx, messages.StreamResults, []string{e.Names.ResultsFilter(mine)}, 0, func(s messages.Stored) { got <- s })
	})
	for i := range 50 {
		c := newCall("other")
		if i%10 == 0 {
			c.run = mine
		}
		_, err := e.B.PutOnce(e.Ctx, e.result(c, fmt.Sprint(i)))
		e.must(err)
	}
	for i := 0; i < 50; i += 10 {
		if s := wait(e, "a result", got); string(s.Body) != fmt.Sprint(i) {
			e.Fatalf("got %q, want %d", s.Body, i)
		}
	}
}

func lastSequence(e *Env) {
	expect := func(want uint64) {
		e.Helper()
		if got, err := e.B.LastSequence(e.Ctx, messages.StreamResults); got != want || err != nil {
			e.Fatalf("got %d, %v; want %d", got, err, want)
		}
	}
	expect(0)
	c := newCall("r")
	for range 2 {
		_, err := e.B.PutOnce(e.Ctx, e.result(c, "x"))
		e.must(err)
	}
	expect(1)
}
