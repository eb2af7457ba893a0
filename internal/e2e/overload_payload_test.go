//go:build unix

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// sizes are zero, and each limit with its neighbours.
func sizes(limits ...int) []int {
	out := []int{0}
	for _, n := range limits {
		out = append(out, n-1, n, n+1)
	}
	return out
}

// bodies are texts of n bytes that grow differently on their way: as they are,
// when they are quoted, and as no text at all.
func bodiesOf(n int) map[string][]byte {
	return map[string][]byte{
		"letters": bytes.Repeat([]byte("x"), n),
		"quotes":  bytes.Repeat([]byte(`"`), n),
		"bytes":   bytes.Repeat([]byte{0xff}, n),
	}
}

// TestOutputsAtEveryBoundary: what a tool gives back, as a success and as a
// failure, arrives byte for byte at every size up to the largest, whatever it
// holds; one byte above it, the failure says what to do.
func TestOutputsAtEveryBoundary(t *testing.T) {
	t.Parallel()
	c := start(t, 0)
	c.run("coordinator", 0, "--policy", writeFile(t, c.dir, "p.yaml", "pool: {breaker: off, max_retries: 0}\n"))
	c.run("reflector", 0)
	give := tool.Raw("give", nil, func(_ context.Context, call tool.Call) (tool.Output, error) {
		var in struct {
			Size int
			Kind string
			Fail bool
		}
		if err := json.Unmarshal(call.Input, &in); err != nil {
			return tool.Output{}, err
		}
		body := bodiesOf(in.Size)[in.Kind]
		if in.Fail {
			return tool.Output{}, tool.Failed(body)
		}
		return tool.Output{Body: body}, nil
	}, tool.Effect(messages.ReadOnly))
	c.within("worker", 4, give)
	c.serving(1)
	type want struct {
		size int
		kind string
		fail bool
	}
	wants := make(map[string]want)
	var calls []messages.Submission
	for _, n := range sizes(messages.MaxInline, messages.PayloadChunk, 1<<20, messages.MaxPayload) {
		for kind := range bodiesOf(0) {
			for _, fail := range []bool{false, true} {
				s := call("give", fmt.Sprintf(`{"size":%d,"kind":%q,"fail":%v}`, n, kind, fail))
				wants[s.Call] = want{n, kind, fail}
				calls = append(calls, s)
			}
		}
	}
	c.submit(calls)
	for id, r := range c.results(calls, func(int) {}).results {
		w := wants[id]
		output, err := c.client.Output(t.Context(), r)
		status := messages.Succeeded
		if w.fail || w.size > messages.MaxPayload {
			status = messages.Failed
		}
		switch {
		case err != nil || r.Status != status:
			t.Errorf("%+v ended %s (%.200s), %v", w, r.Status, r.Reason, err)
		case w.size > messages.MaxPayload:
			if !strings.Contains(string(output), fmt.Sprint(messages.MaxPayload)) {
				t.Errorf("%+v says %.300q", w, output)
			}
		case w.fail && w.size == 0:
			if !strings.Contains(string(output), "failed without a text") {
				t.Errorf("%+v says %.300q", w, output)
			}
		case !bytes.Equal(output, bodiesOf(w.size)[w.kind]):
			t.Errorf("%+v came back as %d bytes: %.100q", w, len(output), output)
		}
	}
	c.unharmed()
}

// TestInputsAtEveryBoundary: an input of every size up to the largest reaches its
// tool byte for byte. What is larger, or is no text, is refused and runs nowhere.
func TestInputsAtEveryBoundary(t *testing.T) {
	t.Parallel()
	c := start(t, 0)
	c.run("coordinator", 0, "--policy", c.noBreaker())
	c.run("reflector", 0)
	var mu sync.Mutex
	got := make(map[string][]byte)
	take := tool.Raw("take", nil, func(_ context.Context, call tool.Call) (tool.Output, error) {
		mu.Lock()
		defer mu.Unlock()
		got[call.ID] = call.Input
		return tool.Output{}, nil
	}, tool.Effect(messages.Idempotent))
	c.within("worker", 4, take)
	c.serving(1)

	// object is a JSON object of n bytes, of one long string.
	object := func(n int, fill string) []byte {
		const frame = `{"x":""}`
		return []byte(`{"x":"` + strings.Repeat(fill, (n-len(frame))/len(fill)) + strings.Repeat("x", (n-len(frame))%len(fill)) + `"}`)
	}
	inputs := make(map[string][]byte)
	var good, bad []messages.Submission
	for _, n := range sizes(messages.MaxInline, messages.MaxChunkBytes, messages.PayloadChunk+1, 1<<20, messages.MaxPayload) {
		for _, fill := range []string{"x", `\"`, "é"} {
			if n == 0 {
				continue // no object; see below
			}
			s := call("take", "")
			s.Input = object(n, fill)
			inputs[s.Call] = s.Input
			if n > messages.MaxPayload {
				bad = append(bad, s)
			} else {
				good = append(good, s)
			}
		}
	}
	noText := call("take", "")
	noText.Input = []byte("{\"x\":\"\xff\"}")
	task, labels, names := call("take", "{}"), call("take", "{}"), call("take", "{}")
	const longestTask = messages.MaxInline - len("take") // which shares the room with the name of the tool
	task.Task = strings.Repeat("t", longestTask+1)
	labels.Labels = messages.Labels{"a": strings.Repeat("x", messages.MaxLabels)}
	names.Ref = strings.Repeat("x", messages.MaxName+1)
	bad = append(bad, noText, task, labels, names)
	for _, n := range sizes(messages.MaxTaskHeader, longestTask-1) { // a task goes from the header to a reference
		s := call("take", "{}")
		s.Task = strings.Repeat("t", n)
		inputs[s.Call] = s.Input
		good = append(good, s)
	}
	empty := call("take", "")

	refused, err := submitSurely(t, c.client, append(append(append([]messages.Submission{}, good...), bad...), empty))
	if err != nil {
		t.Fatal(err)
	}
	accepted, not := sorted(append(append([]messages.Submission{}, good...), bad...), refused)
	if len(accepted) != len(good) || len(not) != len(bad) {
		t.Errorf("%d were accepted and %d refused, want %d and %d: %+v", len(accepted), len(not), len(good), len(bad), refused)
	}
	for _, r := range refused {
		if (r.Code != messages.CodeTooLarge && r.Code != messages.CodeBadCall) || r.RetryAfter > 0 || r.Text == "" {
			t.Errorf("refused with %+v", r)
		}
	}
	for id, r := range c.results(append(good, empty), func(int) {}).results {
		if id == empty.Call {
			if r.Status != messages.Failed || !strings.Contains(string(r.Output.Inline), "they are empty") {
				t.Errorf("an empty input ended %s: %.200q", r.Status, r.Output.Inline)
			}
			continue
		}
		mu.Lock()
		if r.Status != messages.Succeeded || !bytes.Equal(got[id], inputs[id]) {
			t.Errorf("an input of %d bytes ended %s (%.200s), and %d bytes reached the tool", len(inputs[id]), r.Status, r.Reason, len(got[id]))
		}
		mu.Unlock()
	}
	for _, s := range append(bad, empty) {
		if _, ran := got[s.Call]; ran {
			t.Errorf("call %s ran", s.Call)
		}
	}
	c.unharmed()
}
