package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/pkg/messages"
)

func acceptAll(context.Context, messages.Chunk) (messages.ChunkReply, error) {
	return messages.ChunkReply{Version: messages.Version}, nil
}

func newClient(t *testing.T, b Broker, cfg Config) *Client {
	t.Helper()
	c, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func echoes(n int) []messages.Submission {
	calls := make([]messages.Submission, n)
	for i := range calls {
		calls[i] = messages.Submission{Ref: fmt.Sprint(i), Tool: "echo", Input: []byte(`{"i":` + fmt.Sprint(i) + `}`)}
	}
	return calls
}

func TestSubmitCutsChunksByCallsAndBytes(t *testing.T) {
	f := newFake()
	f.submit = acceptAll
	c := newClient(t, f, Config{By: "me", Pipeline: 1})
	calls := echoes(600)
	big := []byte(`{"s":"` + strings.Repeat("x", 100<<10) + `"}`)
	for range 12 {
		calls = append(calls, messages.Submission{Tool: "echo", Input: big})
	}
	refused, err := c.Submit(t.Context(), calls)
	if err != nil || len(refused) != 0 {
		t.Fatalf("refused %v, err %v", refused, err)
	}
	var sent []messages.Submission
	indices := make(map[int]bool)
	for _, ch := range f.chunks(t) {
		if len(ch.Calls) > messages.MaxChunkCalls || ch.Batch != c.Batch().ID() || ch.By != "me" || ch.Repeat || indices[ch.Index] {
			t.Fatalf("chunk %d of batch %s holds %d calls, repeat %v, by %q", ch.Index, ch.Batch, len(ch.Calls), ch.Repeat, ch.By)
		}
		indices[ch.Index] = true
		sent = append(sent, ch.Calls...)
	}
	for _, b := range f.sent() {
		if len(b) > messages.MaxChunkBytes+4096 {
			t.Fatalf("a request of %d bytes", len(b))
		}
	}
	if len(sent) != len(calls) {
		t.Fatalf("%d calls sent, want %d", len(sent), len(calls))
	}
	for i := range sent {
		if sent[i].Call != calls[i].Call || !bytes.Equal(sent[i].Input, calls[i].Input) {
			t.Fatalf("call %d was changed on its way", i)
		}
	}
}

func TestSubmitRepeatsWithTheSameIdsAfterATimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var tries atomic.Int64
		f.submit = func(ctx context.Context, c messages.Chunk) (messages.ChunkReply, error) {
			if tries.Add(1) < 3 {
				<-ctx.Done() // the answer is lost
				return messages.ChunkReply{}, ctx.Err()
			}
			return messages.ChunkReply{}, nil
		}
		c := newClient(t, f, Config{})
		begun := time.Now()
		if _, err := c.Submit(t.Context(), echoes(2)); err != nil {
			t.Fatal(err)
		}
		chunks := f.chunks(t)
		if len(chunks) != 3 {
			t.Fatalf("%d requests, want 3", len(chunks))
		}
		// Who is slow gets more time, and not more requests at the same pace.
		if took := time.Since(begun); took < 30*time.Second || took > 35*time.Second {
			t.Errorf("three requests took %v, want 10s and 20s and the pauses between", took)
		}
		for i, ch := range chunks {
			if ch.Repeat != (i > 0) || ch.RepeatAt.IsZero() || ch.Index != 0 || ch.Calls[0].Call != chunks[0].Calls[0].Call {
				t.Fatalf("request %d: repeat %v, chunk %d, call %s", i, ch.Repeat, ch.Index, ch.Calls[0].Call)
			}
		}
	})
}

func TestSubmitWithoutACoordinatorIsNoRepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		begun := time.Now()
		f.submit = func(context.Context, messages.Chunk) (messages.ChunkReply, error) {
			if time.Since(begun) < 3*time.Second {
				return messages.ChunkReply{}, fmt.Errorf("submit: %w", messages.ErrNoResponder)
			}
			return messages.ChunkReply{}, nil
		}
		c := newClient(t, f, Config{})
		if _, err := c.Submit(t.Context(), echoes(1)); err != nil {
			t.Fatal(err)
		}
		for _, ch := range f.chunks(t) {
			if ch.Repeat {
				t.Fatal("a request that nobody got was repeated as one that may have arrived")
			}
		}
	})
}

func TestSubmitGivesUpAfterItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.submit = func(ctx context.Context, _ messages.Chunk) (messages.ChunkReply, error) {
			<-ctx.Done()
			return messages.ChunkReply{}, ctx.Err()
		}
		c := newClient(t, f, Config{Patience: 30 * time.Second})
		begun := time.Now()
		_, err := c.Submit(t.Context(), echoes(3))
		var u *UncertainError
		if !errors.As(err, &u) || u.Calls != 3 {
			t.Fatalf("err %v", err)
		}
		if d := time.Since(begun); d < 30*time.Second || d > 45*time.Second {
			t.Fatalf("gave up after %s", d)
		}

		f.submit = func(context.Context, messages.Chunk) (messages.ChunkReply, error) {
			return messages.ChunkReply{}, messages.ErrNoResponder
		}
		if _, err = c.Submit(t.Context(), echoes(3)); errors.As(err, &u) || !errors.Is(err, messages.ErrNoResponder) {
			t.Fatalf("what nobody got is not uncertain: %v", err)
		}
	})
}

// A full queue is waited for as its hint says, only with the calls that it
// refused, and for as long as there is progress.
func TestSubmitWaitsForAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
			var r messages.ChunkReply
			for _, s := range c.Calls[10:] {
				r.Refused = append(r.Refused, messages.Refusal{Call: s.Call, Code: messages.CodeQueueFull, Text: "queue is full", RetryAfter: messages.Millis(40 * time.Second)})
			}
			return r, nil
		}
		c := newClient(t, f, Config{Patience: time.Minute})
		begun := time.Now()
		calls := echoes(34)
		f2 := f.submit
		f.submit = func(ctx context.Context, ch messages.Chunk) (messages.ChunkReply, error) {
			if len(ch.Calls) <= 10 {
				return messages.ChunkReply{}, nil
			}
			return f2(ctx, ch)
		}
		refused, err := c.Submit(t.Context(), calls)
		if err != nil || len(refused) != 0 {
			t.Fatalf("refused %d, err %v", len(refused), err)
		}
		if d := time.Since(begun); d != 120*time.Second {
			t.Fatalf("took %s, want three waits of 40 s", d)
		}
		for i, ch := range f.chunks(t) {
			if want := 34 - 10*i; len(ch.Calls) != want || ch.Index != i || ch.Repeat {
				t.Fatalf("request %d: chunk %d of %d calls, repeat %v; want %d calls", i, ch.Index, len(ch.Calls), ch.Repeat, want)
			}
		}

		f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
			return messages.ChunkReply{Refused: []messages.Refusal{{Call: c.Calls[0].Call, Code: messages.CodeQueueFull, Text: "queue is full", RetryAfter: messages.Millis(time.Second)}}}, nil
		}
		begun = time.Now()
		refused, err = c.Submit(t.Context(), echoes(1))
		if err != nil || len(refused) != 1 || refused[0].Code != messages.CodeQueueFull || refused[0].Ref != "0" {
			t.Fatalf("refused %v, err %v", refused, err)
		}
		if d := time.Since(begun); d < 55*time.Second || d > time.Minute {
			t.Fatalf("was patient for %s", d)
		}
	})
}

// The answer to the first copy was lost, and the second finds the queue full
// of that first copy: the calls were accepted, whatever the second answer says.
// A broker in an election, which answers nothing for a moment, leaves no doubt.
func TestSubmitDoesNotReportWhatAnEarlierCopyBroughtIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.submit = func(ctx context.Context, c messages.Chunk) (messages.ChunkReply, error) {
			if !c.Repeat {
				queued, ended, failed := c.Calls[0], c.Calls[1], c.Calls[2]
				run := messages.UnnamedRun(c.Batch)
				f.put(messages.StreamCalls, messages.Message{Subject: f.Names().CallSubject("default", messages.LaneNormal, run, queued.Call, 0)})
				f.end(messages.Chunk{Batch: c.Batch, Calls: []messages.Submission{ended}}, nil)
				f.put(messages.StreamRecovery, messages.Message{Subject: f.Names().FailureSubject(run, failed.Call, 0)})
				<-ctx.Done()
				return messages.ChunkReply{}, ctx.Err()
			}
			var r messages.ChunkReply
			for _, s := range c.Calls {
				r.Refused = append(r.Refused, messages.Refusal{Call: s.Call, Code: messages.CodeDeadlinePassed, Text: "too late"})
			}
			return r, nil
		}
		f.reads = 3
		c := newClient(t, f, Config{})
		calls := echoes(4)
		refused, err := c.Submit(t.Context(), calls)
		if err != nil || len(refused) != 1 || refused[0].Call != calls[3].Call {
			t.Fatalf("refused %v, err %v; want the fourth only", refused, err)
		}
	})
}

// What a coordinator could not store may be there all the same: sent again, it
// is a repetition. What it had no room for is not.
func TestP7_11_WhatMayBeStoredIsSentAgainAsARepetition(t *testing.T) {
	for code, want := range map[messages.Code]bool{messages.CodeNotStored: true, messages.CodeQueueFull: false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
				if c.Index > 0 {
					return messages.ChunkReply{}, nil
				}
				return messages.ChunkReply{Refused: []messages.Refusal{{Call: c.Calls[1].Call, Code: code, Text: "again", RetryAfter: messages.Millis(time.Second)}}}, nil
			}
			c := newClient(t, f, Config{})
			if refused, err := c.Submit(t.Context(), echoes(2)); err != nil || len(refused) > 0 {
				t.Fatalf("%s: refused %v, err %v", code, refused, err)
			}
			chunks := f.chunks(t)
			if len(chunks) != 2 || chunks[0].Repeat || chunks[1].Repeat != want || len(chunks[1].Calls) != 1 {
				t.Errorf("%s: sent %+v", code, chunks)
			}
		})
	}
}

func TestSubmitRefusesLocallyWhatWouldBeAltered(t *testing.T) {
	f := newFake()
	f.submit = acceptAll
	c := newClient(t, f, Config{})
	long := strings.Repeat("t", 300<<10)
	for _, tc := range []struct {
		name string
		call messages.Submission
		code messages.Code
		text string
	}{
		{"too large", messages.Submission{Tool: "echo", Input: make([]byte, messages.MaxPayload+1)}, messages.CodeTooLarge, "16777217 bytes"},
		{"not UTF-8", messages.Submission{Tool: "echo", Input: []byte("{\"a\":\"\xff\"}")}, messages.CodeBadCall, "input is not valid UTF-8 at byte 6 (0xff)"},
		{"ref not UTF-8", messages.Submission{Tool: "echo", Ref: "\x80"}, messages.CodeBadCall, "ref is not valid UTF-8 at byte 0"},
		{"label not UTF-8", messages.Submission{Tool: "echo", Labels: messages.Labels{"a": "\x80"}}, messages.CodeBadCall, "label"},
		{"long task", messages.Submission{Tool: "echo", Task: long}, messages.CodeTooLarge, "shorten the task"},
		{"foreign id", messages.Submission{Tool: "echo", Call: "7"}, messages.CodeBadCall, "leave it empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			calls := []messages.Submission{{Tool: "echo", Input: []byte("{}")}, tc.call, {Tool: "echo", Input: []byte("{}")}}
			refused, err := c.Submit(t.Context(), calls)
			if err != nil || len(refused) != 1 || refused[0].Code != tc.code || !strings.Contains(refused[0].Text, tc.text) {
				t.Fatalf("refused %v, err %v", refused, err)
			}
			chunks := f.chunks(t)
			if n := len(chunks[len(chunks)-1].Calls); n != 2 {
				t.Fatalf("%d siblings were sent, want 2", n)
			}
		})
	}
}

func TestSubmitUploadsALargeInput(t *testing.T) {
	f := newFake()
	f.submit = acceptAll
	c := newClient(t, f, Config{})
	in := []byte(`{"s":"` + strings.Repeat(`\"`, 70<<10) + `"}`) // 140 KiB as it is, more inside JSON
	calls := []messages.Submission{{Tool: "echo", Input: in}}
	if _, err := c.Submit(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	s := f.chunks(t)[0].Calls[0]
	if s.Payload == nil || len(s.Input) != 0 || !bytes.Equal(f.payloads[s.Payload.Digest], in) {
		t.Fatalf("sent %d bytes inline, payload %v", len(s.Input), s.Payload)
	}
	if !bytes.Equal(calls[0].Input, in) {
		t.Fatal("the caller's own input was taken away")
	}
}

// A chunk is answered when all of its inputs were read, so they are bounded too.
// A broker that is away for a moment leaves no submission in doubt.
func TestSubmitUploadsUntilItIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.uploads = 4
		f.submit = func(context.Context, messages.Chunk) (messages.ChunkReply, error) { return messages.ChunkReply{}, nil }
		c := newClient(t, f, Config{})
		large := messages.Submission{Tool: "echo", Input: []byte(`"` + strings.Repeat("x", messages.MaxInline) + `"`)}
		refused, err := c.Submit(t.Context(), []messages.Submission{large})
		if err != nil || len(refused) > 0 || len(f.payloads) != 1 {
			t.Fatalf("%v, %v, %d payloads", refused, err, len(f.payloads))
		}
	})
}

func TestSubmitBoundsTheUploadsOfAChunk(t *testing.T) {
	f := newFake()
	f.submit = acceptAll
	c := newClient(t, f, Config{})
	var calls []messages.Submission
	for range 9 {
		calls = append(calls, messages.Submission{Tool: "echo", Input: []byte(`{"s":"` + strings.Repeat("x", 5<<20) + `"}`)})
	}
	calls = append(calls, messages.Submission{Tool: "echo", Input: []byte(`{"s":"` + strings.Repeat("x", messages.MaxPayload-8) + `"}`)})
	if _, err := c.Submit(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, chunk := range f.chunks(t) {
		var uploaded int64
		for _, s := range chunk.Calls {
			uploaded += s.Payload.Size
			sent++
		}
		if uploaded > messages.MaxPayload {
			t.Errorf("a chunk refers to %d bytes", uploaded)
		}
	}
	if sent != len(calls) {
		t.Errorf("%d calls were sent", sent)
	}
}

func TestSubmitToldOfAnUnreadableChunk(t *testing.T) {
	f := newFake()
	f.submit = func(context.Context, messages.Chunk) (messages.ChunkReply, error) {
		return messages.ChunkReply{Code: messages.CodeVersion, Error: "version 1 is not read here"}, nil
	}
	c := newClient(t, f, Config{})
	_, err := c.Submit(t.Context(), echoes(1))
	var ce *ChunkError
	if !errors.As(err, &ce) || ce.Code != messages.CodeVersion || len(f.sent()) != 1 {
		t.Fatalf("err %v after %d requests", err, len(f.sent()))
	}
}

func TestOpenBatchKeepsRunsAndGoesOnCounting(t *testing.T) {
	f := newFake()
	f.submit = acceptAll
	c := newClient(t, f, Config{})
	if _, err := c.OpenBatch("x", 0); err == nil {
		t.Fatal("a batch id that is no UUID was taken")
	}
	id := messages.NewCallID()
	b, err := c.OpenBatch(id, 7)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Resubmit(t.Context(), echoes(1)); err != nil {
		t.Fatal(err)
	}
	if ch := f.chunks(t)[0]; ch.Batch != id || ch.Index != 7 || !ch.Repeat {
		t.Fatalf("sent %+v", ch)
	}
	if b.Run("") != messages.UnnamedRun(id) || b.Run("a.b") != messages.NamedRun("a.b") {
		t.Fatal("runs of the batch")
	}
}

func TestConfigNamesWhatCannotBeUsed(t *testing.T) {
	for _, cfg := range []Config{{RequestTimeout: -1}, {Pipeline: -1}, {Pipeline: 1000}} {
		if _, err := New(newFake(), cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}
