package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

func TestACancelStopsARunningTool(t *testing.T) {
	for name, key := range map[string]func(messages.Call) string{
		"call": func(c messages.Call) string { return messages.ControlCallKey(c.Run, c.ID) },
		"run":  func(c messages.Call) string { return messages.ControlRunKey(c.Run) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				causes := make(chan error, 2)
				x := counted("x", func(ctx context.Context, _ tool.Call) ([]byte, error) {
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return nil, errors.New("interrupted")
				})
				r.worker(x.Tool)
				c, sibling := r.call("x", unsafe, named), r.call("x", unsafe, named)
				r.publish(c)
				r.publish(sibling)
				synctest.Wait()
				r.cancel(key(c), wish())
				synctest.Wait()
				var stop *tool.Stop
				cause := <-causes
				if !errors.As(cause, &stop) || stop.Code != messages.CodeCancelled {
					t.Errorf("cause %v", cause)
				}
				f := r.failure(c)
				if f.Error != "Tool 'x' was cancelled: no longer needed" || f.Code != messages.CodeCancelled || !f.Ambiguous || !f.Executed {
					t.Errorf("%+v", f)
				}
				r.noFailure(sibling)
				r.noResult(sibling)
			})
		})
	}
}

// S5.5: calls that were submitted without a run never affect each other, though
// they share a token of their batch.
func TestS5_5_CallsWithoutARunEndAlone(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", func(ctx context.Context, c tool.Call) ([]byte, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return c.Input, nil
			}
		})
		r.worker(x.Tool)
		batch := messages.UnnamedRun(messages.NewCallID())
		running, later := r.call("x"), r.call("x")
		running.Run, later.Run = batch, batch
		r.publish(running)
		synctest.Wait()
		r.cancel(messages.ControlRunKey(batch), wish())
		r.publish(later)
		pass(2 * time.Second)
		if r.result(running).Status != messages.Succeeded || r.result(later).Status != messages.Succeeded {
			t.Error("one call without a run ended another")
		}
	})
}

func TestADeadlineStopsARunningTool(t *testing.T) {
	bubble(t, func(r *rig) {
		r.worker(counted("x", stubborn).Tool)
		c := r.call("x", unsafe, func(c *messages.Call) { c.Deadline = time.Now().Add(3 * time.Second).UTC() })
		r.publish(c)
		pass(4 * time.Second)
		if f := r.failure(c); f.Code != messages.CodeDeadline || !f.Ambiguous || f.Error != "Tool 'x' was stopped: the deadline of its call passed" {
			t.Errorf("%+v", f)
		}
	})
}

// A cancel that comes while the start is being written finds nothing running:
// the tool is not run, and the outcome says so.
func TestACancelBetweenStartAndToolRunsNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		cfg := r.config(x.Tool)
		c := r.call("x", unsafe)
		h := &hooked{Broker: r.admin.Peer()}
		h.beforePut = func(subject string) {
			if strings.Contains(subject, ".start.") {
				r.writeCancel(messages.ControlCallKey(c.Run, c.ID), wish())
				<-time.After(time.Millisecond) // the watch brings it
			}
		}
		cfg.Broker = h
		r.start(cfg)
		r.publish(c)
		pass(time.Second)
		f := r.failure(c)
		if x.ran() != 0 || f.Executed || f.Ambiguous || f.Code != messages.CodeCancelled {
			t.Errorf("ran %d times, %+v", x.ran(), f)
		}
	})
}

func TestAnAbandonedToolKeepsItsSlotUntilItReturns(t *testing.T) {
	bubble(t, func(r *rig) {
		release := make(chan struct{})
		deaf := counted("deaf", func(context.Context, tool.Call) ([]byte, error) { <-release; return []byte("at last"), nil }, tool.Timeout(2*time.Second))
		cfg := r.config(deaf.Tool, counted("good", echo).Tool)
		cfg.Slots = 1
		w := r.start(cfg)
		c, next := r.call("deaf"), r.call("good")
		r.publish(c)
		synctest.Wait()
		r.publish(next)
		pass(2*time.Second + 4*time.Second)
		r.noFailure(c)
		pass(2 * time.Second)
		if f := r.failure(c); f.Code != messages.CodeTimeout || !f.Ambiguous || f.Duration.Duration() != 7*time.Second {
			t.Errorf("%+v", f)
		}
		if s := w.Stats(); s.Abandoned != 1 || s.Running != 1 {
			t.Errorf("stats %+v", s)
		}
		pass(2 * lease)
		r.noResult(next)
		close(release)
		pass(time.Second)
		if res := r.result(c); res.Status != messages.Succeeded || string(res.Output.Inline) != "at last" {
			t.Errorf("best news: %+v", res)
		}
		if r.result(next).Status != messages.Succeeded || w.Stats().Abandoned != 0 {
			t.Errorf("the slot did not come back: %+v", w.Stats())
		}
		if deaf.ran() != 1 {
			t.Errorf("ran %d times", deaf.ran())
		}
		r.allAcked()
	})
}

func TestStopDoesNotWaitForAnAbandonedTool(t *testing.T) {
	bubble(t, func(r *rig) {
		release := make(chan struct{})
		deaf := counted("deaf", func(context.Context, tool.Call) ([]byte, error) { <-release; return nil, nil }, tool.Timeout(time.Second))
		w := r.worker(deaf.Tool)
		r.publish(r.call("deaf"))
		pass(10 * time.Second)
		start := time.Now()
		w.stop()
		if d := time.Since(start); d > time.Second {
			t.Errorf("stopped after %v", d)
		}
		close(release)
	})
}

// A long execution keeps its lease: nobody else gets the call.
func TestALeaseIsExtendedWhileAToolRuns(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", func(context.Context, tool.Call) ([]byte, error) { <-time.After(10 * lease); return nil, nil }, tool.Timeout(time.Hour))
		w1 := r.worker(x.Tool)
		cfg := r.config(x.Tool)
		cfg.Name = "w2"
		w2 := r.start(cfg)
		c := r.call("x", unsafe)
		r.publish(c)
		pass(11 * lease)
		if r.result(c).Status != messages.Succeeded || x.ran() != 1 {
			t.Errorf("ran %d times", x.ran())
		}
		if n := w1.broker.Count(memory.OpDelivery, ">") + w2.broker.Count(memory.OpDelivery, ">"); n != 1 {
			t.Errorf("%d deliveries", n)
		}
		if n := w1.broker.Count(memory.OpExtend, ">") + w2.broker.Count(memory.OpExtend, ">"); n < 19 || n > 31 {
			t.Errorf("%d extensions in ten leases", n)
		}
	})
}

// A call that a worker still runs and is handed again is not run beside itself
// and not called lost; its lease goes on.
func TestARedeliveryToTheWorkerThatRunsItChangesNothing(t *testing.T) {
	for _, effect := range messages.Effects() {
		bubble(t, func(r *rig) {
			x := counted("x", func(_ context.Context, c tool.Call) ([]byte, error) { <-time.After(5 * lease); return c.Input, nil }, tool.Timeout(time.Hour))
			w := r.worker(x.Tool)
			c := r.call("x", func(c *messages.Call) { c.Effect = effect })
			r.publish(c)
			synctest.Wait()
			r.admin.ExpireLeases(messages.StreamCalls, r.names.LaneConsumer("default", c.Lane))
			pass(6 * lease)
			if res := r.result(c); x.ran() != 1 || res.Status != messages.Succeeded {
				t.Errorf("%s: ran %d times, %+v", effect, x.ran(), res)
			}
			r.noFailure(c)
			r.allAcked()
			if n := w.broker.Count(memory.OpDelivery, ">"); n != 2 {
				t.Errorf("%d deliveries", n)
			}
		})
	}
}

// An outcome that is not taken is tried again beside the kept lease, and the
// call is acked only then.
func TestAnOutcomeIsPublishedAsLongAsItTakes(t *testing.T) {
	for name, fault := range map[string]error{"unreachable": errors.New("no answer"), "full": fmt.Errorf("stream: %w", messages.ErrFull)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				x := counted("x", echo)
				var metrics worker.Metrics
				refused := 0
				metrics.PublishFailed = func() { refused++ }
				cfg := r.config(x.Tool)
				cfg.Metrics = metrics
				w := r.start(cfg)
				w.broker.Fail(memory.OpPutOnce, ">", -1, fault)
				c := r.call("x")
				r.publish(c)
				pass(20 * lease)
				if n := w.broker.Count(memory.OpAck, ">"); n != 0 || x.ran() != 1 || refused < 20 {
					t.Errorf("%d acks, ran %d times, refused %d times", n, x.ran(), refused)
				}
				w.broker.Heal()
				pass(10 * time.Second)
				if r.result(c).Status != messages.Succeeded || x.ran() != 1 {
					t.Errorf("ran %d times", x.ran())
				}
				r.allAcked()
			})
		})
	}
}

// The same for a large output, which goes into PAYLOADS first.
func TestALargeOutputIsStoredBeforeItsResult(t *testing.T) {
	bubble(t, func(r *rig) {
		big := bytes.Repeat([]byte("x"), 3<<20)
		r.worker(counted("x", func(context.Context, tool.Call) ([]byte, error) { return big, nil }).Tool)
		r.admin.SetFull(messages.StreamPayloads, true)
		c := r.call("x")
		r.publish(c)
		pass(lease)
		r.noResult(c)
		if waits, unacked := r.left(); waits+unacked != 1 {
			t.Error("acked without a result")
		}
		r.admin.SetFull(messages.StreamPayloads, false)
		pass(10 * time.Second)
		if got := r.whole(r.result(c).Output); !bytes.Equal(got, big) {
			t.Errorf("%d bytes", len(got))
		}
	})
}

func TestAnOutputAboveEveryLimitIsAFailure(t *testing.T) {
	bubble(t, func(r *rig) {
		r.worker(counted("x", func(context.Context, tool.Call) ([]byte, error) { return make([]byte, messages.MaxPayload+1), nil }).Tool)
		c := r.call("x", unsafe)
		r.publish(c)
		pass(time.Second)
		if f := r.failure(c); f.Code != messages.CodeOutputTooLarge || !f.Ambiguous || !f.Executed || f.Output.Ref != nil {
			t.Errorf("its effect has happened: %+v", f)
		}
	})
}

// Stop that cannot publish gives up after its time-outs and leaves the call to
// its lease, un-acked.
func TestStopGivesUpPublishing(t *testing.T) {
	bubble(t, func(r *rig) {
		w := r.worker(counted("x", echo).Tool)
		w.broker.Fail(memory.OpPutOnce, ">", -1, errBroker)
		c := r.call("x")
		r.publish(c)
		synctest.Wait()
		start := time.Now()
		w.stop()
		if d := time.Since(start); d < 45*time.Second || d > 51*time.Second {
			t.Errorf("stopped after %v", d)
		}
		if n := w.broker.Count(memory.OpAck, ">") + w.broker.Count(memory.OpNak, ">"); n != 0 {
			t.Errorf("%d settlements of what was not stored", n)
		}
	})
}

func TestInputsFromPayloadsReachTheTool(t *testing.T) {
	bubble(t, func(r *rig) {
		var got []byte
		r.worker(counted("x", func(_ context.Context, c tool.Call) ([]byte, error) { got = c.Input; return nil, errors.New("no") }).Tool)
		big := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)
		ref := must(r.admin.PutPayload(t.Context(), big))
		c := r.call("x", func(c *messages.Call) { c.Input = messages.Body{Ref: &ref} })
		r.publish(c)
		pass(time.Second)
		if f := r.failure(c); !bytes.Equal(got, big) || f.Input.Ref == nil || f.Input.Ref.Digest != ref.Digest {
			t.Errorf("%d bytes, %+v", len(got), f.Input)
		}
	})
}

func TestAnInputThatIsGoneIsAFailureThatRanNothing(t *testing.T) {
	for _, effect := range messages.Effects() {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			r.worker(x.Tool)
			ref := messages.PayloadRef{Digest: strings.Repeat("a", 64), Size: 1 << 20, Chunks: 2}
			c := r.call("x", func(c *messages.Call) { c.Effect, c.Input = effect, messages.Body{Ref: &ref} })
			r.publish(c)
			pass(time.Second)
			if f := r.failure(c); x.ran() != 0 || f.Executed || f.Ambiguous || f.Code != messages.CodeBadCall || f.Input.Ref == nil {
				t.Errorf("%+v", f)
			}
			r.allAcked()
		})
	}
}

// A call that came beyond the free slots is given to others when no slot
// becomes free in time.
func TestAHeldCallIsHandedOn(t *testing.T) {
	bubble(t, func(r *rig) {
		why := make(map[string]int)
		slow := counted("slow", func(context.Context, tool.Call) ([]byte, error) { <-time.After(time.Minute); return nil, nil }, tool.Timeout(time.Hour))
		cfg := r.config(slow.Tool)
		cfg.Slots = 1
		cfg.Metrics.HandedOn = func(w string) { why[w]++ }
		w := r.start(cfg)
		first := r.call("slow")
		r.publish(first)
		synctest.Wait()
		held := r.call("slow", unsafe, func(c *messages.Call) { c.Lane = messages.LaneHigh })
		r.publish(held)
		synctest.Wait()
		if w.Stats().Held != 1 {
			t.Fatalf("%+v", w.Stats())
		}
		pass(2 * time.Second)
		if w.Stats().Held != 0 || why["no slot became free"] != 1 {
			t.Errorf("%+v, %v", w.Stats(), why)
		}
		cfg = r.config(slow.Tool)
		cfg.Name = "w2"
		r.start(cfg)
		pass(2 * time.Minute)
		if res := r.result(held); res.Worker != "w2" {
			t.Errorf("%+v", res)
		}
	})
}

// What cannot be read goes to other workers first, and what is of another version
// for five leases; then it becomes a failure. What is no call at all is dropped.
func TestUnreadableMessages(t *testing.T) {
	bubble(t, func(r *rig) {
		w := r.worker(counted("x", echo).Tool)
		c := r.call("x")
		newer := r.names.EncodeCall(c)
		newer.Header.Set(messages.HeaderVersion, "2")
		if err := r.admin.Publish(t.Context(), newer); err != nil {
			t.Fatal(err)
		}
		good := r.call("x")
		r.publish(good)
		broken := r.call("x")
		unread := r.names.EncodeCall(broken)
		unread.Header.Set(messages.HeaderAttempt, "many")
		if err := r.admin.Publish(t.Context(), unread); err != nil {
			t.Fatal(err)
		}
		pass(500 * time.Millisecond)
		r.noFailure(c)
		r.noFailure(broken)
		pass(5 * time.Second)
		if f := r.failure(broken); f.Code != messages.CodeBadCall || f.Executed || w.broker.Count(memory.OpNak, r.names.CallFilter(broken.Run, broken.ID)) != 3 {
			t.Errorf("%d NAKs, %+v", w.broker.Count(memory.OpNak, ">"), f)
		}
		pass(4 * lease)
		r.noFailure(c)
		pass(2 * lease)
		if f := r.failure(c); f.Code != messages.CodeBadCall || f.Executed || f.Ambiguous || !strings.Contains(f.Error, `"2"; this build reads version 1`) {
			t.Errorf("%+v", f)
		}
		if r.result(good).Status != messages.Succeeded {
			t.Error("a sibling was touched")
		}
		garbage := messages.Message{Subject: r.names.Prefix() + ".call.default.normal.x.y.0", Header: messages.Header{}}
		if err := r.admin.Publish(t.Context(), garbage); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		r.allAcked()
	})
}

func TestOffersAreRenewedAndWithdrawn(t *testing.T) {
	bubble(t, func(r *rig) {
		w := r.worker(counted("x", echo).Tool)
		pass(95 * time.Second)
		if n := w.broker.Count(memory.OpRequest, ">"); n != 9 {
			t.Errorf("%d renewals in 95 s of a lease of 30 s", n)
		}
		if e := must(r.admin.Entries(t.Context(), messages.BucketTools, "offer.>")); len(e) != 1 {
			t.Errorf("%d offers", len(e))
		}
		w.stop()
		if e := must(r.admin.Entries(t.Context(), messages.BucketTools, "offer.>")); len(e) != 0 {
			t.Errorf("%d offers after the stop", len(e))
		}
	})
}

func TestKeepOfferLeavesItToLapse(t *testing.T) {
	bubble(t, func(r *rig) {
		cfg := r.config(counted("x", echo).Tool)
		cfg.KeepOffer = true
		r.start(cfg).stop()
		if e := must(r.admin.Entries(t.Context(), messages.BucketTools, "offer.>")); len(e) != 1 {
			t.Errorf("%d offers", len(e))
		}
	})
}

func TestARefusedOfferEndsTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Lease: lease})
		go func() {
			_ = b.Serve(t.Context(), messages.EndpointOffer, nil, func(context.Context, []byte) []byte {
				return must(messages.EncodeService(messages.OfferReply{Error: `tool "x" is in queue "other"`}))
			})
		}()
		w := must(worker.New(worker.Config{Broker: b.Peer(), Tools: []*tool.Tool{counted("x", echo).Tool}, Name: "w1"}))
		err := w.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), `tool "x" is in queue "other"`) {
			t.Errorf("got %v", err)
		}
	})
}

// Without a coordinator a worker waits for one; it can be stopped meanwhile.
func TestAWorkerWaitsForACoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Lease: lease})
		w := must(worker.New(worker.Config{Broker: b, Tools: []*tool.Tool{counted("x", echo).Tool}}))
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		select {
		case <-w.Started():
			t.Error("started without an offer")
		case <-w.Stopped():
			t.Errorf("ended: %v", w.Err())
		default:
		}
		if err := w.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestConfigNamesWhatCannotBeUsed(t *testing.T) {
	x := counted("x", echo).Tool
	broker := memory.New(memory.Config{})
	for want, change := range map[string]func(*worker.Config){
		"broker is nil":              func(c *worker.Config) { c.Broker = nil },
		"no tools":                   func(c *worker.Config) { c.Tools = nil },
		"tool 1 is nil":              func(c *worker.Config) { c.Tools = []*tool.Tool{x, nil} },
		`tool "x" is given twice`:    func(c *worker.Config) { c.Tools = []*tool.Tool{x, x} },
		"tool name is empty":         func(c *worker.Config) { c.Tools = []*tool.Tool{counted("", echo).Tool} },
		"slots is -1":                func(c *worker.Config) { c.Slots = -1 },
		"lease is 1ms":               func(c *worker.Config) { c.Lease = time.Millisecond },
		"timeout is -1s":             func(c *worker.Config) { c.Timeout = -time.Second },
		"worker name is not valid U": func(c *worker.Config) { c.Name = "\xff" },
	} {
		cfg := worker.Config{Broker: broker, Tools: []*tool.Tool{x}}
		change(&cfg)
		if _, err := worker.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	a, b := must(worker.New(worker.Config{Broker: broker, Tools: []*tool.Tool{x}})), must(worker.New(worker.Config{Broker: broker, Tools: []*tool.Tool{x}}))
	if a.Name() == b.Name() {
		t.Error("two workers have one default name")
	}
}
