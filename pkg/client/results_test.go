package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"mulligan/pkg/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCallReturnsTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
			go func() {
				<-time.After(time.Second) // by the clock of the bubble
				f.end(c, nil)
			}()
			return messages.ChunkReply{}, nil
		}
		c := newClient(t, f, Config{})
		defer c.Close()
		r, err := c.Call(t.Context(), messages.Submission{Tool: "echo", Input: []byte(`{"a":1}`)})
		if err != nil || r.Status != messages.Succeeded || string(r.Output.Inline) != `{"a":1}` {
			t.Fatalf("result %+v, err %v", r, err)
		}
	})
}

// The result may be stored before the answer to the submission arrives.
func TestCallSeesAResultThatIsFasterThanTheAnswer(t *testing.T) {
	f := newFake()
	f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
		f.end(c, nil)
		return messages.ChunkReply{}, nil
	}
	c := newClient(t, f, Config{})
	for _, run := range []string{"", "named", "named"} {
		if _, err := c.Call(t.Context(), messages.Submission{Tool: "echo", Run: run, Input: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCallsShareAReaderOfTheirRun(t *testing.T) {
	f := newFake()
	f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
		f.end(c, nil)
		return messages.ChunkReply{}, nil
	}
	c := newClient(t, f, Config{})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			r, err := c.Call(t.Context(), messages.Submission{Tool: "echo", Ref: fmt.Sprint(i), Input: []byte(`{}`)})
			if err != nil || r.Ref != fmt.Sprint(i) {
				t.Errorf("call %d: %v, ref %q", i, err, r.Ref)
			}
		})
	}
	wg.Wait()
	if follows := f.followed(); len(follows) != 1 || !strings.Contains(follows[0], "result./"+c.Batch().ID()) {
		t.Fatalf("%d readers: %v", len(follows), follows)
	}
}

func TestCallRefusedIsAnErrorOfItsOwn(t *testing.T) {
	f := newFake()
	f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
		return messages.ChunkReply{Refused: []messages.Refusal{{Call: c.Calls[0].Call, Code: messages.CodeUnknownTool, Text: "tool 'ecco' is not available"}}}, nil
	}
	c := newClient(t, f, Config{})
	_, err := c.Call(t.Context(), messages.Submission{Tool: "ecco", Input: []byte(`{}`)})
	var re *RefusedError
	if !errors.As(err, &re) || re.Code != messages.CodeUnknownTool || err.Error() != "tool 'ecco' is not available" {
		t.Fatalf("err %v", err)
	}
}

// A call that brings its id is found again, whether it has ended or not, also
// without a run: its batch is then named by its id.
func TestCallAttachesToAnEarlierSubmission(t *testing.T) {
	f := newFake()
	f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
		if !c.Repeat {
			return messages.ChunkReply{Error: "not marked as a repetition", Code: messages.CodeBadCall}, nil
		}
		f.end(c, nil)
		return messages.ChunkReply{}, nil
	}
	call := messages.Submission{Call: messages.NewCallID(), Tool: "echo", Input: []byte(`{}`)}
	first := newClient(t, f, Config{})
	if _, err := first.Call(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	second := newClient(t, f, Config{})
	r, err := second.Call(t.Context(), call)
	if err != nil || r.Call != call.Call {
		t.Fatalf("result %+v, err %v", r, err)
	}
	if n := len(f.sent()); n != 1 {
		t.Fatalf("submitted %d times, want once", n)
	}
}

func TestCallLeavesTheCallBehindWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.submit = acceptAll
		c := newClient(t, f, Config{})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Call(ctx, messages.Submission{Tool: "echo", Run: "r", Input: []byte(`{}`)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err %v", err)
		}
		synctest.Wait()
		if len(c.hub.readers) != 0 {
			t.Fatal("the reader of the run goes on for nobody")
		}
	})
}

func TestCloseEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.submit = acceptAll
		c := newClient(t, f, Config{})
		errs := make(chan error, 1)
		go func() {
			_, err := c.Call(t.Context(), messages.Submission{Tool: "echo", Input: []byte(`{}`)})
			errs <- err
		}()
		synctest.Wait()
		c.Close()
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Fatalf("err %v", err)
		}
		if _, err := c.Call(t.Context(), messages.Submission{Tool: "echo", Input: []byte(`{}`)}); !errors.Is(err, ErrClosed) {
			t.Fatalf("after Close: %v", err)
		}
	})
}

func TestCallTellsThatItsReaderBroke(t *testing.T) {
	f := newFake()
	f.submit = acceptAll
	f.followErr = errors.New("permission denied")
	c := newClient(t, f, Config{})
	if _, err := c.Call(t.Context(), messages.Submission{Tool: "echo", Input: []byte(`{}`)}); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Fatalf("err %v", err)
	}
}

func TestResultsFromAPositionOnceEach(t *testing.T) {
	f := newFake()
	f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
		f.end(c, nil)
		f.put(messages.StreamResults, messages.Message{Subject: "mulligan.result.x.y"}) // of somebody else, unreadable
		return messages.ChunkReply{}, nil
	}
	c := newClient(t, f, Config{})
	if _, err := c.Submit(t.Context(), echoes(3)); err != nil {
		t.Fatal(err)
	}
	from, err := c.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	calls := echoes(40)
	for i := range calls {
		calls[i].Run = fmt.Sprintf("run %d", i%36)
	}
	if _, err := c.Submit(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	f.twice = true
	for _, runs := range []int{1, 36} { // with a filter, and with too many for one
		wanted := make(map[string]messages.Run)
		for _, s := range calls {
			var k int
			if _, err := fmt.Sscanf(s.Run, "run %d", &k); err == nil && k < runs {
				wanted[s.Call] = c.Batch().Run(s.Run)
			}
		}
		seen := make(map[string]int)
		err := c.Wait(t.Context(), from, wanted, func(r messages.Result) error {
			seen[r.Call]++
			return nil
		})
		all := make(map[string]bool)
		if rerr := c.Results(t.Context(), Query{From: from}, func(r messages.Result) error {
			if all[r.Call] {
				return errors.New("call " + r.Call + " came twice")
			}
			if all[r.Call] = true; len(all) == len(calls) {
				return ErrStop
			}
			return nil
		}); rerr != nil {
			t.Fatal(rerr)
		}
		if err != nil || len(seen) != len(wanted) {
			t.Fatalf("%d runs: %d results of %d, err %v", runs, len(seen), len(wanted), err)
		}
		for call, n := range seen {
			if n != 1 {
				t.Fatalf("call %s was handed over %d times", call, n)
			}
		}
	}
	follows := f.followed()
	if broad := follows[len(follows)-1]; broad != "mulligan.result.>" {
		t.Fatalf("36 runs were filtered by %q", broad)
	}
}

// Whoever waits for a call is told that its result is of a later version, and
// does not wait for ever; those who wait for other calls do not notice.
func TestAResultOfALaterVersionIsToldToWhoWaitsForIt(t *testing.T) {
	f := newFake()
	f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
		for _, s := range c.Calls {
			m := f.Names().EncodeResult(messages.Result{Call: s.Call, Run: messages.UnnamedRun(c.Batch), Tool: s.Tool, Status: messages.Succeeded, Attempts: 1})
			if s.Tool == "new" {
				m.Header.Set(messages.HeaderVersion, "2")
			}
			f.put(messages.StreamResults, m)
		}
		return messages.ChunkReply{}, nil
	}
	c := newClient(t, f, Config{})
	defer c.Close()
	unread := func(what string, err error, call string) {
		t.Helper()
		var u *UnreadableError
		var v *messages.VersionError
		if !errors.As(err, &u) || call != "" && u.Call != call || !errors.As(err, &v) || v.Version != "2" {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := c.Call(t.Context(), messages.Submission{Tool: "new", Input: []byte(`{}`)})
	unread("Call", err, "")
	if _, err := c.Call(t.Context(), messages.Submission{Tool: "echo", Input: []byte(`{}`)}); err != nil {
		t.Errorf("a call beside it: %v", err)
	}
	calls := echoes(2)
	calls[0].Tool = "new"
	if _, err := c.Submit(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	run := c.Batch().Run(calls[0].Run)
	count := func(messages.Result) error { return nil }
	unread("Wait", c.Wait(t.Context(), 1, map[string]messages.Run{calls[0].Call: run}, count), calls[0].Call)
	if err := c.Wait(t.Context(), 1, map[string]messages.Run{calls[1].Call: run}, count); err != nil {
		t.Errorf("Wait for the other: %v", err)
	}
	unread("Results", c.Results(t.Context(), Query{Runs: []messages.Run{run}}, count), "")
	n := 0
	if err := c.Results(t.Context(), Query{}, func(messages.Result) error { n++; return map[bool]error{true: ErrStop}[n == 2] }); err != nil {
		t.Errorf("Results of all: %v", err)
	}
}

func TestResultsEndsWithTheErrorOfItsReader(t *testing.T) {
	f := newFake()
	f.submit = func(_ context.Context, c messages.Chunk) (messages.ChunkReply, error) {
		f.end(c, nil)
		return messages.ChunkReply{}, nil
	}
	c := newClient(t, f, Config{})
	if _, err := c.Submit(t.Context(), echoes(2)); err != nil {
		t.Fatal(err)
	}
	want, n := errors.New("disk full"), 0
	err := c.Results(t.Context(), Query{}, func(messages.Result) error { n++; return want })
	if !errors.Is(err, want) || n != 1 {
		t.Fatalf("err %v after %d results", err, n)
	}
	if err := c.Results(t.Context(), Query{}, func(messages.Result) error { return ErrStop }); err != nil {
		t.Fatalf("ErrStop came back as %v", err)
	}
}

func TestOutputIsFetchedOnDemand(t *testing.T) {
	f := newFake()
	c := newClient(t, f, Config{})
	ref, err := f.PutPayload(t.Context(), []byte("large"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Output(t.Context(), messages.Result{Output: messages.Body{Ref: &ref}})
	if err != nil || string(out) != "large" {
		t.Fatalf("%q, %v", out, err)
	}
	ref.Digest = strings.Repeat("0", 64)
	if _, err := c.Output(t.Context(), messages.Result{Output: messages.Body{Ref: &ref}}); !errors.Is(err, messages.ErrNotFound) {
		t.Fatalf("err %v", err)
	}
}

func TestCancelInsistsUntilItIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		tries := 0
		f.cancel = func(r messages.CancelRequest) (messages.CancelReply, error) {
			if tries++; tries < 3 {
				return messages.CancelReply{}, messages.ErrNoResponder
			}
			if r.Version != messages.Version || r.By != "me" {
				return messages.CancelReply{Error: "bad request"}, nil
			}
			return messages.CancelReply{Ended: messages.Succeeded}, nil
		}
		c := newClient(t, f, Config{By: "me"})
		reply, err := c.Cancel(t.Context(), messages.CancelRequest{Run: "r"})
		if err != nil || reply.Ended != messages.Succeeded {
			t.Fatalf("reply %+v, err %v", reply, err)
		}
		f.cancel = func(messages.CancelRequest) (messages.CancelReply, error) {
			return messages.CancelReply{Error: "no such run"}, nil
		}
		if _, err := c.Cancel(t.Context(), messages.CancelRequest{Run: "r"}); err == nil || !strings.Contains(err.Error(), "no such run") {
			t.Fatalf("err %v", err)
		}
	})
}
