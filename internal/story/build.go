package story

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"mulligan/pkg/messages"
)

// Build tells the story that the material holds. It is pure.
func Build(m *Material, now time.Time) Story {
	s := Story{Call: m.Call, Run: m.Run.Name(), Submitted: messages.CallTime(m.Call), Unreadable: m.Unreadable}
	s.Dispatches = dispatches(m)
	s.fillHead(m)
	s.fillEnd(m)
	s.fillTimes(now)
	s.State, s.Now = where(m, now)
	if c := m.Cancel; c != nil {
		s.Cancel = &Wish{By: c.By, Reason: c.Reason, At: c.At}
	}
	s.ReplayOf = s.Labels.ReplayOf()
	for _, r := range m.Replays {
		s.Replays = append(s.Replays, Replay{Call: r.Call, Run: r.Run.Name(), By: r.By, At: r.At})
	}
	for _, l := range m.Late {
		s.Late = append(s.Late, late(l))
	}
	return s
}

// fillHead takes what was submitted from the earliest place that still has it.
func (s *Story) fillHead(m *Material) {
	var c messages.Call
	known := true
	switch {
	case len(m.Failures) > 0:
		c = m.Failures[slices.Min(slices.Collect(maps.Keys(m.Failures)))].Call
	case m.Queued != nil:
		c = m.Queued.Call
	case recorded(m.Record):
		c = m.Record.Call
	case m.Record != nil:
		c, known = m.Record.Call, false
		c.Effect = ""
	default:
		known = false
	}
	if r := m.Result; r != nil && !known { // the record, if there is one, was made of it
		c = messages.Call{Ref: r.Ref, Tool: r.Tool, OriginalTool: r.OriginalTool, Labels: r.Labels}
	}
	s.Ref, s.Tool, s.Queue, s.Effect, s.Task, s.Labels, s.Deadline = c.Ref, c.Tool, c.Queue, c.Effect, c.Task, c.Labels, c.Deadline
	if c.OriginalTool != "" {
		s.Tool = c.OriginalTool
	}
	if known {
		s.Lane = c.Lane
	}
	switch {
	case m.Result != nil:
		s.Attempts = m.Result.Attempts
	case m.Record != nil:
		s.Attempts = m.Record.Spent
	}
}

func (s *Story) fillEnd(m *Material) {
	r := m.Result
	if r == nil {
		return
	}
	s.End = &End{
		Status: r.Status, Code: r.Code, IsError: r.IsError, Output: printable(r.Output), OutputSize: r.Output.Size(), RecoveredBy: r.RecoveredBy,
		Reason: r.Reason, Guidance: r.Guidance, Worker: r.Worker, At: r.Ended,
	}
	if m.Record != nil && m.Record.Outcome != nil && m.Record.Outcome.Status == r.Status { // the result may hold only the beginning
		s.End.Reason, s.End.Guidance = longer(r.Reason, m.Record.Outcome.Reason), longer(r.Guidance, m.Record.Outcome.Guidance)
	}
}

func (s *Story) fillTimes(now time.Time) {
	until := now
	if s.End != nil && !s.End.At.IsZero() {
		until = s.End.At
	}
	s.TimeInAll = messages.Millis(max(0, until.Sub(s.Submitted)))
	for i := range s.Dispatches {
		d := &s.Dispatches[i]
		s.TimeInTools += d.Duration
		if d.Analysis != nil && d.Analysis.Usage != nil {
			sum := *d.Analysis.Usage
			if s.Usage != nil {
				sum = s.Usage.Plus(sum)
			}
			s.Usage = &sum
		}
		if d.Worker != "" && !slices.Contains(s.Workers, d.Worker) {
			s.Workers = append(s.Workers, d.Worker)
		}
		starts := 0
		for _, mark := range d.Marks {
			if mark.Tombstone == "" {
				starts++
			}
		}
		s.ExtraStarts += max(0, starts-1)
		if i+1 < len(s.Dispatches) && !d.Failed.IsZero() && !s.Dispatches[i+1].Started.IsZero() {
			d.Waited = messages.Millis(max(0, s.Dispatches[i+1].Started.Sub(d.Failed)))
		}
	}
}

// dispatches lists every dispatch that left a trace, and that which runs.
func dispatches(m *Material) []Dispatch {
	last := -1
	note := func(n int) { last = max(last, n) }
	for n := range m.Failures {
		note(n)
	}
	for n := range m.Decisions {
		note(n)
	}
	for _, st := range m.Starts {
		note(st.N)
	}
	if m.Queued != nil {
		note(m.Queued.Call.Dispatch)
	}
	if m.Record != nil && m.Record.State == messages.Dispatched {
		note(m.Record.N)
	}
	if m.Result != nil {
		note(m.Result.Dispatch)
	}
	out := make([]Dispatch, 0, last+1)
	for n := range last + 1 {
		d := dispatch(m, n)
		if len(out) > 0 && d.Input != nil && out[len(out)-1].Input != nil {
			before := out[len(out)-1]
			d.Changes = Changes(before.Tool, *before.Input, d.Tool, *d.Input)
		}
		out = append(out, d)
	}
	return out
}

func dispatch(m *Material, n int) Dispatch {
	d := Dispatch{N: n, Attempt: n, Outcome: "no outcome yet"}
	for _, st := range m.Starts {
		if st.N == n {
			d.Marks = append(d.Marks, StartMark{Worker: st.Worker, At: st.At, Delivery: st.Delivery, Tombstone: st.Tombstone})
		}
	}
	f, failed := m.Failures[n]
	switch {
	case failed:
		d.describe(f.Call, f.Input)
	case m.Queued != nil && m.Queued.Call.Dispatch == n:
		d.describe(m.Queued.Call, m.Queued.Call.Input)
	case recorded(m.Record) && m.Record.N == n:
		d.describe(m.Record.Call, m.Record.Input)
	case m.Result != nil && m.Result.Dispatch == n:
		d.Tool, d.Attempt = m.Result.Tool, max(0, m.Result.Attempts-1)
	case m.Record != nil && m.Record.N == n:
		d.Tool, d.Attempt = m.Record.Call.Tool, max(0, m.Record.Spent-1)
	}
	if failed {
		d.fail(f)
	}
	dec, decided := m.Decisions[n]
	if decided {
		d.Analysis = analysis(dec)
	}
	if a, ok := m.Answers[n]; ok {
		d.Answer, d.Prompt = &a, dec.Action.Prompt
	}
	if r := m.Record; r != nil && r.State == messages.Parked && r.N == n {
		d.Prompt = r.Prompt
	}
	if m.Record != nil {
		for _, a := range m.Record.Corrections {
			if a.N == n {
				d.Applied, d.AppliedWhy = &a.Result, a.Reason
			}
		}
	}
	if r := m.Result; r != nil && r.Dispatch == n && r.Status == messages.Succeeded {
		d.Outcome, d.Executed, d.Worker, d.Duration = string(messages.Succeeded), true, r.Worker, r.Duration
		if d.Started.IsZero() {
			d.Started = r.Ended.Add(-r.Duration.Duration())
		}
	} else if r != nil && !failed {
		d.Outcome = unran(*r)
	}
	return d
}

// recorded says that a record holds the call as it was submitted. One that was
// written when only the result was left knows no more than that, and has no key.
func recorded(r *messages.Record) bool { return r != nil && r.Call.Key != "" }

// unran is what became of a dispatch that left no outcome before its call ended.
func unran(r messages.Result) string {
	if r.Code == messages.CodeHookVeto || r.Code == messages.CodeLoopDetected || r.Code == messages.CodeBreakerOpen {
		return "not dispatched: " + string(r.Code)
	}
	return "never ran to an outcome"
}

func (d *Dispatch) describe(c messages.Call, input messages.Body) {
	d.Tool, d.Attempt, d.Key, d.RecoveredBy = c.Tool, c.Attempt, c.Key, c.RecoveredBy
	if input.Ref != nil {
		d.InputSize = input.Ref.Size
		return
	}
	text := printable(input)
	d.Input = &text
}

func (d *Dispatch) fail(f messages.Failure) {
	d.Outcome, d.Code, d.Error, d.Ambiguous, d.Executed = "failed", f.Code, f.Error, f.Ambiguous, f.Executed
	d.Worker, d.Started, d.Failed, d.Duration, d.Stderr, d.RetryAfter = f.Worker, f.Started, f.At, f.Duration, f.Stderr, f.RetryAfter
}

func analysis(d messages.Decision) *Analysis {
	a := &Analysis{
		By: d.By, Rule: d.Rule, Reflector: d.Reflector, At: d.At, Action: d.Action.String(), Error: d.Error, Guidance: d.Guidance, MaxRetries: d.MaxRetries, Usage: d.Usage,
	}
	if x := d.Analysis; x != nil {
		a.RootCause, a.Severity, a.Recoverable, a.Correction = x.RootCause, x.Severity.String(), x.IsRecoverable, x.Correction
	}
	return a
}

func late(l Late) LateOutcome {
	o := LateOutcome{Dispatch: l.N, Why: l.Why, Worker: l.Worker, At: l.At}
	switch {
	case l.Output != nil:
		o.Success, o.Text = true, printable(*l.Output)
	case l.Failure != nil:
		o.Text = l.Failure.Error
	case l.Answer != nil:
		o.Answer, o.Text = l.Answer, answered(*l.Answer)
	}
	return o
}

// printable is a body as text: itself, or how large it is.
func printable(b messages.Body) string {
	switch {
	case b.Ref != nil:
		return fmt.Sprintf("(%d bytes, kept apart as payload %s)", b.Ref.Size, b.Ref.Digest)
	case !utf8.Valid(b.Inline):
		return fmt.Sprintf("%q", b.Inline)
	}
	return string(b.Inline)
}

func longer(a, b string) string {
	if len(b) > len(a) {
		return b
	}
	return a
}
