//go:build unix

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"mulligan/pkg/messages"
)

func isDeadline(subject string) bool { return strings.Contains(subject, ".sched.deadline.") }

// collect reads the streams, when nothing moves any more.
func (t *trial) collect(ctx context.Context) error {
	h, pool := &t.history, t.cluster.pool
	h.Handed, h.Again = t.cluster.handed.count()
	var err error
	if h.Left, err = t.left(ctx); err != nil {
		return err
	}
	if h.Written, err = pool.LastSequence(ctx, messages.StreamResults); err != nil {
		return err
	}
	var unreadable error
	err = pool.List(ctx, messages.StreamResults, nil, func(m messages.Stored) bool {
		r, err := h.Names.DecodeResult(m.Message)
		if err != nil {
			unreadable = fmt.Errorf("%s: %w", m.Subject, err)
		}
		h.Results, h.Stored = append(h.Results, r), append(h.Stored, m.Time)
		return true
	})
	if err != nil || unreadable != nil {
		return fmt.Errorf("read RESULTS: %w", firstOf(err, unreadable))
	}
	err = pool.List(ctx, messages.StreamRecovery, nil, func(m messages.Stored) bool {
		h.Story = append(h.Story, m)
		return true
	})
	if err != nil {
		return fmt.Errorf("read RECOVERY: %w", err)
	}
	entries, err := pool.Entries(ctx, messages.BucketAttempts, ">")
	if err != nil {
		return fmt.Errorf("read ATTEMPTS: %w", err)
	}
	for _, e := range entries {
		if e.Key == registerKey {
			continue
		}
		r, err := messages.DecodeRecord(e.Value)
		if err != nil {
			return fmt.Errorf("record %s: %w", e.Key, err)
		}
		h.Records = append(h.Records, r)
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// watchRecords keeps the versions of the records as they come by. Some may be
// missed while the broker is away; those that are seen are in order.
func (t *trial) watchRecords(ctx context.Context) {
	seen := make(map[string]uint64)
	for ctx.Err() == nil {
		_ = t.cluster.pool.Watch(ctx, messages.BucketAttempts, ">", func() {}, func(e messages.Entry) { // begun again below
			r, err := messages.DecodeRecord(e.Value)
			if err != nil || e.Revision <= seen[e.Key] {
				return
			}
			seen[e.Key] = e.Revision
			t.mu.Lock()
			defer t.mu.Unlock()
			t.history.Versions[e.Key] = append(t.history.Versions[e.Key], messages.Record{N: r.N, W: r.W, State: r.State}) // all that is checked
		})
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// answerAll is the human: it answers every question with what the seed says.
func (t *trial) answerAll(ctx context.Context) {
	r := rand.New(rand.NewPCG(t.plan.Seed, 3))
	for {
		select {
		case <-time.After(400 * time.Millisecond):
		case <-ctx.Done():
			return
		}
		var asked []messages.Due
		_ = t.cluster.pool.List(ctx, messages.StreamSchedule, []string{t.history.Names.ParkedFilter("*", "*")}, func(m messages.Stored) bool { // listed again in a moment
			if d, err := messages.DecodeStory[messages.Due](m.Body); err == nil {
				asked = append(asked, d)
			}
			return true
		})
		for _, a := range asked {
			kind := []messages.AnswerKind{messages.AnswerRetry, messages.AnswerSkip, messages.AnswerFail}[r.IntN(3)]
			t.answer(ctx, messages.AnswerRequest{Run: a.Run, Call: a.Call, Dispatch: a.N, Kind: kind, By: "chaos"})
		}
	}
}

func (t *trial) answer(ctx context.Context, q messages.AnswerRequest) {
	b, err := messages.EncodeService(q)
	if err != nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	_, _ = t.cluster.pool.Request(ctx, messages.EndpointAnswer, b) // asked again while the question stands
}
