package dispatch

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

var update = flag.Bool("update", false, "rewrite the expected output of the scripts in testdata")

// script plays testdata/<name>.txt. A line that begins with "> " is a command;
// the lines after it are what it prints. Lines with # and empty ones stay as
// they are. With -update the output is rewritten: commit only differences that
// you can explain.
func script(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	w := newWorld(messages.Idempotent)
	for line := range strings.Lines(string(want)) {
		text := strings.TrimSpace(line)
		cmd, isCommand := strings.CutPrefix(text, "> ")
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
			got.WriteString(line)
		case isCommand:
			got.WriteString(line)
			if err := w.command(cmd); err != nil {
				t.Fatalf("%s: %q: %v", path, cmd, err)
			}
			for _, l := range w.log {
				fmt.Fprintf(&got, "  %s\n", l)
			}
			w.log = nil
		}
	}
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() != string(want) {
		t.Errorf("%s is played differently:\n%s", path, got.String())
	}
}

// words reads the arguments of a command: plain words, and key=value.
type words struct {
	plain []string
	named map[string]string
}

func parse(args []string) words {
	w := words{named: map[string]string{}}
	for _, a := range args {
		if k, v, ok := strings.Cut(a, "="); ok {
			w.named[k] = v
		} else {
			w.plain = append(w.plain, a)
		}
	}
	return w
}

func (a words) has(flag string) bool { return slices.Contains(a.plain, flag) }

func (a words) at(i int) string {
	if i < len(a.plain) {
		return a.plain[i]
	}
	return ""
}

func (a words) int(i int) int {
	var n int
	_, _ = fmt.Sscan(a.at(i), &n)
	return n
}

func (a words) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return d
}

func (w *world) command(line string) error {
	fields := strings.Fields(line)
	a := parse(fields[1:])
	switch fields[0] {
	case "call":
		return w.cmdCall(a)
	case "tool":
		w.cmdTool(a)
	case "fail":
		w.fail(w.cmdFailure(a))
	case "decide":
		w.decide(a.int(0), cmdDecision(a))
	case "answer":
		if !w.answer(a.int(0), cmdAnswer(a)) {
			w.say("refused: answered already")
		}
	case "cancel":
		w.cancelWith(messages.Cancel{Status: messages.Cancelled, Code: messages.CodeCancelled, Reason: "by hand"})
	case "settled":
		w.trigger(Event{Trigger: messages.Trigger{Kind: messages.TriggerSettled, N: a.int(0)}})
	case "due":
		w.trigger(Event{Trigger: messages.Trigger{Kind: messages.TriggerDue, N: a.int(0), W: a.int(1)}})
	case "fire":
		w.fire(a.at(0))
	case "start":
		w.starts[a.at(0)] = "worker"
	case "result":
		return w.cmdResult(a)
	case "take":
		return w.take(a.at(0), a.at(1))
	case "step":
		return w.act(a.at(0))
	case "finish":
		return w.finish(a.at(0))
	case "crash":
		w.crash(a.at(0))
	case "stale":
		w.stale = true
	case "advance":
		w.now = w.now.Add(a.duration(a.at(0)))
	case "full":
		w.callsFull, w.resultsFull = a.has("calls"), a.has("results")
	case "run-ended":
		w.runEnded = &messages.Cancel{Status: messages.Cancelled, Code: messages.CodeRunEnded, Reason: "its run ended"}
	case "verdict":
		w.say("%s: %s", w.actors[a.at(0)].verdict.Do, w.actors[a.at(0)].verdict.Why)
	case "show":
		w.cmdShow(a)
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

// finish acts until the trigger is acked.
func (w *world) finish(name string) error {
	for i := 0; w.actors[name] != nil; i++ {
		if i > 50 {
			return fmt.Errorf("no end after 50 steps")
		}
		if err := w.act(name); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) cmdCall(a words) error {
	if e, ok := a.named["effect"]; ok {
		if err := w.call.Effect.UnmarshalText([]byte(e)); err != nil {
			return err
		}
	}
	if a.has("no-run") {
		w.call.Run = messages.UnnamedRun("01900000-0000-7000-8000-0000000000ff")
	}
	if d, ok := a.named["deadline"]; ok {
		w.call.Deadline = epoch.Add(a.duration(d))
		w.schedules["deadline.0.0"] = messages.Due{Kind: messages.DueDeadline}
	}
	w.queued[0] = w.call
	return nil
}

func (w *world) cmdTool(a words) {
	t := Tool{Spec: messages.ToolSpec{Name: a.at(0), Queue: "other", Effect: messages.Effect(a.named["effect"])}, Unusable: a.named["unusable"]}
	if field := a.named["require"]; field != "" {
		t.Validate = func(in []byte) error {
			var m map[string]any
			if json.Unmarshal(in, &m) != nil || m[field] == nil {
				return fmt.Errorf("%q is missing", field)
			}
			return nil
		}
	}
	w.tools[a.at(0)] = t
}

func (w *world) cmdFailure(a words) messages.Failure {
	f := w.failureOf(a.int(0))
	f.Executed = !a.has("not-executed")
	f.Ambiguous = a.has("ambiguous")
	f.NothingDone = a.has("nothing-done")
	f.RetryAfter = messages.Millis(a.duration(a.named["retry-after"]))
	if c := a.named["code"]; c != "" {
		f.Code = messages.Code(c)
	}
	if m, ok := a.named["mark"]; ok {
		_, _ = fmt.Sscan(m, &f.Mark)
	}
	if !a.has("running") {
		delete(w.queued, f.Call.Dispatch)
	}
	return f
}

func cmdDecision(a words) messages.Decision {
	d := messages.Decision{By: "rules", Rule: "script", Park: a.has("park"), MaxRetries: 3,
		Analysis: &messages.FailureAnalysis{IsRecoverable: true, RootCause: "cause", Severity: messages.Medium}}
	switch a.at(1) {
	case "retry":
		d.Action = messages.Retry(a.duration(a.at(2)))
	case "ask":
		d.Action = messages.AskUser("what now?")
	case "skip":
		d.Action = messages.Skip("not worth it")
	default:
		d.Action = messages.Fail("no use")
	}
	if a.named["severity"] == "low" {
		d.Analysis.Severity = messages.Low
	}
	c := &messages.Correction{Type: messages.InputFix, Description: "a fix"}
	if fix, ok := a.named["fix"]; ok {
		c.ModifiedInput, d.Analysis.Correction = json.RawMessage(fix), c
	}
	if tool, ok := a.named["change"]; ok {
		c.Type, c.AlternativeTool, d.Analysis.Correction = messages.ToolChange, &tool, c
	}
	if kind, ok := a.named["correction"]; ok {
		c.Type, d.Analysis.Correction = messages.CorrectionType(kind), c
	}
	return d
}

func cmdAnswer(a words) messages.Answer {
	x := messages.Answer{Kind: messages.AnswerKind(a.at(1)), By: "ann"}
	if e, ok := a.named["input"]; ok {
		b := messages.Text(e)
		x.Input = &b
	}
	return x
}

func (w *world) cmdResult(a words) error {
	r := messages.Result{Call: w.call.ID, Run: w.call.Run, Tool: w.call.Tool, Attempts: 1, Dispatch: a.int(1)}
	if err := r.Status.UnmarshalText([]byte(a.at(0))); err != nil {
		return err
	}
	w.putResult(r)
	return nil
}

func (w *world) cmdShow(a words) {
	if a.has("corrections") {
		for _, c := range w.rec.Corrections {
			w.say("%d %s %s %q ended=%s", c.N, c.Type, c.Result, c.Reason, c.Ended)
		}
		return
	}
	if w.rec == nil {
		w.say("record: none")
	} else {
		w.say("record: %s by %s", show(*w.rec), keyOf(w.rec.Trigger))
	}
	if w.result != nil {
		w.say("result: %s (%s) attempts=%d tool=%s: %s", w.result.Status, w.result.Code, w.result.Attempts, w.result.Tool, w.result.Reason)
	}
	w.say("queued: %v, schedules: %v, triggers: %v, run ended: %v", slices.Sorted(maps.Keys(w.queued)),
		slices.Sorted(maps.Keys(w.schedules)), slices.Sorted(maps.Keys(w.triggers)), w.runEnded != nil)
}
