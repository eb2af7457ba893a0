package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// A small store under more than it can hold: what is accepted ends, what finds
// no room is refused with a text, and when there is room again it goes on.
func TestAFullStoreRefusesAndWhatItTookEnds(t *testing.T) {
	p := startPool(t, Config{StoreLimit: 1 << 20})
	b, err := p.Connect(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(b, client.Config{Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		b.Close()
	})
	const n = 30
	text := strings.Repeat("a", 60_000)
	call := func(tool string) messages.Submission {
		return messages.Submission{Call: messages.NewCallID(), Tool: tool, Input: fmt.Appendf(nil, `{"text":%q}`, text)}
	}
	// try ends within its time, with how the call ended or why it was refused.
	try := func(ctx context.Context, s messages.Submission) (ended bool, refusal string) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		batch, err := c.OpenBatch(messages.NewCallID(), 0)
		if err != nil {
			t.Error(err)
			return false, ""
		}
		from, err := c.Position(ctx)
		if err != nil {
			t.Error(err)
			return false, ""
		}
		refused, err := batch.Submit(ctx, []messages.Submission{s})
		for err != nil && ctx.Err() == nil { // a busy machine may not answer in time; the same call again is no other
			refused, err = batch.Submit(ctx, []messages.Submission{s})
		}
		if err != nil {
			t.Errorf("submit: %v", err)
			return false, ""
		}
		if len(refused) > 0 {
			if refused[0].Code != messages.CodeQueueFull || refused[0].RetryAfter == 0 {
				t.Errorf("refused with %+v", refused[0])
			}
			return false, refused[0].Text
		}
		err = c.Wait(ctx, from, map[string]messages.Run{s.Call: batch.Run("")}, func(r messages.Result) error {
			if r.Status != messages.Succeeded {
				return errors.New(r.Reason)
			}
			return nil
		})
		if err != nil {
			t.Errorf("an accepted call: %v", err)
		}
		return err == nil, ""
	}
	var mu sync.Mutex
	ends, refusals := 0, 0
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			tool := "upper"
			if i%3 == 2 {
				tool = "flaky"
			}
			ended, refusal := try(t.Context(), call(tool))
			mu.Lock()
			defer mu.Unlock()
			if ended {
				ends++
			}
			if refusal != "" {
				refusals++
				if !strings.Contains(refusal, "store is full") {
					t.Errorf("refused: %s", refusal)
				}
			}
		})
	}
	all.Wait()
	if ends == 0 || refusals == 0 || ends+refusals != n {
		t.Errorf("of %d calls %d ended and %d were refused", n, ends, refusals)
	}
	for _, filter := range []string{"mulligan.result.>", "mulligan.failure.>", "mulligan.decision.>"} {
		if err := b.Purge(t.Context(), filter); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(patience)
	for ended := false; !ended; {
		if ended, _ = try(t.Context(), call("upper")); !ended && time.Now().After(deadline) {
			t.Fatal("it does not go on when there is room")
		}
	}
}

// A folder is opened with a smaller limit, as after its disk has filled, and
// with a larger one.
func TestAPoolStartsWithAnotherStoreLimit(t *testing.T) {
	dir := t.TempDir()
	for _, limit := range []int64{1 << 30, 2 << 20, 1 << 30} {
		p, err := Start(t.Context(), Config{Dir: dir, StoreLimit: limit, Tools: tools()})
		if err != nil {
			t.Fatalf("with %d bytes: %v", limit, err)
		}
		stop(t, p)
	}
}
