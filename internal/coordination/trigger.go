package coordination

import (
	"errors"
	"fmt"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
)

// trigger is what a delivery asks for.
type trigger struct {
	id    messages.Trigger
	run   messages.Run
	call  string    // empty: the whole run
	at    time.Time // when it was stored
	tries int       // deliveries
	early time.Time // not to be taken up before it
	event dispatch.Event
}

// errNoTrigger marks a message from which not even the call can be read.
var errNoTrigger = errors.New("is no trigger")

// patient is how often an unreadable body is left to a coordinator that may be
// of a newer version, before its call is ended without it.
const patient = 5

// address reads the subject of a message of RECOVERY.
func (c *Coordinator) address(d messages.Delivery, kind messages.TriggerKind) (trigger, error) {
	a, err := c.names.Parse(d.Subject)
	if err != nil {
		return trigger{}, fmt.Errorf("%w: %w", errNoTrigger, err)
	}
	t := trigger{id: messages.Trigger{Kind: kind, N: a.N}, run: a.Run, call: a.Call, at: d.Time, tries: d.Delivery}
	if kind == messages.TriggerCancel || kind == messages.TriggerSettled {
		t.id.N = 0 // whatever dispatch it came from, the call ends once
	}
	if t.call == messages.WholeRun {
		t.call = ""
	}
	t.event.Trigger = t.id
	return t, nil
}

func (c *Coordinator) readDecision(d messages.Delivery) (trigger, error) {
	t, err := c.address(d, messages.TriggerDecision)
	if err != nil {
		return t, err
	}
	dec, err := messages.DecodeDecision(d.Body)
	if err != nil {
		if d.Delivery <= patient {
			return t, fmt.Errorf("decision: %w", err)
		}
		dec = messages.Decision{Call: t.call, Run: t.run, Dispatch: t.id.N, By: c.cfg.Name,
			Action: messages.Fail("the decision cannot be read"), Error: "the decision cannot be read: " + err.Error()}
	}
	t.event.Decision = &dec
	return t, nil
}

func (c *Coordinator) readAnswer(d messages.Delivery) (trigger, error) {
	t, err := c.address(d, messages.TriggerAnswer)
	if err != nil {
		return t, err
	}
	a, err := messages.DecodeStory[messages.Answer](d.Body)
	if err != nil {
		if d.Delivery <= patient {
			return t, fmt.Errorf("answer: %w", err)
		}
		a = messages.Answer{Kind: messages.AnswerTimedOut, By: c.cfg.Name}
	}
	t.event.Answer = &a
	return t, nil
}

// readCancel takes a body that it cannot read as a wish without a reason: the
// subject says enough.
func (c *Coordinator) readCancel(d messages.Delivery) (trigger, error) {
	t, err := c.address(d, messages.TriggerCancel)
	if err != nil {
		return t, err
	}
	wish, err := messages.DecodeStory[messages.Cancel](d.Body)
	if err != nil {
		wish = messages.Cancel{Status: messages.Cancelled, Code: messages.CodeCancelled, At: d.Time}
	}
	t.event.Cancel = &wish
	return t, nil
}

func (c *Coordinator) readSettled(d messages.Delivery) (trigger, error) {
	return c.address(d, messages.TriggerSettled)
}

func (c *Coordinator) readDue(d messages.Delivery) (trigger, error) {
	due, err := messages.DecodeStory[messages.Due](d.Body)
	if err != nil {
		return trigger{}, fmt.Errorf("%w: %w", errNoTrigger, err)
	}
	t := trigger{run: due.Run, call: due.Call, at: d.Time, tries: d.Delivery}
	switch due.Kind {
	case messages.DueRetry, messages.DueRunOver:
		t.id = messages.Trigger{Kind: messages.TriggerDue, N: due.N, W: due.W}
		t.early = due.NotBefore
	case messages.DueAnswerBy:
		t.id = messages.Trigger{Kind: messages.TriggerAnswerBy, N: due.N}
	case messages.DueDeadline:
		t.id = messages.Trigger{Kind: messages.TriggerDeadline}
		t.event.Cancel = &messages.Cancel{Status: messages.Expired, Code: messages.CodeDeadline, By: c.cfg.Name, At: due.At}
	}
	t.event.Trigger = t.id
	return t, nil
}

// unreadable settles what cannot be read: without a call in it nobody ever
// will do better, so it goes; else it comes again after its lease.
func (c *Coordinator) unreadable(d messages.Delivery, err error) {
	c.log.Error("a trigger cannot be read", "subject", d.Subject, "delivery", d.Delivery, "error", err)
	if errors.Is(err, errNoTrigger) {
		c.ack(d)
	}
}
