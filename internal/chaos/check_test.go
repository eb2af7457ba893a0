//go:build unix

package chaos

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"mulligan/pkg/messages"
)

var when = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// sound is a history in which nothing is wrong: an unsafe call that took effect
// once, an idempotent one that failed once, and one that was refused.
func sound(t *testing.T) History {
	t.Helper()
	names, err := messages.NewPool("")
	if err != nil {
		t.Fatal(err)
	}
	h := History{Names: names, Written: 2, Handed: 9, Again: 2, Struck: map[Kind]int{Kill: 1}, Versions: make(map[string][]messages.Record)}
	for i, tool := range []string{"unsafe", "idem", "idem"} {
		call := fmt.Sprintf("01900000-0000-7000-8000-00000000000%d", i)
		h.Plan.Wishes = append(h.Plan.Wishes, Wish{Call: messages.Submission{Tool: tool}})
		h.Told = append(h.Told, Told{Call: call, Run: messages.NamedRun("r"), Submitted: when})
	}
	h.Told[2].Refused = messages.CodeQueueFull
	for i, dispatch := range []int{0, 1} {
		h.Results = append(h.Results, messages.Result{Call: h.Told[i].Call, Run: h.Told[i].Run, Status: messages.Succeeded, Attempts: dispatch + 1, Dispatch: dispatch, Ended: when.Add(time.Second)})
		h.Effects = append(h.Effects, Effect{Call: h.Told[i].Call, Dispatch: dispatch, Attempt: dispatch})
	}
	h.Story = append(h.Story, failureOf(t, h, 1, 0))
	return h
}

func failureOf(t *testing.T, h History, i, n int) messages.Stored {
	t.Helper()
	m, err := h.Names.EncodeFailure(messages.Failure{
		Call: messages.Call{ID: h.Told[i].Call, Run: h.Told[i].Run, Tool: "t", Queue: "q", Lane: messages.LaneNormal, Effect: messages.Unsafe, Key: "k", Dispatch: n, Attempt: min(n, messages.MaxRetries)},
		Code: messages.CodeToolError, Executed: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return messages.Stored{Message: m}
}

func TestASoundHistoryBreaksNothing(t *testing.T) {
	r := Check(sound(t))
	if len(r.Violations) > 0 || r.Recovered != 1 || r.Refused != 1 || r.Ends[messages.Succeeded] != 2 || r.Struck != 1 || r.Again != 2 || r.Idempotent != 1 {
		t.Errorf("%+v", r)
	}
}

// After a human's word a second effect is what was asked for, attempt by attempt.
func TestAHumanMayAskForASecondEffect(t *testing.T) {
	h := sound(t)
	h.Effects = append(h.Effects, Effect{Call: h.Told[0].Call, Dispatch: 1, Attempt: 1})
	if r := Check(h); len(r.Violations) == 0 {
		t.Error("a second effect that nobody asked for is not seen")
	}
	h.Story = append(h.Story, messages.Stored{Message: messages.Message{Subject: h.Names.AnswerSubject(h.Told[0].Run, h.Told[0].Call, 0)}})
	if r := Check(h); len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
	h.Effects = append(h.Effects, h.Effects[len(h.Effects)-1])
	if r := Check(h); len(r.Violations) != 1 {
		t.Errorf("an attempt that took effect twice: %q", r.Violations)
	}
}

// Each broken promise is seen.
func TestEveryBrokenPromiseIsSeen(t *testing.T) {
	for says, spoil := range map[string]func(*History){
		"was accepted and has no result":            func(h *History) { h.Results, h.Written = h.Results[:1], 1 },
		"RESULTS holds 2 results and was written 3": func(h *History) { h.Written = 3 },
		"has two results":                           func(h *History) { h.Results = append(h.Results, h.Results[0]); h.Written = 3 },
		"was refused (queue_full), and ran":         func(h *History) { h.Effects = append(h.Effects, Effect{Call: h.Told[2].Call}) },
		"attempt 0 of an unsafe tool took effect 2": func(h *History) { h.Effects = append(h.Effects, h.Effects[0]) },
		"succeeded, and took effect 0 times":        func(h *History) { h.Effects = h.Effects[1:] },
		"took effect in dispatch 1 and ended in":    func(h *History) { h.Effects = append(h.Effects, Effect{Call: h.Told[0].Call, Dispatch: 1, Attempt: 1}) },
		"ended cancelled, and took effect":          func(h *History) { h.Results[0].Status = messages.Cancelled },
		"the witness knows nothing of it":           func(h *History) { h.Effects[1].Dispatch = 0 },
		"dispatch 1 was executed 5 times":           func(h *History) { h.Effects = append(h.Effects, repeat(h.Effects[1], 4)...) },
		"7 attempts by its result":                  func(h *History) { h.Results[1].Attempts = 7 },
		"an effect of call x, which nobody":         func(h *History) { h.Effects = append(h.Effects, Effect{Call: "x"}) },
		"a result of call x, which nobody":          func(h *History) { h.Results = append(h.Results, messages.Result{Call: "x"}); h.Written++ },
		"is left without a reason":                  func(h *History) { h.Left = []string{"mulligan.call.q.normal.x"} },
		"the record of call c is left waiting": func(h *History) {
			h.Records = []messages.Record{{Call: messages.Call{ID: "c"}, State: messages.Waiting}}
		},
		"goes back from (2, dispatched 0) to (1, ": func(h *History) {
			h.Versions["k"] = []messages.Record{{N: 2, State: messages.Dispatched}, {N: 1, State: messages.Dispatched}}
		},
		"goes back from (1, ended 0) to (1, waiting": func(h *History) {
			h.Versions["k"] = []messages.Record{{N: 1, State: messages.Ended}, {N: 1, State: messages.Waiting}}
		},
		"decision 0 comes after decision 1": func(h *History) { h.Story = append(h.Story, decisions(h, 1, 0)...) },
		"no result came after kill 2": func(h *History) {
			h.Stored = []time.Time{when, when.Add(time.Second)}
			h.Killing.At = []time.Time{when, when.Add(2 * time.Second)}
		},
		"worker-2 ended, though": func(h *History) {
			*h = killed(*h)
			h.Killing.Fallen = []string{"worker-2"}
		},
		"1 calls were refused and 0": func(h *History) {
			*h = killed(*h)
			h.Told[2].Refused = messages.CodeQueueFull
		},
		"0 calls were refused and 1": func(h *History) {
			*h = killed(*h)
			h.Told[2].Uncertain = true
		},
		"which is nothing": func(h *History) {
			h.Story = append(h.Story, messages.Stored{Message: messages.Message{Subject: "mulligan.what"}})
		},
	} {
		h := sound(t)
		spoil(&h)
		r := Check(h)
		if !strings.Contains(strings.Join(r.Violations, "\n"), says) {
			t.Errorf("%q is not seen: %q", says, r.Violations)
		}
	}
}

// killed is a history without anything refused, in which a broker was killed.
func killed(h History) History {
	h.Killing.At, h.Stored = []time.Time{when}, []time.Time{when.Add(-time.Second), when.Add(3 * time.Second)}
	h.Told[2].Refused = ""
	return h
}

func TestRecoveryIsFromAKillToTheNextResult(t *testing.T) {
	h := killed(sound(t))
	h.Plan.Wishes, h.Told = h.Plan.Wishes[:2], h.Told[:2]
	if r := Check(h); len(r.Violations) > 0 || r.Recovery != 3*time.Second {
		t.Errorf("%s, %q", r.Recovery, r.Violations)
	}
}

func repeat(e Effect, n int) []Effect {
	out := make([]Effect, n)
	for i := range out {
		out[i] = e
	}
	return out
}

func decisions(h *History, ns ...int) []messages.Stored {
	var out []messages.Stored
	for _, n := range ns {
		out = append(out, messages.Stored{Message: messages.Message{Subject: h.Names.DecisionSubject(h.Told[1].Run, h.Told[1].Call, n)}})
	}
	return out
}

func op(id int, call, ret int64, in casInput, out casOutput) porcupine.Operation {
	return porcupine.Operation{ClientId: id, Call: call, Return: ret, Input: in, Output: out}
}

func TestCompareAndSetIsHeldToAnOrder(t *testing.T) {
	write := func(expect uint64, value int) casInput { return casInput{Write: true, Expect: expect, Value: value} }
	for name, c := range map[string]struct {
		ops casHistory
		ok  bool
	}{
		"one after the other": {casHistory{op(0, 0, 1, write(0, 7), casOutput{Revision: 1}), op(1, 2, 3, casInput{}, casOutput{Revision: 1, Value: 7})}, true},
		"two winners":         {casHistory{op(0, 0, 5, write(0, 7), casOutput{Revision: 1}), op(1, 1, 4, write(0, 8), casOutput{Revision: 2})}, false},
		"an old read":         {casHistory{op(0, 0, 1, write(0, 7), casOutput{Revision: 1}), op(1, 2, 3, casInput{}, casOutput{})}, false},
		"a lost answer that counted": {casHistory{op(0, 0, 99, write(0, 7), casOutput{Unknown: true}), op(1, 2, 3, casInput{}, casOutput{Revision: 4, Value: 7}),
			op(1, 4, 5, write(4, 8), casOutput{Revision: 5})}, true},
		"a lost answer that did not": {casHistory{op(0, 0, 99, write(0, 7), casOutput{Unknown: true}), op(1, 2, 3, write(0, 8), casOutput{Revision: 1})}, true},
		"a conflict with what is on its way": {casHistory{op(0, 0, 9, write(0, 7), casOutput{Revision: 1}), op(1, 1, 2, write(0, 8), casOutput{Conflict: true}),
			op(1, 3, 4, casInput{}, casOutput{})}, true},
	} {
		if err := linearizable(c.ops); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASeedIsAPlan(t *testing.T) {
	c := Config{Seed: 7, Nodes: 3, Calls: 500, Faults: 12, Over: 20 * time.Second}
	a, b := NewPlan(c), NewPlan(c)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed made two plans")
	}
	if says := fmt.Sprint(a.Strikes); !strings.Contains(says, string(Partition)) || !strings.Contains(says, Leader) {
		t.Errorf("seed 7 cuts no broker off, or hurts no leader: %s", says)
	}
	c.Seed = 8
	if reflect.DeepEqual(a.Strikes, NewPlan(c).Strikes) {
		t.Error("two seeds made one plan")
	}
	for seed := range uint64(200) {
		c.Seed = seed
		p := NewPlan(c)
		if len(p.Strikes) < c.Faults || len(p.Wishes) != c.Calls {
			t.Fatalf("seed %d: %d faults, %d calls", seed, len(p.Strikes), len(p.Wishes))
		}
		var broker time.Duration
		for _, f := range p.Strikes {
			if !strings.HasPrefix(f.Target, "broker") {
				continue
			}
			if f.At < broker {
				t.Fatalf("seed %d: two brokers are hurt at once: %v", seed, f)
			}
			broker = f.At + f.For
		}
	}
}

// TestOneBrokerKeepsItsPlans: what a seed of one broker means does not change,
// or its evidence says nothing of the code of today.
func TestOneBrokerKeepsItsPlans(t *testing.T) {
	all := sha256.New()
	for seed := range uint64(5) {
		p := NewPlan(Config{Seed: seed, Nodes: 1, Calls: 100, Faults: 12, Over: 20 * time.Second})
		fmt.Fprint(all, p.Strikes)
		for _, w := range p.Wishes {
			fmt.Fprint(all, w.At, w.Deadline, w.Cancel, w.Call.Tool, w.Call.Run, w.Call.Lane, string(w.Call.Policy), string(w.Call.Input))
		}
	}
	if got := fmt.Sprintf("%x", all.Sum(nil)[:8]); got != "bc20562d0c01dfb6" {
		t.Errorf("the plans of seeds 0 to 4 are others than they were: %s", got)
	}
}

func TestSeedsAreRead(t *testing.T) {
	got, err := ParseSeeds("7,1-3")
	if err != nil || !reflect.DeepEqual(got, []uint64{7, 1, 2, 3}) {
		t.Error(got, err)
	}
	for _, bad := range []string{"", "x", "3-1", "1-99999999"} {
		if _, err := ParseSeeds(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
