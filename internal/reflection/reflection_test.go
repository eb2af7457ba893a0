package reflection_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/memory"
	"mulligan/internal/reflection"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func TestAFailureIsAnalysedDecidedAndAcked(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start(nil)
		c := r.failed(func(f *messages.Failure) { f.Error = "HTTP error 503" })
		d := r.decision(c)
		if d.Action.String() != "retry after 500ms" || d.By != "rules" || d.Rule != "server-error" || d.Reflector != "reflector-1" || d.MaxRetries != 3 || d.Call != c.ID || d.Run != c.Run {
			r.Errorf("%+v", d)
		}
		if n := r.unacked(); n != 0 {
			r.Errorf("%d are not acked", n)
		}
	})
}

func TestS2_2_TheServiceOptsInToRetries(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start(func(c *reflection.Config) { c.Random = func() float64 { return 0.5 } })
		c := r.failed(func(f *messages.Failure) { f.Error = "HTTP error 503" })
		if d := r.decision(c); d.Action.String() != "retry after 375ms" { // half of the jitter, which is a half of 500 ms
			r.Errorf("%s", d.Action)
		}
		last := r.failed(func(f *messages.Failure) { f.Error, f.Call.Attempt, f.Call.Dispatch = "HTTP error 503", 3, 3 })
		if d := r.decision(last); d.Action.String() != "fail: max retries (3) exceeded" {
			r.Errorf("%s", d.Action)
		}
	})
}

// What was brought in from elsewhere is looked up however young it is here.
func TestS12_5_NoModelIsAskedAboutAFailureThatWasBroughtIn(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start(nil)
		ended := messages.Call{ID: messages.NewCallID(), Run: r.run, Tool: "tool", Queue: "q", Key: "k"}
		r.put(r.names.EncodeResult(messages.Result{Call: ended.ID, Run: r.run, Tool: "tool", Status: messages.Failed, Ended: time.Now()}))
		m, err := r.names.EncodeFailure(messages.Failure{Call: ended, Error: "HTTP error 503", Executed: true, At: time.Now()})
		if err != nil {
			r.Fatal(err)
		}
		m.Header.Set(messages.HeaderRepeat, "1")
		r.put(m)
		synctest.Wait()
		if d, ok := r.decided(ended); ok {
			r.Errorf("decided: %+v", d)
		}
		if n := r.unacked(); n != 0 {
			r.Errorf("%d are not acked", n)
		}
	})
}

func TestACallThatHasEndedOrWasDecidedNeedsNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		var asked atomic.Int32
		ended := messages.Call{ID: messages.NewCallID(), Run: r.run}
		r.put(r.names.EncodeResult(messages.Result{Call: ended.ID, Run: r.run, Tool: "tool", Status: messages.Succeeded, Ended: time.Now()}))
		r.failed(func(f *messages.Failure) { f.Call.ID = ended.ID })
		decided := r.failed(nil)
		m, err := r.names.EncodeDecision(messages.Decision{Call: decided.ID, Run: r.run, Action: messages.Skip("by another"), By: "other"})
		if err != nil {
			r.Fatal(err)
		}
		r.put(m)
		r.pass(messages.RepeatAfter) // what is younger is not looked for
		r.start(with(func(context.Context, recovery.Case) (recovery.Reflection, error) { asked.Add(1); return answer(), nil }))
		if _, ok := r.decided(ended); ok || asked.Load() != 0 || r.unacked() != 0 {
			r.Errorf("decided %v, asked %d, unacked %d", ok, asked.Load(), r.unacked())
		}
		if d := r.decision(decided); d.By != "other" {
			r.Errorf("%+v", d)
		}
	})
}

// The first delivery of a young failure costs no look.
func TestAYoungFailureIsNotLookedFor(t *testing.T) {
	bubble(t, func(r *rig) {
		_, b := r.start(with(func(context.Context, recovery.Case) (recovery.Reflection, error) { return answer(), nil }))
		r.decision(r.failed(nil))
		if n := b.Count(memory.OpGet, ">"); n != 0 {
			r.Errorf("%d reads", n)
		}
		b.LoseAck(memory.OpAck, ">")
		r.decision(r.failed(nil))
		r.pass(2 * lease)
		if n := b.Count(memory.OpGet, ">"); n != 2 || r.unacked() != 0 {
			r.Errorf("%d reads of a second delivery, %d unacked", n, r.unacked())
		}
	})
}

func TestReflectorsRaceAndTheFirstWins(t *testing.T) {
	bubble(t, func(r *rig) {
		gate := make(chan struct{})
		slow := reflector(func(context.Context, recovery.Case) (recovery.Reflection, error) { <-gate; return answer(), nil })
		_, first := r.start(with(slow))
		c := r.failed(nil)
		synctest.Wait()
		first.Freeze() // its lease lapses, and another one takes over
		r.start(func(cfg *reflection.Config) {
			cfg.Name = "reflector-2"
			cfg.Reflector = reflector(func(context.Context, recovery.Case) (recovery.Reflection, error) { return answer(), nil })
		})
		r.pass(2 * lease)
		if d := r.decision(c); d.Reflector != "reflector-2" {
			r.Errorf("%+v", d)
		}
		first.Thaw()
		close(gate)
		if d := r.decision(c); d.Reflector != "reflector-2" || r.unacked() != 0 {
			r.Errorf("%+v, %d unacked", d, r.unacked())
		}
	})
}

// A failure that kills whoever reads it must not loop for a month.
func TestAFailureThatWasDeliveredTooOftenIsGivenUp(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.failed(nil)
		for range 5 { // five reflectors die with it
			ds, err := r.pool.Fetch(r.Context(), messages.StreamRecovery, messages.ConsumerReflector, 1, 0)
			if err != nil || len(ds) != 1 {
				r.Fatal(len(ds), err)
			}
			if _, ok := r.decided(c); ok {
				r.Fatalf("decided after delivery %d", ds[0].Delivery)
			}
			r.pass(lease)
		}
		var asked, gaveUp atomic.Int32
		r.start(func(cfg *reflection.Config) {
			cfg.Metrics.GivenUp = func() { gaveUp.Add(1) }
			cfg.Reflector = reflector(func(context.Context, recovery.Case) (recovery.Reflection, error) { asked.Add(1); return answer(), nil })
		})
		d := r.decision(c)
		if d.Action.String() != "fail: failure could not be analysed" || d.Error == "" || d.Analysis != nil || asked.Load() != 0 || gaveUp.Load() != 1 || r.unacked() != 0 {
			r.Errorf("%+v, asked %d, gave up %d", d, asked.Load(), gaveUp.Load())
		}
	})
}

func TestTheFifthDeliveryIsStillAnalysed(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.failed(nil)
		for range 4 {
			if ds, err := r.pool.Fetch(r.Context(), messages.StreamRecovery, messages.ConsumerReflector, 1, 0); err != nil || len(ds) != 1 {
				r.Fatal(len(ds), err)
			}
			r.pass(lease)
		}
		r.start(with(func(context.Context, recovery.Case) (recovery.Reflection, error) { return answer(), nil }))
		if d := r.decision(c); d.By != "test" {
			r.Errorf("%+v", d)
		}
	})
}

func TestAFailureThatNobodyCanReadIsGivenUpToo(t *testing.T) {
	bubble(t, func(r *rig) {
		c := messages.Call{ID: messages.NewCallID(), Run: r.run}
		r.start(nil)
		r.put(messages.Message{Subject: r.names.FailureSubject(r.run, c.ID, 0), Header: messages.Header{}, Body: []byte(`{"version":"99"}`)})
		good := r.failed(nil)
		if _, ok := r.decided(good); !ok {
			r.Error("it holds up others")
		}
		r.pass(time.Minute)
		if d := r.decision(c); d.Action.String() != "fail: failure could not be analysed" {
			r.Errorf("%+v", d)
		}
	})
}

func TestS9_4_APanicOrTimeOutOfTheReflectorEndsTheCallSoft(t *testing.T) {
	for _, c := range []struct {
		name, says string
		r          reflector
	}{
		{"panic", "panic: boom", func(context.Context, recovery.Case) (recovery.Reflection, error) { panic("boom") }},
		{"broken", "no answer", func(context.Context, recovery.Case) (recovery.Reflection, error) {
			return recovery.Reflection{}, errors.New("no answer")
		}},
		{"slow", "deadline exceeded", func(ctx context.Context, _ recovery.Case) (recovery.Reflection, error) {
			<-ctx.Done()
			return recovery.Reflection{}, ctx.Err()
		}},
		{"deaf", "did not end with its time-out", func(context.Context, recovery.Case) (recovery.Reflection, error) {
			<-time.After(time.Hour)
			return answer(), nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.start(with(c.r))
				call := r.failed(nil)
				r.pass(time.Minute)
				d := r.decision(call)
				if d.Action.Type != messages.ActFail || !strings.Contains(d.Error, c.says) || !strings.HasPrefix(d.Error, "reflection internal error: ") || r.unacked() != 0 {
					r.Errorf("%+v", d)
				}
				r.pass(time.Hour) // the deaf one ends at last
			})
		})
	}
}

func TestTheLeaseIsExtendedWhileAnalysing(t *testing.T) {
	bubble(t, func(r *rig) {
		var asked atomic.Int32
		r.start(with(func(context.Context, recovery.Case) (recovery.Reflection, error) {
			asked.Add(1)
			<-time.After(4 * lease)
			return answer(), nil
		}))
		r.start(with(func(context.Context, recovery.Case) (recovery.Reflection, error) { asked.Add(1); return answer(), nil }))
		c := r.failed(nil)
		r.pass(5 * lease)
		if d := r.decision(c); d.By != "test" || asked.Load() > 1 {
			r.Errorf("%+v, asked %d times", d, asked.Load())
		}
	})
}

func TestS1_8_CausesOfTheEarlierAttempts(t *testing.T) {
	bubble(t, func(r *rig) {
		var got []messages.ReflectionContext
		r.start(with(func(_ context.Context, c recovery.Case) (recovery.Reflection, error) {
			got = append(got, c.Context)
			a := answer()
			a.RootCause = fmt.Sprintf("cause %d", len(got))
			return a, nil
		}))
		id := messages.NewCallID()
		for n, attempt := range []int{0, 0, 1} { // the first spent no attempt
			c := r.failed(func(f *messages.Failure) {
				f.Call.ID, f.Call.Dispatch, f.Call.Attempt, f.Call.Task = id, n, attempt, "book a flight"
			})
			r.decision(c)
		}
		last := got[2]
		if last.Attempt != 1 || last.MaxAttempts != 5 || last.Task != "book a flight" || fmt.Sprint(last.Causes) != "[cause 1 cause 2]" || len(got[0].Causes) != 0 {
			r.Errorf("%+v", got)
		}
	})
}

func TestS5_2_OnlyWhatIsShownIsCut(t *testing.T) {
	bubble(t, func(r *rig) {
		var mu sync.Mutex
		shown := map[string]recovery.Case{}
		r.start(with(func(_ context.Context, c recovery.Case) (recovery.Reflection, error) {
			mu.Lock()
			shown[c.Tool] = c
			mu.Unlock()
			return answer(), nil
		}))
		long := `{"a":"` + strings.Repeat("x", 200<<10) + `"}`
		ref := func(s string) messages.Body {
			p, err := r.pool.PutPayload(r.Context(), []byte(s))
			if err != nil {
				r.Fatal(err)
			}
			return messages.Body{Ref: &p}
		}
		huge := ref(strings.Repeat("x", 2<<20))
		r.failed(func(f *messages.Failure) { f.Call.Tool, f.Input = "small ref", ref(`{"a":2}`) })
		r.failed(func(f *messages.Failure) { f.Call.Tool, f.Input = "long", ref(long) })
		r.failed(func(f *messages.Failure) { f.Call.Tool, f.Input = "huge", huge })
		r.failed(func(f *messages.Failure) {
			f.Call.Tool, f.Input = "gone", messages.Body{Ref: &messages.PayloadRef{Digest: strings.Repeat("0", 64), Size: 5, Chunks: 1}}
		})
		r.failed(func(f *messages.Failure) { f.Call.Tool, f.Error, f.Output = "output", "", ref("the error") })
		r.failed(func(f *messages.Failure) { f.Call.Tool, f.Call.TaskRef = "task", ref("a long task").Ref })
		synctest.Wait()
		for tool, want := range map[string]struct {
			n   int
			cut bool
		}{"small ref": {7, false}, "long": {messages.MaxInline, true}, "huge": {0, true}, "gone": {0, true}, "output": {7, false}, "task": {7, false}} {
			c, ok := shown[tool]
			if !ok || len(c.Input) != want.n || c.InputCut != want.cut {
				r.Errorf("%s: %d bytes, cut %v", tool, len(c.Input), c.InputCut)
			}
		}
		if shown["output"].Error != "the error" || shown["task"].Context.Task != "a long task" {
			r.Errorf("%q, %q", shown["output"].Error, shown["task"].Context.Task)
		}
		if b, err := r.pool.GetPayload(r.Context(), *huge.Ref); err != nil || len(b) != 2<<20 {
			r.Errorf("%d bytes, %v", len(b), err)
		}
	})
}

func TestTheToolsAreThoseOfferedNow(t *testing.T) {
	bubble(t, func(r *rig) {
		var c recovery.Case
		r.start(with(func(_ context.Context, got recovery.Case) (recovery.Reflection, error) { c = got; return answer(), nil }))
		seen := func(code messages.Code) string {
			r.failed(func(f *messages.Failure) { f.Call.Tool, f.Code = "a/b", code })
			synctest.Wait()
			var names []string
			for _, t := range c.Tools {
				names = append(names, t.Name)
			}
			return fmt.Sprint(names, " ", string(c.Schema))
		}
		for _, step := range []struct {
			name string
			do   func()
			want string
			code messages.Code
		}{
			{"none", func() {}, "[] ", messages.CodeToolError},
			{"offered", func() {
				r.offer(messages.ToolSpec{Name: "a/b", Schema: json.RawMessage(`{"x":1}`)}, messages.ToolSpec{Name: "c"})
			}, `[a/b c] {"x":1}`, messages.CodeToolError},
			{"not found: without schema (S6)", func() {}, `[a/b c] `, messages.CodeToolNotFound},
			{"a damaged entry", func() {
				_ = r.pool.Put(r.Context(), messages.BucketTools, messages.ToolKey("c"), []byte("{"), 0)
			}, `[a/b] {"x":1}`, messages.CodeToolError},
			{"withdrawn", func() {
				r.save(messages.ToolKey("a/b"), messages.Tool{Spec: messages.ToolSpec{Name: "a/b", Schema: json.RawMessage(`{"x":1}`)}, Withdrawn: true})
			}, `[] {"x":1}`, messages.CodeToolError},
			{"lapsed", func() {
				r.offer(messages.ToolSpec{Name: "a/b", Schema: json.RawMessage(`{"x":2}`)})
				_ = r.pool.Delete(r.Context(), messages.BucketTools, messages.OfferKey("w"))
			}, `[] {"x":2}`, messages.CodeToolError},
		} {
			step.do()
			synctest.Wait()
			if got := seen(step.code); got != step.want {
				r.Errorf("%s: %s, want %s", step.name, got, step.want)
			}
		}
	})
}

func TestADidYouMeanComesFromTheRegistry(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start(nil)
		r.offer(messages.ToolSpec{Name: "get_order", Schema: json.RawMessage(`{"required":["a"]}`), Effect: messages.ReadOnly})
		c := r.failed(func(f *messages.Failure) {
			f.Call.Tool, f.Code, f.Executed, f.Error = "getOrder", messages.CodeToolNotFound, false, "Tool not found: getOrder"
		})
		d := r.decision(c)
		if d.Analysis.Correction == nil || d.Analysis.Correction.Type != messages.ToolChange || *d.Analysis.Correction.AlternativeTool != "get_order" || d.Action.Type != messages.ActRetry {
			r.Errorf("%+v, %+v", d.Action, d.Analysis.Correction)
		}
	})
}

func TestTheBrokersTroubleCostsTheFailureNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		boom := errors.New("boom")
		var asked, trouble atomic.Int32
		c := r.failed(nil)
		if ds, err := r.pool.Fetch(r.Context(), messages.StreamRecovery, messages.ConsumerReflector, 1, 0); err != nil || len(ds) != 1 { // to look before the second delivery
			r.Fatal(len(ds), err)
		}
		_, b := r.start(func(c *reflection.Config) {
			c.Metrics.Trouble = func() { trouble.Add(1) }
			c.Reflector = reflector(func(context.Context, recovery.Case) (recovery.Reflection, error) { asked.Add(1); return answer(), nil })
		})
		b.Fail(memory.OpFetch, ">", 3, boom)
		b.Fail(memory.OpGet, ">", 3, boom)
		b.Fail(memory.OpPutOnce, ">", 3, boom)
		b.LoseAck(memory.OpPutOnce, ">")
		r.pool.SetFull(messages.StreamRecovery, false)
		r.pass(time.Minute)
		if d := r.decision(c); d.By != "test" || asked.Load() != 1 || r.unacked() != 0 || trouble.Load() < 9 {
			r.Errorf("%+v, asked %d, trouble %d", d, asked.Load(), trouble.Load())
		}
	})
}

// A full stream can last for hours; each delivery of the failure counts, so the
// reflector keeps it.
func TestAFullStreamIsWaitedOut(t *testing.T) {
	bubble(t, func(r *rig) {
		gate := make(chan struct{})
		var asked atomic.Int32
		r.start(with(func(context.Context, recovery.Case) (recovery.Reflection, error) {
			asked.Add(1)
			<-gate
			return answer(), nil
		}))
		c := r.failed(nil)
		synctest.Wait()
		r.pool.SetFull(messages.StreamRecovery, true)
		close(gate)
		r.pass(3 * time.Hour)
		if _, ok := r.decided(c); ok {
			r.Fatal("the stream was not full")
		}
		r.pool.SetFull(messages.StreamRecovery, false)
		r.pass(10 * time.Second)
		if d := r.decision(c); d.By != "test" || asked.Load() != 1 || r.unacked() != 0 {
			r.Errorf("%+v, asked %d", d, asked.Load())
		}
	})
}

func TestAnAckThatIsLostIsMadeUpFor(t *testing.T) {
	bubble(t, func(r *rig) {
		var asked atomic.Int32
		_, b := r.start(with(func(context.Context, recovery.Case) (recovery.Reflection, error) { asked.Add(1); return answer(), nil }))
		b.LoseAck(memory.OpAck, ">")
		c := r.failed(nil)
		r.decision(c)
		if r.unacked() != 1 {
			r.Error("the ack was not lost")
		}
		r.pass(2 * lease)
		if r.unacked() != 0 || asked.Load() != 1 {
			r.Errorf("%d unacked, asked %d", r.unacked(), asked.Load())
		}
	})
}

func TestNoMoreAtOnceThanConfigured(t *testing.T) {
	bubble(t, func(r *rig) {
		var mu sync.Mutex
		now, most := 0, 0
		r.start(func(c *reflection.Config) {
			c.Concurrency = 3
			c.Reflector = reflector(func(context.Context, recovery.Case) (recovery.Reflection, error) {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				<-time.After(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				return answer(), nil
			})
		})
		for range 20 {
			r.failed(nil)
		}
		r.pass(time.Minute)
		if n := r.unacked(); n != 0 || most != 3 {
			r.Errorf("%d unacked, %d at once", n, most)
		}
	})
}

func TestStopLetsAnalysesEndAndGivesBackTheRest(t *testing.T) {
	for _, c := range []struct {
		name    string
		takes   time.Duration
		decided bool
	}{{"in time", 5 * time.Second, true}, {"too late", 20 * time.Second, false}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				s, _ := r.start(with(func(ctx context.Context, _ recovery.Case) (recovery.Reflection, error) {
					select {
					case <-time.After(c.takes):
						return answer(), nil
					case <-ctx.Done():
						return recovery.Reflection{}, ctx.Err()
					}
				}))
				call := r.failed(nil)
				synctest.Wait()
				if err := s.Stop(r.Context()); err != nil {
					r.Fatal(err)
				}
				if _, ok := r.decided(call); ok != c.decided {
					r.Errorf("decided %v", ok)
				}
				if c.decided {
					return
				}
				ds, err := r.pool.Fetch(r.Context(), messages.StreamRecovery, messages.ConsumerReflector, 1, 0)
				if err != nil || len(ds) != 1 {
					r.Errorf("it was not given back: %d, %v", len(ds), err)
				}
			})
		})
	}
}

func TestALateReflectorFindsWhatWasThere(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.failed(nil)
		r.offer(messages.ToolSpec{Name: "tool"})
		r.start(nil)
		r.decision(c)
	})
}

// A pool whose streams are still to be made has nothing to watch.
func TestAReflectorWaitsForThePool(t *testing.T) {
	bubble(t, func(r *rig) {
		s, _ := r.start(func(c *reflection.Config) {
			c.Broker.(*memory.Broker).Fail(memory.OpWatch, ">", 5, messages.ErrNotFound)
		})
		select {
		case <-s.Started():
			r.Error("it has started without the tools")
		case <-s.Stopped():
			r.Errorf("it has ended: %v", s.Err())
		default:
		}
		r.pass(20 * time.Second)
		select {
		case <-s.Started():
		default:
			r.Error("it has not started")
		}
		r.decision(r.failed(nil))
	})
}

func TestConfigNamesTheFieldThatIsWrong(t *testing.T) {
	b := memory.New(memory.Config{})
	for _, c := range []struct {
		cfg  reflection.Config
		says string
	}{
		{reflection.Config{}, "Broker is not set"},
		{reflection.Config{Broker: b, Concurrency: -1}, "Concurrency -1"},
		{reflection.Config{Broker: b, Lease: time.Millisecond}, "Lease 1ms"},
		{reflection.Config{Broker: b, AnalyseTimeout: -1}, "AnalyseTimeout -1ns"},
		{reflection.Config{Broker: b, StopTimeout: -1}, "StopTimeout -1ns"},
		{reflection.Config{Broker: b, Policies: recovery.Document{Pool: recovery.Policy{MaxRetries: new(-1)}.Values()}}, "max retries -1"},
	} {
		if _, err := reflection.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
}
