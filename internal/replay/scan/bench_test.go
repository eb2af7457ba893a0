package scan

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"mulligan/internal/natstest"
	"mulligan/internal/replay"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// stored is how many failed calls the benchmarks find in a pool, unless
// MULLIGAN_STORED says otherwise; storedShort is that with -short.
const (
	stored      = 50_000
	storedShort = 10_000
)

// full is a pool with that many calls that failed, each with its failure and the decision.
func full(b *testing.B) (*jetstream.Pool, int) {
	b.Helper()
	n := stored
	if testing.Short() {
		n = storedShort
	}
	if text := os.Getenv("MULLIGAN_STORED"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	p := natstest.Start(b)
	names := p.Names()
	var batch []messages.Message
	flush := func() {
		for i, err := range p.PublishAll(b.Context(), batch) {
			if err != nil {
				b.Fatal(batch[i].Subject, err)
			}
		}
		batch = batch[:0]
	}
	for i := range n {
		id, run := messages.NewCallID(), messages.NamedRun(fmt.Sprint("run", i%100))
		text := fmt.Sprintf("order O-%d does not exist in region %d; look it up first with find_orders", i, i%7)
		f, err := names.EncodeFailure(messages.Failure{
			Call:  messages.Call{ID: id, Ref: fmt.Sprint(i), Run: run, Tool: fmt.Sprint("tool", i%40), Queue: "q", Lane: messages.LaneNormal, Effect: messages.Idempotent, Key: id},
			Input: messages.Text(fmt.Sprintf(`{"order":"O-%d","fields":["total","status"],"limit":10}`, i)), Output: messages.Text(text), Error: text, Code: messages.CodeToolError, Executed: true, At: time.Now(),
		})
		if err != nil {
			b.Fatal(err)
		}
		d, err := names.EncodeDecision(messages.Decision{Call: id, Run: run, By: "rules", Rule: "not-found", Action: messages.Fail(text), At: time.Now()})
		if err != nil {
			b.Fatal(err)
		}
		r := names.EncodeResult(messages.Result{Call: id, Ref: fmt.Sprint(i), Run: run, Tool: fmt.Sprint("tool", i%40), Status: messages.Failed, Code: messages.CodeRecoveryGaveUp, IsError: true,
			Attempts: 1, Ended: time.Now(), Output: messages.Text(text), Reason: text, Worker: "w"})
		if batch = append(batch, f, d, r); len(batch) >= 3000 {
			flush()
		}
	}
	flush()
	return p, n
}

// BenchmarkFailures measures how long it takes to list, filter and count the
// calls that failed, and to read the stories that a replay of all of them needs.
func BenchmarkFailures(b *testing.B) {
	p, n := full(b)
	newest := func(b *testing.B, sel *replay.Selection, limit, want int, each func(*replay.Original)) {
		b.Helper()
		for b.Loop() {
			found := 0
			err := (&Scanner{Source: p, Selection: sel}).Newest(b.Context(), 0, limit, func(o *replay.Original) error { found++; each(o); return nil })
			if err != nil || found != want {
				b.Fatal(found, err)
			}
		}
	}
	nothing := func(*replay.Original) {}
	b.Run("page", func(b *testing.B) { newest(b, &replay.Selection{}, 50, 50, nothing) })
	b.Run("page of a run", func(b *testing.B) {
		newest(b, &replay.Selection{Runs: []messages.Run{messages.NamedRun("run7")}}, 50, 50, nothing)
	})
	b.Run("list all", func(b *testing.B) { newest(b, &replay.Selection{}, 0, n, nothing) })
	b.Run("filter by text", func(b *testing.B) {
		newest(b, &replay.Selection{Tools: []string{"tool3"}, Text: regexp.MustCompile(`region [0-6]\b`)}, 0, n/40, nothing)
	})
	b.Run("filter by condition", func(b *testing.B) {
		var sel replay.Selection
		if err := sel.Where(`tool == "tool3" && text contains "region" && attempts == 1`); err != nil {
			b.Fatal(err)
		}
		newest(b, &sel, 0, n/40, nothing)
	})
	b.Run("group", func(b *testing.B) {
		var t replay.Tally
		newest(b, &replay.Selection{}, 0, n, t.Add)
	})
	b.Run("stories", func(b *testing.B) {
		for b.Loop() {
			s := &Scanner{Source: p, Selection: &replay.Selection{}}
			var list []*replay.Original
			if err := s.Results(b.Context(), Range{}, func(o *replay.Original) bool { list = append(list, o); return true }); err != nil {
				b.Fatal(err)
			}
			st, err := s.Stories(b.Context(), list)
			if err != nil {
				b.Fatal(err)
			}
			for _, o := range list {
				if err := st.Fill(b.Context(), o); err != nil || !o.HasInput {
					b.Fatal(o, err)
				}
				o.Forget()
			}
			st.Close()
		}
	})
}
