package reflection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mulligan/internal/pace"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// maxDeliveries is how often a failure may be handed over before it is given up
// (protocol section 4): one that kills reflectors must not do so for a month.
const maxDeliveries = 5

// decide makes sure that there is a decision on the failure of d, ours or
// another's, or that none is needed. False means that the service ended before.
func (r *Reflector) decide(d messages.Delivery) bool {
	at, err := r.names.Parse(d.Subject)
	if err != nil || at.Kind != messages.KindFailure {
		r.log.Error("a message among the failures is none", "subject", d.Subject, "error", err)
		return true // nobody can ever read it
	}
	if mayBeDone(d) {
		needed, ok := r.needed(at)
		if !ok || !needed {
			return ok
		}
	}
	decision, ok := r.decisionOn(d, at)
	if !ok {
		return false
	}
	decision.Call, decision.Run, decision.Dispatch = at.Call, at.Run, at.N
	decision.Reflector, decision.At = r.cfg.Name, time.Now().UTC()
	return r.publish(decision)
}

// mayBeDone says that somebody may have dealt with the failure before. One that
// is handed over for the first time, soon after it was stored, can have no
// decision; that its call has ended meanwhile is so rare that the decision in
// vain, which changes nothing (P7.10), costs less than looking each time. One that
// was brought in from elsewhere says so.
func mayBeDone(d messages.Delivery) bool {
	return d.Delivery > 1 || d.Header.Get(messages.HeaderRepeat) != "" || time.Since(d.Time) > messages.RepeatAfter
}

// needed: neither has the call ended nor was this failure decided on.
func (r *Reflector) needed(at messages.Address) (needed, ok bool) {
	for _, subject := range []string{r.names.ResultSubject(at.Run, at.Call), r.names.DecisionSubject(at.Run, at.Call, at.N)} {
		there := false
		ok := r.persist("read "+subject, func(ctx context.Context) error {
			_, err := r.cfg.Broker.Get(ctx, subject)
			there = err == nil
			return ignoreNotFound(err)
		})
		if !ok || there {
			return false, ok
		}
	}
	return true, true
}

// unreadablePause keeps a failure that cannot be read from coming back at once
// to the reflector that gave it back.
const unreadablePause = 2 * time.Second

func (r *Reflector) decisionOn(d messages.Delivery, at messages.Address) (messages.Decision, bool) {
	log := r.log.With("call", at.Call, "run", string(at.Run), "dispatch", at.N)
	if d.Delivery > maxDeliveries {
		log.Error("a failure could not be analysed and is given up", "deliveries", d.Delivery)
		r.cfg.Metrics.GivenUp()
		return unanalysed("failure could not be analysed"), true
	}
	f, err := messages.DecodeFailure(d.Body)
	if err != nil { // of a later version, or damaged: another reflector may read it, or none
		log.Error("a failure cannot be read and is left to another reflector", "error", err, "delivery", d.Delivery)
		pace.Sleep(r.working, unreadablePause)
		return messages.Decision{}, false
	}
	c, ok := r.show(f, at)
	if !ok {
		return messages.Decision{}, false
	}
	began := time.Now()
	decision := r.analyse(f.Call, c)
	r.cfg.Metrics.Took(decision.By, time.Since(began))
	if decision.Usage != nil {
		r.cfg.Metrics.Spent(*decision.Usage)
	}
	if decision.Error != "" && r.working.Err() == nil {
		log.Warn("the analysis failed and the call ends", "tool", c.Tool, "error", decision.Error)
	}
	return decision, true
}

// analyse has its own time-out, and does not wait for a reflector that ignores
// it: its slot would be lost for ever. An analysis that was cut short by our own
// end says nothing about the failure, and is not stored, since then nothing is.
func (r *Reflector) analyse(call messages.Call, c recovery.Case) messages.Decision {
	decider, err := r.deciders.of(call)
	if err != nil {
		return unanalysed("no policy can be applied: " + err.Error())
	}
	ctx, cancel := context.WithTimeout(r.working, r.cfg.AnalyseTimeout)
	defer cancel()
	answer := make(chan messages.Decision, 1)
	go func() { answer <- decider.Decide(ctx, c) }()
	select {
	case decision := <-answer:
		return decision
	case <-ctx.Done():
	}
	select {
	case decision := <-answer:
		return decision
	case <-time.After(patience):
		return decider.Unanalysed("the reflector did not end with its time-out")
	}
}

// patience is how long after its time-out an analysis may still answer.
const patience = time.Second

// publish stores the decision; who was first wins.
func (r *Reflector) publish(d messages.Decision) bool {
	m, err := r.names.EncodeDecision(d)
	if err != nil {
		r.log.Error("a decision cannot be written", "call", d.Call, "error", err)
		d = r.replace(d, fmt.Sprintf("the decision cannot be written: %v", err))
		if m, err = r.names.EncodeDecision(d); err != nil {
			return false // not with what unanalysed gives
		}
	}
	for {
		var winner *messages.Stored
		tooLarge := false
		ok := r.persist("write "+m.Subject, func(ctx context.Context) error {
			var err error
			winner, err = r.cfg.Broker.PutOnce(ctx, m)
			if tooLarge = errors.Is(err, messages.ErrTooLarge); tooLarge {
				return nil
			}
			return err
		})
		switch {
		case !ok:
			return false
		case tooLarge && d.Analysis != nil:
			d = r.replace(d, "the decision is too large to be stored")
			if m, err = r.names.EncodeDecision(d); err != nil {
				return false
			}
			continue
		case tooLarge:
			r.log.Error("a decision is too large to be stored", "call", d.Call)
			return false
		}
		if winner == nil {
			r.cfg.Metrics.Decided(d.By, d.Rule, d.Action.Type)
			r.log.Debug("decided", "call", d.Call, "run", string(d.Run), "dispatch", d.Dispatch, "by", d.By, "rule", d.Rule, "action", d.Action.String())
		}
		return true
	}
}

// replace gives up on the decision and keeps whose it is.
func (r *Reflector) replace(d messages.Decision, why string) messages.Decision {
	n := unanalysed(why)
	n.Call, n.Run, n.Dispatch, n.Reflector, n.At = d.Call, d.Run, d.Dispatch, d.Reflector, d.At
	n.By, n.Usage = d.By, d.Usage // what was spent was spent
	return n
}

// persist does something with the broker until it succeeds; false when the
// service ended before. It does not give up: each further delivery would count
// against the failure, which is not at fault.
func (r *Reflector) persist(what string, do func(context.Context) error) bool {
	for p := pauses(); ; {
		if r.working.Err() != nil {
			return false
		}
		err := do(r.working)
		if err == nil {
			return true
		}
		if r.working.Err() != nil {
			return false
		}
		r.log.Warn("the broker failed; trying again", "what", what, "error", err)
		r.cfg.Metrics.Trouble()
		if !p.Wait(r.working) {
			return false
		}
	}
}

func ignoreNotFound(err error) error {
	if errors.Is(err, messages.ErrNotFound) {
		return nil
	}
	return err
}

// unanalysed ends the call of a failure for which no decider could be asked.
func unanalysed(why string) messages.Decision {
	return recovery.Unanalysed(why, recovery.ServicePolicy())
}
