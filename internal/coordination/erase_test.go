package coordination_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

func (r *rig) erase(run messages.Run) messages.RunReply {
	r.t.Helper()
	req := messages.RunRequest{Run: run, Action: messages.RunErase, By: "ann"}
	raw, err := r.admin.Request(r.t.Context(), messages.EndpointDelete, must(messages.EncodeService(req)))
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return must(messages.DecodeService[messages.RunReply](raw))
}

// everything is what the pool holds, by where it stands.
func (r *rig) everything() map[string]string {
	r.t.Helper()
	all := make(map[string]string)
	for _, s := range []messages.Stream{messages.StreamCalls, messages.StreamResults, messages.StreamRecovery, messages.StreamSchedule, messages.StreamPayloads} {
		if err := r.admin.List(r.t.Context(), s, nil, func(m messages.Stored) bool {
			all[m.Subject] = string(m.Body)
			return true
		}); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, b := range []messages.Bucket{messages.BucketAttempts, messages.BucketRuns, messages.BucketTools, messages.BucketControl} {
		for _, e := range must(r.admin.Entries(r.t.Context(), b, ">")) {
			all[string(b)+" "+e.Key] = string(e.Value)
		}
	}
	return all
}

// subjects are the places, for a test to say what is left.
func places(all map[string]string, before map[string]string) []string {
	var out []string
	for at, v := range all {
		if was, ok := before[at]; !ok || was != v {
			out = append(out, at)
		}
	}
	for at := range before {
		if _, ok := all[at]; !ok {
			out = append(out, "lost: "+at)
		}
	}
	slices.Sort(out)
	return out
}

// ofOthers says that a place is none of run r: of another run, or of the pool.
func ofOthers(at string) bool {
	for _, part := range []string{".other.", ".payload.", "RUNS batch.", "CONTROL breaker.", "TOOLS "} {
		if strings.Contains(at, part) {
			return true
		}
	}
	return false
}

// full makes a run of everything that a run may leave behind, and returns when it is over.
func (r *rig) full() {
	r.t.Helper()
	run := messages.NamedRun("r")
	r.declared(messages.RunSpec{Deadline: time.Now().Add(time.Hour)})
	first := r.accept(func(s *messages.Submission) { s.Deadline = time.Now().Add(30 * time.Minute) })
	second := r.accept()
	own, shared := strings.Repeat("mine", 1<<18), strings.Repeat("both", 1<<18)
	r.put(r.names.EncodeResult(messages.Result{Call: first.ID, Run: run, Tool: "t", Status: messages.Succeeded, Attempts: 1, Ended: time.Now(), Output: r.large(own)}))
	r.done(first)
	f := messages.Failure{Call: second, Input: r.large(shared), Output: messages.Text("no"), Code: messages.CodeToolError, Error: "no", Executed: true, At: time.Now()}
	r.put(must(r.names.EncodeFailure(f)))
	r.done(second)
	r.put(must(r.names.EncodeDecision(messages.Decision{Call: second.ID, Run: run, Action: messages.Fail("no use"), By: "rules", Reflector: "x", At: time.Now()})))
	if _, err := r.admin.PutOnce(r.t.Context(), must(messages.EncodeStory(r.names.StartSubject(run, second.ID, 0), messages.Start{Token: "x", Worker: "w", At: time.Now()}))); err != nil {
		r.t.Fatal(err)
	}
	note := must(messages.EncodeDenial(messages.Denial{Call: second.ID, By: "ann", At: time.Now()}))
	if err := r.admin.Put(r.t.Context(), messages.BucketControl, messages.DenialKey(run, "abc"), note, 0); err != nil {
		r.t.Fatal(err)
	}
	other := messages.NamedRun("other")
	for i, calls := range [][]messages.BatchCall{{{Call: first.ID, Run: run}, {Call: second.ID, Run: other}}, {{Call: first.ID, Run: run}}} {
		list := must(json.Marshal(messages.BatchEntry{Calls: calls, At: time.Now()}))
		if err := r.admin.Put(r.t.Context(), messages.BucketRuns, messages.BatchKey(r.batch, 7+i), list, 0); err != nil {
			r.t.Fatal(err)
		}
	}
	replay := r.accept(func(s *messages.Submission) {
		s.Run, s.Labels = "other", messages.Labels{messages.LabelReplayOf: second.ID}
	})
	r.put(r.names.EncodeResult(messages.Result{Call: replay.ID, Run: other, Tool: "t", Status: messages.Succeeded, Attempts: 1, Ended: time.Now(), Output: r.large(shared)}))
	r.done(replay)
	r.closeRun(2)
	pass(2 * time.Second)
	synctest.Wait()
	if r.run().Over == nil {
		r.t.Fatal("the run is not over")
	}
}

func (r *rig) large(s string) messages.Body {
	r.t.Helper()
	return messages.Body{Ref: new(must(r.admin.PutPayload(r.t.Context(), []byte(s))))}
}

// What stood in the pool before the run stands there after its deletion, and
// beside it only what is of others.
func TestS12_1_NothingIsLeftOfADeletedRun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		before := r.everything()
		r.full()
		if reply := r.erase(messages.NamedRun("r")); reply.Error != "" || reply.Entry.Delete == nil {
			t.Fatalf("%+v", reply)
		}
		if reply := r.refusal(); reply.Code != messages.CodeRunClosed {
			t.Errorf("%+v", reply)
		}
		if reply := r.declare(messages.RunSpec{}); reply.Code != messages.CodeRunIsOver {
			t.Errorf("declared while it is deleted: %+v", reply)
		}
		// A look whether the run is over, from before the wish, is none at it.
		if err := r.admin.Schedule(t.Context(), messages.Due{Kind: messages.DueRunOver, Run: messages.NamedRun("r"), W: 7, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		pass(lease - time.Second)
		if got := len(r.everything()); got < len(before)+10 {
			t.Errorf("it went before the lease of a trigger was over: %d places", got)
		}
		pass(2 * time.Second)
		synctest.Wait()
		gone := r.run().Delete.Removed
		if gone == nil || gone.Results != 2 || gone.Story != 3 || gone.Records != 1 || gone.Entries != 4 || gone.Payloads != 1 {
			t.Errorf("removed %+v", gone)
		}
		pass(15 * time.Second)
		for _, at := range places(r.everything(), before) {
			if !ofOthers(at) || strings.Contains(r.everything()[at], `"r"`) {
				t.Errorf("left: %s: %.200s", at, r.everything()[at])
			}
		}
		if _, ok := r.everything()["RUNS "+messages.BatchKey(r.batch, 8)]; ok {
			t.Error("left: the list of a batch that held nothing else")
		}
		if _, err := r.admin.GetPayload(t.Context(), *r.large(strings.Repeat("both", 1<<18)).Ref); err != nil {
			t.Error("what another run refers to is gone: ", err)
		}
		if reply := r.erase(messages.NamedRun("r")); reply.Code != messages.CodeNotFound {
			t.Errorf("deleted twice: %+v", reply)
		}
		r.declared(messages.RunSpec{}) // the name is free
		r.accept()
	})
}

// A call that were forgotten while it may still be handed out would run again.
func TestS12_2_NoRunIsDeletedBeforeItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		run := messages.NamedRun("r")
		if reply := r.erase(run); reply.Code != messages.CodeNotFound {
			t.Errorf("nothing: %+v", reply)
		}
		r.declared(messages.RunSpec{})
		if reply := r.erase(run); reply.Code != messages.CodeRunNotOver || !strings.Contains(reply.Error, "close or cancel it first") {
			t.Errorf("open: %+v", reply)
		}
		c := r.accept()
		r.closeRun(1)
		// Its result is there, and its worker died before it acked.
		r.put(r.names.EncodeResult(messages.Result{Call: c.ID, Run: run, Tool: "t", Status: messages.Succeeded, Attempts: 1, Ended: time.Now()}))
		pass(time.Minute)
		if reply := r.erase(run); reply.Code != messages.CodeRunNotOver || !strings.Contains(reply.Error, "1 of its calls") {
			t.Errorf("one may be handed out again: %+v", reply)
		}
		r.done(c)
		if reply := r.erase(run); reply.Error != "" {
			t.Errorf("%+v", reply)
		}
	})
}

// Each step is done by whoever comes after a coordinator that died at it.
func TestS12_3_ADeletionOutlivesItsCoordinator(t *testing.T) {
	for step := int64(1); ; step++ {
		died := false
		bubble(t, func(t *testing.T, r *rig) {
			r.coordinator()
			r.tool("t", messages.Unsafe)
			before := r.everything()
			r.full()
			r.erase(messages.NamedRun("r"))
			var n atomic.Int64
			var gone atomic.Bool
			broken := errors.New("died")
			for _, c := range r.members {
				c.stop()
			}
			dying := r.coordinator(func(cfg *coordination.Config) {
				b := cfg.Broker.(*memory.Broker)
				cfg.Patience = time.Second
				cfg.Broker = &mortal{Broker: b, dies: func() error {
					if gone.Load() || n.Add(1) == step {
						gone.Store(true)
						return broken
					}
					return nil
				}}
			})
			pass(lease + time.Second)
			died = gone.Load()
			dying.stop()
			r.coordinator()
			pass(5 * lease)
			synctest.Wait()
			left := slices.DeleteFunc(places(r.everything(), before), ofOthers)
			if len(left) > 0 {
				t.Errorf("after a death at step %d: %v", step, left)
			}
		})
		if t.Failed() || !died {
			if step < 8 {
				t.Errorf("there were %d steps only", step)
			}
			return
		}
	}
}

// mortal fails at a step of a deletion, and from then on.
type mortal struct {
	*memory.Broker
	dies func() error
}

func (m *mortal) Erase(ctx context.Context, s messages.Stream, filter string) (int64, error) {
	if err := m.dies(); err != nil {
		return 0, err
	}
	return m.Broker.Erase(ctx, s, filter)
}

func (m *mortal) EraseEntries(ctx context.Context, b messages.Bucket, filter string) (int64, error) {
	if err := m.dies(); err != nil {
		return 0, err
	}
	return m.Broker.EraseEntries(ctx, b, filter)
}

func (m *mortal) Delete(ctx context.Context, b messages.Bucket, key string) error {
	if b == messages.BucketTools {
		return m.Broker.Delete(ctx, b, key)
	}
	if err := m.dies(); err != nil {
		return err
	}
	return m.Broker.Delete(ctx, b, key)
}

func TestS12_4_ARunIsKeptAsLongAsItSays(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		if reply := r.declare(messages.RunSpec{Keep: messages.Millis(1000 * time.Hour)}); reply.Code != messages.CodeBadRun || reply.Field != "keep_ms" || !strings.Contains(reply.Error, "744h") {
			t.Fatalf("%+v", reply)
		}
		before := maps.Clone(r.everything())
		r.declared(messages.RunSpec{Keep: messages.Millis(time.Hour)})
		c := r.accept()
		r.closeRun(1)
		pass(2 * time.Hour) // it counts from the end
		r.put(r.names.EncodeResult(messages.Result{Call: c.ID, Run: c.Run, Tool: "t", Status: messages.Succeeded, Attempts: 1, Ended: time.Now()}))
		r.done(c)
		pass(time.Hour)
		if r.run().Over == nil {
			t.Fatal("gone too early")
		}
		pass(5 * time.Minute)
		synctest.Wait()
		for _, at := range places(r.everything(), before) {
			if !ofOthers(at) {
				t.Errorf("left: %s", at)
			}
		}
	})
}
