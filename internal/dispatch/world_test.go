package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mulligan/pkg/messages"
)

// world is everything around the machine, reduced to what its rules are about:
// one call, its streams, two coordinators that take one step at a time. The
// scripts and the random exploration both drive it.
type world struct {
	now       time.Time
	call      messages.Call // as submitted
	rec, old  *messages.Record
	rev       int
	result    *messages.Result
	accepted  int // terminal results that RESULTS took
	failures  map[int]messages.Failure
	decisions map[int]messages.Decision
	answers   map[int]messages.Answer
	cancel    *messages.Cancel
	starts    map[string]string // "0", "1.2" → "tombstone" or a worker
	queued    map[int]messages.Call
	schedules map[string]messages.Due
	runEnded  *messages.Cancel
	triggers  map[string]*pending
	actors    map[string]*actor
	tools     map[string]Tool
	limits    Limits

	callsFull, resultsFull bool
	stale                  bool // the next read of the record is an old one
	log                    []string
}

// pending is a trigger that is stored and not acked.
type pending struct {
	event  Event
	holder string
	at     time.Time
}

// actor is a coordinator in the middle of one trigger.
type actor struct {
	key     string
	event   Event
	at      time.Time
	read    *messages.Record // as read, with its revision
	rev     int
	facts   Facts // Waited and Claim live as long as the handling
	verdict Verdict
	wrote   bool
	effects []Effect
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	testCall = "01900000-0000-7000-8000-000000000001"
	ms       = time.Millisecond
)

func newWorld(effect messages.Effect) *world {
	w := &world{
		now:      epoch,
		failures: map[int]messages.Failure{}, decisions: map[int]messages.Decision{}, answers: map[int]messages.Answer{},
		starts: map[string]string{}, queued: map[int]messages.Call{}, schedules: map[string]messages.Due{},
		triggers: map[string]*pending{}, actors: map[string]*actor{}, tools: map[string]Tool{},
		limits: Limits{AnswerBy: time.Hour, AnswerByLimit: 3 * time.Hour, MaxWait: 24 * time.Hour, ResultsRetention: 72 * time.Hour},
	}
	w.call = messages.Call{ID: testCall, Run: messages.NamedRun("r"), Tool: "t", Queue: "q", Lane: messages.LaneNormal,
		Effect: effect, Key: testCall, Input: messages.Text(`{"a":1}`)}
	w.queued[0] = w.call
	return w
}

func (w *world) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func keyOf(t messages.Trigger) string {
	switch t.Kind {
	case messages.TriggerDue:
		return fmt.Sprintf("due.%d.%d", t.N, t.W)
	case messages.TriggerCancel, messages.TriggerDeadline, messages.TriggerSettled:
		return string(t.Kind)
	}
	return fmt.Sprintf("%s.%d", t.Kind, t.N)
}

func (w *world) trigger(e Event) {
	k := keyOf(e.Trigger)
	if w.triggers[k] == nil {
		w.triggers[k] = &pending{event: e, at: w.now}
	}
}

// fail publishes failure.n, first write wins.
func (w *world) fail(f messages.Failure) {
	n := f.Call.Dispatch
	if _, there := w.failures[n]; !there {
		f.At = w.now
		w.failures[n] = f
	}
}

func (w *world) failureOf(n int) messages.Failure {
	c := w.call
	if q, ok := w.queued[n]; ok {
		c = q
	}
	c.Dispatch = n
	return messages.Failure{Call: c, Input: c.Input, Output: messages.Text(fmt.Sprintf("error of %d", n)),
		Code: messages.CodeToolError, Executed: true, Mark: firstMark(messages.Record{N: n})}
}

// decide publishes decision.n, first write wins.
func (w *world) decide(n int, d messages.Decision) {
	if _, there := w.decisions[n]; there {
		return
	}
	d.Dispatch = n
	w.decisions[n] = d
	w.trigger(Event{Trigger: messages.Trigger{Kind: messages.TriggerDecision, N: n}})
}

func (w *world) answer(n int, a messages.Answer) bool {
	if _, there := w.answers[n]; there {
		return false
	}
	w.answers[n] = a
	w.trigger(Event{Trigger: messages.Trigger{Kind: messages.TriggerAnswer, N: n}})
	return true
}

func (w *world) putResult(r messages.Result) {
	if w.result == nil {
		w.result = &r
		w.accepted++
	}
}

// fire turns a schedule into its due message.
func (w *world) fire(key string) {
	d := w.schedules[key]
	delete(w.schedules, key)
	switch d.Kind {
	case messages.DueRetry:
		w.trigger(Event{Trigger: messages.Trigger{Kind: messages.TriggerDue, N: d.N, W: d.W}})
	case messages.DueAnswerBy:
		w.trigger(Event{Trigger: messages.Trigger{Kind: messages.TriggerAnswerBy, N: d.N}})
	case messages.DueDeadline:
		w.trigger(Event{Trigger: messages.Trigger{Kind: messages.TriggerDeadline},
			Cancel: &messages.Cancel{Status: messages.Expired, Code: messages.CodeDeadline, At: w.now}})
	}
}

// take gives a free coordinator a trigger that nobody holds.
func (w *world) take(name, key string) error {
	p := w.triggers[key]
	if p == nil {
		return fmt.Errorf("no trigger %s; there are %s", key, strings.Join(slices.Sorted(maps.Keys(w.triggers)), " "))
	}
	p.holder = name
	w.actors[name] = &actor{key: key, event: p.event, at: p.at}
	w.step(name)
	return nil
}

// step reads and asks: steps 1 to 6.
func (w *world) step(name string) {
	a := w.actors[name]
	a.read, a.rev, a.wrote, a.effects = w.rec, w.rev, false, nil
	if w.stale && w.rev > 0 {
		a.read, a.rev = w.old, w.rev-1
	}
	w.stale = false
	e := a.event
	f := w.facts(a, &e)
	a.verdict = Step(a.read, e, f, w.now)
}

func (w *world) facts(a *actor, e *Event) Facts {
	f := a.facts
	f.Result, f.Limits, f.At = w.result, w.limits, a.at
	f.Tool = func(name string) (Tool, bool) { t, ok := w.tools[name]; return t, ok }
	n := e.N
	switch e.Kind {
	case messages.TriggerDecision:
		d := w.decisions[n]
		e.Decision = &d
	case messages.TriggerAnswer:
		x := w.answers[n]
		e.Answer = &x
		if x.Input != nil {
			f.Input = x.Input.Inline
		}
	case messages.TriggerCancel, messages.TriggerDeadline:
		if e.Kind == messages.TriggerCancel {
			e.Cancel = w.cancel
		}
		if c, ok := w.queued[0]; ok {
			f.Origin = &c
		}
		n = 0
		if a.read != nil {
			n = a.read.N
		}
	}
	if fl, ok := w.failures[n]; ok && (e.Kind == messages.TriggerDecision || ends(e.Kind)) {
		f.Failure = &fl
		f.Input = fl.Input.Inline
	}
	if f.Input == nil && a.read != nil {
		f.Input = a.read.Input.Inline
	}
	return f
}

var errIdle = errors.New("idle")

// act does the one next thing that a coordinator has to do.
func (w *world) act(name string) error {
	a := w.actors[name]
	if a == nil {
		return errIdle
	}
	if a.wrote {
		w.effect(name, a)
		return nil
	}
	switch v := a.verdict; v.Do {
	case Ack:
		w.ack(name)
	case ReadAgain:
		w.say("%s reads again: %s", name, v.Why)
		w.step(name)
	case WaitFirst:
		w.say("%s waits %s beside the trigger, reads", name, v.Delay)
		w.now = w.now.Add(v.Delay)
		a.facts.Waited = true
		w.step(name)
	case ClaimFirst:
		a.facts.Claim = w.claim(w.currentN(a), v.Mark)
		w.say("%s claims %s: %s", name, startKey(w.currentN(a), v.Mark), [...]string{"", "won", "lost"}[a.facts.Claim])
		w.step(name)
	case PutAnswer:
		put := w.answer(a.event.N, *v.Answer)
		w.say("%s puts the answer %s: %s", name, v.Answer.Kind, map[bool]string{true: "stored", false: "refused"}[put])
		w.ack(name)
	case Closed:
		w.follow(a, a.read)
	case Repeat:
		a.wrote, a.effects = true, Effects(v.Record)
		w.say("%s repeats the effects of %s", name, place(v.Record))
	default:
		w.write(name, a)
	}
	return nil
}

func (w *world) currentN(a *actor) int {
	if a.read == nil {
		return 0
	}
	return a.read.N
}

func startKey(n, mark int) string {
	if mark == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d.%d", n, mark)
}

func (w *world) claim(n, mark int) Claim {
	k := startKey(n, mark)
	if w.starts[k] == "" {
		w.starts[k] = "tombstone"
	}
	if w.starts[k] == "tombstone" {
		return ClaimWon
	}
	return ClaimLost
}

func (w *world) cas(a *actor, r messages.Record) bool {
	if a.rev != w.rev {
		return false
	}
	w.old, w.rec, w.rev = w.rec, &r, w.rev+1
	a.read, a.rev = w.rec, w.rev
	return true
}

func (w *world) write(name string, a *actor) {
	v := a.verdict
	if !w.cas(a, v.Record) {
		w.say("%s loses the compare-and-set, reads", name)
		w.step(name)
		return
	}
	w.say("%s writes %s", name, show(v.Record))
	switch v.Do {
	case WriteAgain:
		w.step(name)
	case Close:
		w.follow(a, a.read)
	default:
		a.wrote, a.effects = true, Effects(v.Record)
	}
}

func (w *world) follow(a *actor, r *messages.Record) {
	a.wrote, a.effects = true, AfterEnd(r, *w.result)
}

// effect does the next effect, or acks when none is left.
func (w *world) effect(name string, a *actor) {
	if len(a.effects) == 0 {
		w.ack(name)
		return
	}
	e := a.effects[0]
	a.effects = a.effects[1:]
	switch e.Kind {
	case CheckRun:
		w.checkRun(name, a)
	case Publish:
		w.publish(name, a, e.Call)
	case Schedule:
		w.say("%s schedules %s at +%s", name, schedKey(e.Due), e.Due.At.Sub(epoch))
		w.schedules[schedKey(e.Due)] = e.Due
	case PutResult:
		w.end(name, a)
	case EndRun:
		w.say("%s ends the run", name)
		w.runEnded = &messages.Cancel{Status: messages.Cancelled, Code: messages.CodeRunEnded}
	case PurgeQueued:
		w.say("%s purges dispatch %d", name, e.Call.Dispatch)
		delete(w.queued, e.Call.Dispatch)
	case PurgeSchedule:
		w.say("%s purges %s", name, schedKey(e.Due))
		delete(w.schedules, schedKey(e.Due))
	}
}

func (w *world) checkRun(name string, a *actor) {
	if w.runEnded == nil {
		return
	}
	w.say("%s sees that the run ended: cancels", name)
	a.effects = nil
	w.cancelWith(*w.runEnded)
}

func (w *world) cancelWith(c messages.Cancel) {
	if w.cancel == nil {
		w.cancel = &c
		w.trigger(Event{Trigger: messages.Trigger{Kind: messages.TriggerCancel}})
	}
}

func (w *world) publish(name string, a *actor, c messages.Call) {
	if !w.callsFull {
		w.say("%s publishes dispatch %d (attempt %d, key …%s)", name, c.Dispatch, c.Attempt, strings.TrimPrefix(c.Key, testCall))
		w.queued[c.Dispatch] = c
		return
	}
	off := PutOff(*a.read, w.now.Add(time.Second), "the queue is full")
	if !w.cas(a, off) {
		w.say("%s is refused, CALLS is full, and loses the compare-and-set", name)
		w.step(name)
		return
	}
	w.say("%s is refused, CALLS is full; writes %s", name, show(off))
	a.effects = Effects(off)
}

func (w *world) end(name string, a *actor) {
	if w.resultsFull {
		w.say("%s is refused, RESULTS is full: keeps the trigger", name)
		w.step(name)
		return
	}
	var verbatim *messages.Failure
	if o := a.read.Outcome; o.Verbatim >= 0 {
		f := w.failures[o.Verbatim]
		verbatim = &f
	}
	if w.result == nil {
		r := ResultOf(*a.read, verbatim, w.now)
		w.say("%s puts the result %s (%s), %q", name, r.Status, r.Code, r.Output.Inline)
		w.putResult(r)
		w.follow(a, a.read)
		return
	}
	w.say("%s is refused, RESULTS says %s", name, w.result.Status)
	if w.result.Status != a.read.Outcome.Status {
		w.step(name) // step 2 takes the winner over
		return
	}
	w.follow(a, a.read)
}

func (w *world) ack(name string) {
	a := w.actors[name]
	w.say("%s acks %s", name, a.key)
	delete(w.triggers, a.key)
	delete(w.actors, name)
}

func (w *world) crash(name string) {
	if a := w.actors[name]; a != nil {
		if p := w.triggers[a.key]; p != nil && p.holder == name {
			p.holder = ""
		}
		delete(w.actors, name)
	}
}

func schedKey(d messages.Due) string { return fmt.Sprintf("%s.%d.%d", d.Kind, d.N, d.W) }

// show prints a record for the scripts: what the rules are about, in one line.
func show(r messages.Record) string {
	var b strings.Builder
	b.WriteString(place(r))
	fmt.Fprintf(&b, " spent=%d", r.Spent)
	if r.FreeWaits > 0 {
		fmt.Fprintf(&b, " free=%d", r.FreeWaits)
	}
	if len(r.Ambiguous) > 0 {
		fmt.Fprintf(&b, " ambiguous=%v", r.Ambiguous)
	}
	if r.Cancelling != nil && r.State != messages.Ended {
		b.WriteString(" cancelling")
	}
	if r.State == messages.Waiting {
		fmt.Fprintf(&b, " due=+%s", r.DueAt.Sub(epoch))
	}
	if r.State != messages.Ended {
		fmt.Fprintf(&b, " tool=%s input=%s", r.Call.Tool, cmp.Or(string(r.Input.Inline), "ref"))
	}
	if o := r.Outcome; o != nil {
		fmt.Fprintf(&b, " %s (%s) verbatim=%d", o.Status, o.Code, o.Verbatim)
	}
	return b.String()
}
