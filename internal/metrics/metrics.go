// Package metrics holds the counters of the services, typed, so that a name or
// label is written in one place. They are few: what an operator alarms on.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"mulligan/pkg/messages"
)

const namespace = "mulligan"

// Coordinator counts what a coordinator does. All methods may be called
// concurrently.
type Coordinator struct {
	submitted  *prometheus.CounterVec // by outcome: accepted, or the code of the refusal
	decisions  *prometheus.CounterVec // by action
	dispatches prometheus.Counter
	ends       *prometheus.CounterVec // by status
	letGo      *prometheus.CounterVec // by kind of trigger
	spilled    prometheus.Counter
	waiting    prometheus.Gauge
	breakers   *prometheus.GaugeVec   // by tool
	trips      *prometheus.CounterVec // by tool
	vetoes     *prometheus.CounterVec // by hook
	notes      *prometheus.CounterVec // by hook
	loops      *prometheus.CounterVec // by action
}

// NewCoordinator makes the counters and registers them; a nil registerer
// registers nothing. It panics when they are registered there already, as
// prometheus does: two coordinators of one process need two registerers.
func NewCoordinator(r prometheus.Registerer) *Coordinator {
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(opts(name, help), []string{label})
	}
	c := &Coordinator{
		submitted:  vec("submitted_calls_total", "Calls submitted, by outcome: accepted, or the code of the refusal.", "outcome"),
		decisions:  vec("decisions_total", "Decisions on failed calls that came in, by action.", "action"),
		dispatches: prometheus.NewCounter(opts("dispatches_total", "Dispatches after the first that were put into CALLS.")),
		ends:       vec("ended_calls_total", "Results that coordinators wrote, by status; a worker writes those of success.", "status"),
		letGo:      vec("triggers_let_go_total", "Triggers left to their next delivery since the broker failed, by kind.", "trigger"),
		spilled:    prometheus.NewCounter(opts("short_waits_spilled_total", "Waits below a second that went to SCHEDULE for want of room.")),
		waiting:    prometheus.NewGauge(prometheus.GaugeOpts(opts("short_waits", "Retries waiting beside their trigger now."))),
		vetoes:     vec("vetoes_total", "Dispatches that a hook of the pool vetoed, by hook.", "hook"),
		notes:      vec("notes_total", "Failures that coordinators stored and a note of the pool is for, by hook.", "hook"),
		loops:      vec("loops_total", "Calls of runs that repeat the same call, by action: warn, or stop, which ends the run.", "action"),
		breakers: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("breaker_state", "Circuit breaker of a tool: 0 closed, 1 half open, 2 open. "+
			"A tool whose breaker never counted is not here.")), []string{"tool"}),
		trips: vec("breaker_trips_total", "Times that this coordinator opened the circuit breaker of a tool.", "tool"),
	}
	if r != nil {
		r.MustRegister(c.submitted, c.decisions, c.dispatches, c.ends, c.letGo, c.spilled, c.waiting, c.breakers, c.trips, c.vetoes, c.notes, c.loops)
	}
	return c
}

func opts(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: namespace, Subsystem: "coordinator", Name: name, Help: help}
}

// Accepted counts calls that were accepted.
func (c *Coordinator) Accepted(n int) { c.submitted.WithLabelValues("accepted").Add(float64(n)) }

// Refused counts a call that was not.
func (c *Coordinator) Refused(code messages.Code) { c.submitted.WithLabelValues(string(code)).Inc() }

// Decision counts a decision when it was applied.
func (c *Coordinator) Decision(a messages.ActionType) { c.decisions.WithLabelValues(string(a)).Inc() }

// Vetoed counts a veto.
func (c *Coordinator) Vetoed(hook string) { c.vetoes.WithLabelValues(hook).Inc() }

// Noted counts an attempt that a note is for.
func (c *Coordinator) Noted(hook string) { c.notes.WithLabelValues(hook).Inc() }

// Looped counts a call of a run that repeats itself; stopped says that it was
// one too many.
func (c *Coordinator) Looped(stopped bool) {
	action := "warn"
	if stopped {
		action = "stop"
	}
	c.loops.WithLabelValues(action).Inc()
}

// Dispatched counts a dispatch after the first.
func (c *Coordinator) Dispatched() { c.dispatches.Inc() }

// Ended counts a result that a coordinator wrote.
func (c *Coordinator) Ended(s messages.Status) { c.ends.WithLabelValues(string(s)).Inc() }

// LetGo counts a trigger that was left to its next delivery.
func (c *Coordinator) LetGo(k messages.TriggerKind) { c.letGo.WithLabelValues(string(k)).Inc() }

// Spilled counts a short wait that had no room.
func (c *Coordinator) Spilled() { c.spilled.Inc() }

// Waiting adds n to the short waits.
func (c *Coordinator) Waiting(n int) { c.waiting.Add(float64(n)) }

// Breaker sets the state of a tool's breaker; the empty one is closed.
func (c *Coordinator) Breaker(tool string, s messages.BreakerState) {
	v := 0.0
	switch s {
	case messages.BreakerHalfOpen:
		v = 1
	case messages.BreakerOpen:
		v = 2
	case messages.BreakerClosed:
	}
	c.breakers.WithLabelValues(tool).Set(v)
}

// Tripped counts n trips of a tool's breaker.
func (c *Coordinator) Tripped(tool string, n int) { c.trips.WithLabelValues(tool).Add(float64(n)) }
