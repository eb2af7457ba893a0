package messages_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"mulligan/pkg/messages"
)

// anyName draws a name that a submitter may give.
func anyName(limit int) *rapid.Generator[string] {
	return anyText().Filter(func(s string) bool { return s != "" && len(s) <= limit })
}

func anyRun() *rapid.Generator[messages.Run] {
	return rapid.OneOf(
		rapid.Map(anyName(messages.MaxName), messages.NamedRun),
		rapid.Map(anyUUID(), func(u uuid.UUID) messages.Run { return messages.UnnamedRun(u.String()) }),
	)
}

func anyUUID() *rapid.Generator[uuid.UUID] {
	return rapid.Map(rapid.SliceOfN(rapid.Byte(), 16, 16), func(b []byte) uuid.UUID { return uuid.UUID(b) })
}

func anyCallID() *rapid.Generator[string] {
	return rapid.Map(anyUUID(), func(u uuid.UUID) string {
		u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
		return u.String()
	})
}

func anyPool() *rapid.Generator[messages.Pool] {
	return rapid.Map(rapid.StringMatching(`[a-z][a-z0-9_]{0,31}`), func(prefix string) messages.Pool {
		p, err := messages.NewPool(prefix)
		if err != nil {
			panic(err)
		}
		return p
	})
}

// TestParseReadsEveryBuilder: what a subject says is what it was built from.
func TestParseReadsEveryBuilder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, run, call := anyPool().Draw(t, "pool"), anyRun().Draw(t, "run"), anyCallID().Draw(t, "call")
		queue := anyName(messages.MaxQueueName).Draw(t, "queue")
		lane := rapid.SampledFrom(messages.Lanes()).Draw(t, "lane")
		n := rapid.IntRange(0, messages.MaxDispatches).Draw(t, "n")
		k := rapid.IntRange(1, messages.MaxMarks).Draw(t, "k")
		for _, tc := range []struct {
			subject string
			want    messages.Address
			stream  messages.Stream
		}{
			{p.CallSubject(queue, lane, run, call, n), messages.Address{Kind: messages.KindCall, Queue: queue, Lane: lane, N: n}, messages.StreamCalls},
			{p.ResultSubject(run, call), messages.Address{Kind: messages.KindResult}, messages.StreamResults},
			{p.StartSubject(run, call, n), messages.Address{Kind: messages.KindStart, N: n}, messages.StreamRecovery},
			{p.MarkSubject(run, call, n, k), messages.Address{Kind: messages.KindStart, N: n, K: k}, messages.StreamRecovery},
			{p.FailureSubject(run, call, n), messages.Address{Kind: messages.KindFailure, N: n}, messages.StreamRecovery},
			{p.DecisionSubject(run, call, n), messages.Address{Kind: messages.KindDecision, N: n}, messages.StreamRecovery},
			{p.AnswerSubject(run, call, n), messages.Address{Kind: messages.KindAnswer, N: n}, messages.StreamRecovery},
			{p.SettledSubject(run, call, n), messages.Address{Kind: messages.KindSettled, N: n}, messages.StreamRecovery},
			{p.CancelSubject(run, call), messages.Address{Kind: messages.KindCancel}, messages.StreamRecovery},
			{p.LateSubject(run, call, n, "t1"), messages.Address{Kind: messages.KindLate, N: n, Token: "t1"}, messages.StreamRecovery},
		} {
			tc.want.Run, tc.want.Call = run, call
			got, err := p.Parse(tc.subject)
			if err != nil {
				t.Fatalf("Parse(%q): %v", tc.subject, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Fatalf("Parse(%q) (-want +got)\n%s", tc.subject, diff)
			}
			if s, ok := p.StreamOf(tc.subject); !ok || s != tc.stream {
				t.Fatalf("StreamOf(%q) = %s, %t", tc.subject, s, ok)
			}
		}
	})
}

func TestParseWholeRun(t *testing.T) {
	a, err := pool.Parse(pool.CancelSubject(run, messages.WholeRun))
	if err != nil || a != (messages.Address{Kind: messages.KindCancel, Run: run, Call: messages.WholeRun}) {
		t.Fatalf("got %+v, %v", a, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{
		"", "mulligan", "mulligan.result", "mulligan.result.r", "other.result.r." + callID,
		"mulligan.result.r." + callID + ".0", "mulligan.result.r.not-an-id", "mulligan.result.r._", "mulligan.result.." + callID,
		"mulligan.failure.r." + callID, "mulligan.failure.r." + callID + ".26", "mulligan.failure.r." + callID + ".-1",
		"mulligan.failure.r." + callID + ".00", "mulligan.failure.r." + callID + ".+1", "mulligan.start.r." + callID + ".0.0",
		"mulligan.start.r." + callID + ".0.5", "mulligan.start.r." + callID + ".0.01", "mulligan.start.r." + callID + ".0.1.1",
		"mulligan.call.q.normal.r." + callID, "mulligan.call.q.fast.r." + callID + ".0", "mulligan.call.=q.normal.r." + callID + ".0",
		"mulligan.call.q..r." + callID + ".0", "mulligan.late.r." + callID + ".0", "mulligan.bogus.r." + callID, "mulligan.failure.=r." + callID + ".0",
		"mulligan.failure./not-a-uuid." + callID + ".0", "mulligan.failure.r." + strings.ToUpper(callID) + ".0",
	} {
		if a, err := pool.Parse(s); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", s, a)
		}
	}
}

// matches says whether a subject filter of the broker matches a subject.
func matches(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, tok := range f {
		switch {
		case tok == ">":
			return len(s) > i
		case i >= len(s) || tok != "*" && tok != s[i]:
			return false
		}
	}
	return len(f) == len(s)
}

func TestFiltersMatchWhatTheySay(t *testing.T) {
	other, otherRun := messages.NewCallID(), messages.NamedRun("other run")
	queued := func(r messages.Run, c string) string { return pool.CallSubject("q", messages.LaneHigh, r, c, 3) }
	result := pool.ResultSubject
	sched := func(r messages.Run, c string) string {
		return pool.ScheduleSubject(messages.Due{Kind: messages.DueRetry, Run: r, Call: c, N: 1})
	}
	story := func(r messages.Run, c string) string { return pool.FailureSubject(r, c, 0) }
	cancel := pool.CancelSubject
	for _, tc := range []struct {
		name, filter string
		subject      func(messages.Run, string) string
		wholeRun     bool
	}{
		{"queued call", pool.CallFilter(run, callID), queued, false},
		{"queued run", pool.RunCallsFilter(run), queued, true},
		{"results of a run", pool.ResultsFilter(run), result, true},
		{"schedules", pool.CallSchedules(run, callID), sched, false},
		{"story", pool.StoryFilters(run, callID)[0], story, false},
		{"story's cancel", pool.StoryFilters(run, callID)[1], cancel, false},
	} {
		if s := tc.subject(run, callID); !matches(tc.filter, s) {
			t.Errorf("%s: %q does not match %q", tc.name, tc.filter, s)
		}
		if s := tc.subject(run, other); matches(tc.filter, s) != tc.wholeRun {
			t.Errorf("%s: %q and %q, another call of the run", tc.name, tc.filter, s)
		}
		if s := tc.subject(otherRun, callID); matches(tc.filter, s) {
			t.Errorf("%s: %q matches %q, of another run", tc.name, tc.filter, s)
		}
	}
	if !matches(pool.LaneFilter("q", messages.LaneHigh), queued(run, callID)) || matches(pool.LaneFilter("q", messages.LaneLow), queued(run, callID)) {
		t.Error("LaneFilter takes another lane, or not its own")
	}
	if !matches(pool.QueueFilter("q"), queued(run, callID)) || matches(pool.QueueFilter("p"), queued(run, callID)) {
		t.Error("QueueFilter takes another queue, or not its own")
	}
	if !matches(pool.ResultsFilter(""), result(run, callID)) {
		t.Error("ResultsFilter of no run does not match all")
	}
	if live := strings.Replace(result(run, callID), "mulligan.", "mulligan.live.", 1); !matches(pool.LiveResultsFilter(run), live) {
		t.Errorf("LiveResultsFilter does not match %q", live)
	}
}

// TestNamesFitTheBroker: the broker takes consumer names up to 200 bytes for sure,
// which are also names of folders.
func TestNamesFitTheBroker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue := anyName(messages.MaxQueueName).Draw(t, "queue")
		for _, lane := range messages.Lanes() {
			if name := pool.LaneConsumer(queue, lane); len(name) > 200 {
				t.Fatalf("consumer of queue %q: name of %d bytes", queue, len(name))
			}
		}
	})
	if name := pool.LaneConsumer(strings.Repeat(".", messages.MaxQueueName), messages.LaneNormal); len(name) > 200 {
		t.Fatalf("longest queue: consumer name of %d bytes", len(name))
	}
	longest := messages.NamedRun(strings.Repeat(".", messages.MaxName))
	if s := pool.CallSubject(strings.Repeat(".", messages.MaxQueueName), messages.LaneNormal, longest, callID, 25); len(s) > 3000 {
		t.Fatalf("longest subject is %d bytes, too near to the 4096 of a protocol line", len(s))
	}
}

func TestScheduleSubjectsDifferByRank(t *testing.T) {
	seen := map[string]messages.Due{}
	for _, kind := range []messages.DueKind{messages.DueRetry, messages.DueAnswerBy, messages.DueDeadline} {
		for n := range 3 {
			for w := range 3 {
				d := messages.Due{Kind: kind, Run: run, Call: callID, N: n, W: w}
				s := pool.ScheduleSubject(d)
				if was, ok := seen[s]; ok {
					t.Errorf("%+v and %+v share %q", was, d, s)
				}
				seen[s] = d
			}
		}
	}
	if got, want := pool.ScheduleSubject(messages.Due{Kind: messages.DueDeadline, Run: "r"}), "mulligan.sched.deadline.r._.0.0"; got != want {
		t.Errorf("deadline of a run: %q, want %q", got, want)
	}
}

func TestDueSubjectSpreads(t *testing.T) {
	seen := map[string]int{}
	for range 800 {
		d := messages.Due{Run: run, Call: messages.NewCallID()}
		if a, b := pool.DueSubject(d), pool.DueSubject(d); a != b {
			t.Fatalf("one call, two partitions: %q and %q", a, b)
		}
		seen[pool.DueSubject(d)]++
	}
	for s, n := range seen {
		if n < 30 {
			t.Errorf("%s got %d of 800", s, n)
		}
	}
	if len(seen) != messages.DuePartitions {
		t.Errorf("%d partitions used, want %d", len(seen), messages.DuePartitions)
	}
}

func TestNewPool(t *testing.T) {
	for _, bad := range []string{"Mulligan", "a.b", "1a", "a-b", "a b", strings.Repeat("a", 33), "_a"} {
		if _, err := messages.NewPool(bad); err == nil {
			t.Errorf("NewPool(%q) is accepted", bad)
		}
	}
	p, err := messages.NewPool("")
	if err != nil || p.Prefix() != "mulligan" || p.StreamName(messages.StreamCalls) != "MULLIGAN_CALLS" || p.BucketName(messages.BucketTools) != "MULLIGAN_TOOLS" {
		t.Errorf("NewPool(\"\") = %+v, %v", p, err)
	}
}

func TestStreamOfNone(t *testing.T) {
	for _, s := range []string{"", "other.call.x", "mulligan", "mulligan.live.result.a.b", "mulligan.svc.submit"} {
		if st, ok := pool.StreamOf(s); ok {
			t.Errorf("StreamOf(%q) = %s", s, st)
		}
	}
	if st, ok := pool.StreamOf(pool.PayloadSubject(digest, 0)); !ok || st != messages.StreamPayloads {
		t.Errorf("payload: %s, %t", st, ok)
	}
	if st, ok := pool.StreamOf("mulligan.due.3"); !ok || st != messages.StreamSchedule {
		t.Errorf("due: %s, %t", st, ok)
	}
}
