package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// The success path costs one delivery, one publish and one ack, and nothing else.
func TestASuccessCostsOneDeliveryOnePublishOneAck(t *testing.T) {
	bubble(t, func(r *rig) {
		w := r.worker(counted("echo", echo).Tool)
		c := r.call("echo", func(c *messages.Call) {
			c.Input = messages.Text(`{"n": 9007199254740993}`)
			c.Labels = messages.Labels{"a": "b"}
		})
		r.publish(c)
		synctest.Wait()

		got := r.result(c)
		if string(got.Output.Inline) != `{"n": 9007199254740993}` || got.Status != messages.Succeeded || got.IsError || got.Attempts != 1 ||
			got.Worker != "w1" || got.Ref != "r1" || got.Labels["a"] != "b" || got.Call != c.ID {
			t.Errorf("result %+v", got)
		}
		r.allAcked()
		counts := w.broker.Counts()
		fetches := counts[memory.OpFetch]
		delete(counts, memory.OpFetch)
		want := map[memory.Op]int{memory.OpDelivery: 1, memory.OpPutOnce: 1, memory.OpAck: 1}
		for op, n := range counts {
			if want[op] != n {
				t.Errorf("%s: %d times, want %d", op, n, want[op])
			}
		}
		if len(counts) != len(want) || fetches > 3 {
			t.Errorf("operations %v and %d fetches", counts, fetches)
		}
	})
}

func TestAFailureGoesToRecovery(t *testing.T) {
	bubble(t, func(r *rig) {
		text := "no such order: 'W1' \xff"
		w := r.worker(counted("find", func(context.Context, tool.Call) ([]byte, error) { return nil, errors.New(text) }).Tool)
		c := r.call("find", func(c *messages.Call) { c.Task = "t"; c.Attempt = 0 })
		r.publish(c)
		synctest.Wait()

		f := r.failure(c)
		if string(f.Output.Inline) != text || f.Error != "no such order: 'W1' \uFFFD" || f.Code != messages.CodeToolError ||
			!f.Executed || f.Ambiguous || f.Mark != 0 || f.Worker != "w1" || f.Call.Task != "t" || string(f.Input.Inline) != "{}" {
			t.Errorf("failure %+v", f)
		}
		r.noResult(c)
		r.allAcked()
		if n := w.broker.Count(memory.OpPutOnce, ">"); n != 1 {
			t.Errorf("%d publishes", n)
		}
	})
}

// One worker serves the tools of several queues with the same slots.
func TestToolsOfSeveralQueues(t *testing.T) {
	bubble(t, func(r *rig) {
		a, b := counted("a", echo, tool.Queue("q a")), counted("b", echo, tool.Queue("q/b"))
		r.worker(a.Tool, b.Tool)
		for _, lane := range []messages.Lane{messages.LaneHigh, messages.LaneNormal, messages.LaneLow} {
			inA := r.call("a", func(c *messages.Call) { c.Queue, c.Lane = "q a", lane })
			inB := r.call("b", func(c *messages.Call) { c.Queue, c.Lane = "q/b", lane })
			r.publish(inA)
			r.publish(inB)
			synctest.Wait()
			if r.result(inA).Status != messages.Succeeded || r.result(inB).Status != messages.Succeeded {
				t.Errorf("lane %s", lane)
			}
		}
	})
}
