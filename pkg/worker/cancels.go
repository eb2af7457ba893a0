package worker

import (
	"context"
	"strings"
	"sync"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// cancels knows which calls and runs are to end, from CONTROL, and tells the
// running tools among them.
type cancels struct {
	mu      sync.Mutex
	wishes  map[string]messages.Cancel // by key in CONTROL
	running map[*execution]struct{}
}

// execution is a running tool, as far as a cancel concerns it.
type execution struct {
	run  messages.Run
	call string
	stop context.CancelCauseFunc
}

func newCancels() *cancels {
	return &cancels{wishes: make(map[string]messages.Cancel), running: make(map[*execution]struct{})}
}

// apply takes one entry of CONTROL, as the watch brings it.
func (c *cancels) apply(e messages.Entry) {
	if !strings.HasPrefix(e.Key, "call.") && !strings.HasPrefix(e.Key, "run.") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Deleted {
		delete(c.wishes, e.Key)
		return
	}
	wish, err := messages.DecodeStory[messages.Cancel](e.Value)
	if err != nil { // whoever wrote it wanted an end; a version that we cannot read says no more
		wish = messages.Cancel{Status: messages.Cancelled, Code: messages.CodeCancelled}
	}
	c.wishes[e.Key] = wish
	for x := range c.running {
		if messages.ControlCallKey(x.run, x.call) == e.Key || x.run.Named() && messages.ControlRunKey(x.run) == e.Key {
			x.stop(stopFor(wish))
		}
	}
}

// wish says whether the call is to end; the wish for the call goes before that for its run.
func (c *cancels) wish(call messages.Call) (messages.Cancel, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(call)
}

func (c *cancels) find(call messages.Call) (messages.Cancel, bool) {
	if len(c.wishes) == 0 {
		return messages.Cancel{}, false
	}
	w, ok := c.wishes[messages.ControlCallKey(call.Run, call.ID)]
	if !ok && call.Run.Named() { // calls that were submitted without a run end alone (S5.5)
		w, ok = c.wishes[messages.ControlRunKey(call.Run)]
	}
	return w, ok
}

// begin makes a wish that comes from now on call stop, until end is called.
// When one is there already nothing begins, and it is returned.
func (c *cancels) begin(call messages.Call, stop context.CancelCauseFunc) (end func(), wish messages.Cancel, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, found := c.find(call); found {
		return nil, w, false
	}
	x := &execution{run: call.Run, call: call.ID, stop: stop}
	c.running[x] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, x)
	}, messages.Cancel{}, true
}

func stopFor(w messages.Cancel) *tool.Stop {
	s := &tool.Stop{Code: w.Code, Reason: "was cancelled"}
	if s.Code == "" {
		s.Code = messages.CodeCancelled
	}
	if w.Status == messages.Expired {
		s.Reason = "was stopped: its deadline passed"
	}
	if w.Reason != "" {
		s.Reason += ": " + w.Reason
	}
	return s
}
