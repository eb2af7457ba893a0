package porttest

import (
	"time"

	"mulligan/pkg/messages"
)

func matching(e *Env) {
	want := func(stream messages.Stream, filter string, n uint64) {
		e.Helper()
		got, err := e.B.Matching(e.Ctx, stream, filter)
		if err != nil || got != n {
			e.Fatalf("%s: %d, %v; want %d", filter, got, err, n)
		}
	}
	r, other := newCall("r"), newCall("other")
	want(messages.StreamResults, e.Names.ResultsFilter(r.run), 0)
	for range 3 {
		_, err := e.B.PutOnce(e.Ctx, e.result(newCall("r"), "out"))
		e.must(err)
	}
	_, err := e.B.PutOnce(e.Ctx, e.result(other, "out"))
	e.must(err)
	want(messages.StreamResults, e.Names.ResultsFilter(r.run), 3)
	want(messages.StreamResults, e.Names.ResultsFilter(""), 4)
	want(messages.StreamResults, e.Names.ResultSubject(other.run, other.id), 1)

	e.must(e.B.EnsureQueue(e.Ctx, "counted"))
	for n := range 2 {
		e.must(e.B.Publish(e.Ctx, messages.Message{Subject: e.Names.CallSubject("counted", messages.LaneNormal, r.run, r.id, n), Header: messages.Header{}}))
	}
	want(messages.StreamCalls, e.Names.RunCallsFilter(r.run), 2)
	want(messages.StreamCalls, e.Names.RunFirstCalls(r.run), 1)
	due := messages.Due{Kind: messages.DueRetry, Run: r.run, Call: r.id, N: 1, At: time.Now().Add(time.Hour)}
	e.must(e.B.Schedule(e.Ctx, due))
	want(messages.StreamSchedule, e.Names.RunSchedules(messages.DueRetry, r.run), 1)
	want(messages.StreamSchedule, e.Names.RunFirstSchedules(r.run), 0)
	e.must(e.B.Purge(e.Ctx, e.Names.CallSchedules(r.run, r.id)))
	want(messages.StreamSchedule, e.Names.RunSchedules(messages.DueRetry, r.run), 0)
}

func listHeads(e *Env) {
	heads := func(from uint64, most int) (found []messages.Stored) {
		e.Helper()
		e.must(e.B.ListHeads(e.Ctx, messages.StreamResults, e.Names.ResultsFilter(messages.NamedRun("r")), from, func(m messages.Stored) bool {
			found = append(found, m)
			return len(found) != most
		}))
		return found
	}
	if found := heads(0, 0); len(found) != 0 {
		e.Fatalf("of nothing: %v", found)
	}
	const n = 700 // more than a batch
	var first uint64
	for i := range n {
		c := newCall("r")
		m := e.result(c, "a body")
		_, err := e.B.PutOnce(e.Ctx, m)
		e.must(err)
		if i == 0 {
			s, err := e.B.Get(e.Ctx, m.Subject)
			e.must(err)
			first = s.Sequence
		}
	}
	_, err := e.B.PutOnce(e.Ctx, e.result(newCall("other"), "a body"))
	e.must(err)
	all := heads(0, 0)
	if len(all) != n || all[0].Sequence != first || all[n-1].Sequence != first+n-1 {
		e.Fatalf("%d heads of %d", len(all), n)
	}
	for _, m := range all {
		if len(m.Body) != 0 || m.Header.Get(messages.HeaderCall) == "" || m.Header.Get("Nats-Msg-Size") != "" {
			e.Fatalf("head %+v", m)
		}
	}
	if found := heads(first+n-2, 0); len(found) != 2 {
		e.Fatalf("from the last but one: %d", len(found))
	}
	if found := heads(0, 3); len(found) != 3 {
		e.Fatalf("of at most three: %d", len(found))
	}
}
