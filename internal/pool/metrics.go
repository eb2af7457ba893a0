package pool

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/internal/reflection"
	"mulligan/pkg/messages"
	"mulligan/pkg/worker"
)

// WorkerMetrics counts what workers do. A nil registry keeps nothing; workers
// of one process share the counters.
func WorkerMetrics(reg prometheus.Registerer) worker.Metrics {
	if reg == nil {
		return worker.Metrics{}
	}
	executions := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mulligan_executions_total", Help: "Executions of tools that ended, by tool and by the code of their failure (ok for none).",
	}, []string{"tool", "code"}))
	seconds := register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mulligan_execution_seconds", Help: "How long executions took, by tool.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
	}, []string{"tool"}))
	letGo := register(reg, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mulligan_deliveries_let_go_total", Help: "Deliveries dropped because their lease may have lapsed.",
	}))
	handedOn := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mulligan_deliveries_handed_on_total", Help: "Deliveries given back before anything of them began, by reason.",
	}, []string{"why"}))
	failed := register(reg, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mulligan_outcome_publish_failures_total", Help: "Outcomes that were not taken and are tried again.",
	}))
	vetoes := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mulligan_worker_vetoes_total", Help: "Calls that a hook of a worker vetoed, by hook.",
	}, []string{"hook"}))
	notes := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mulligan_worker_notes_total", Help: "Attempts that a note of the pool is for, by hook.",
	}, []string{"hook"}))
	unobserved := register(reg, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mulligan_attempts_unobserved_total", Help: "Attempts that were not shown to observers, which do not follow.",
	}))
	return worker.Metrics{
		Ran: func(tool string, code messages.Code, took time.Duration) {
			if code == "" {
				code = "ok"
			}
			executions.WithLabelValues(tool, string(code)).Inc()
			seconds.WithLabelValues(tool).Observe(took.Seconds())
		},
		LetGo:         letGo.Inc,
		HandedOn:      func(why string) { handedOn.WithLabelValues(why).Inc() },
		PublishFailed: failed.Inc,
		Vetoed:        func(hook string) { vetoes.WithLabelValues(hook).Inc() },
		Noted:         func(hook string) { notes.WithLabelValues(hook).Inc() },
		Unobserved:    unobserved.Inc,
	}
}

// ReflectorMetrics counts what reflectors do; a nil registry keeps nothing.
func ReflectorMetrics(reg prometheus.Registerer) reflection.Metrics {
	if reg == nil {
		return reflection.Metrics{}
	}
	decisions := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mulligan_reflector_decisions_total", Help: "Decisions stored, by reflector, rule and action.",
	}, []string{"by", "rule", "action"}))
	seconds := register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mulligan_reflector_analysis_seconds", Help: "How long analyses took, by reflector.", Buckets: prometheus.ExponentialBuckets(0.0001, 5, 9),
	}, []string{"by"}))
	givenUp := register(reg, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mulligan_reflector_given_up_total", Help: "Failures that could not be analysed, and whose calls were ended.",
	}))
	trouble := register(reg, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mulligan_reflector_broker_troubles_total", Help: "Times that the broker failed a reflector, which tries again.",
	}))
	spent := modelMetrics(reg)
	return reflection.Metrics{
		Spent: spent,
		Decided: func(by, rule string, action messages.ActionType) {
			decisions.WithLabelValues(by, rule, string(action)).Inc()
		},
		Took:    func(by string, d time.Duration) { seconds.WithLabelValues(by).Observe(d.Seconds()) },
		GivenUp: givenUp.Inc,
		Trouble: trouble.Inc,
	}
}

// modelMetrics counts what models took.
func modelMetrics(reg prometheus.Registerer) func(messages.Usage) {
	requests := register(reg, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mulligan_model_requests_total", Help: "Requests to the model that is asked about failures, with those that failed.",
	}))
	tokens := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mulligan_model_tokens_total", Help: "Tokens of these requests, by direction: in is what was sent.",
	}, []string{"direction"}))
	cost := register(reg, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mulligan_model_cost_total", Help: "What they cost by the prices of the flags, in the currency of these.",
	}))
	return func(u messages.Usage) {
		requests.Add(float64(u.Requests))
		tokens.WithLabelValues("in").Add(float64(u.InputTokens))
		tokens.WithLabelValues("out").Add(float64(u.OutputTokens))
		cost.Add(float64(u.CostMicros) / 1e6)
	}
}

// register adds a collector, or gives the one of the same name that is there.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	err := reg.Register(c)
	if there, ok := err.(prometheus.AlreadyRegisteredError); ok { //nolint:errorlint // the library returns it as it is
		if same, ok := there.ExistingCollector.(C); ok {
			return same
		}
	}
	if err != nil {
		panic(err) // two collectors of one name: a fault of this file
	}
	return c
}

// RegisterStats shows what a worker does now.
func RegisterStats(reg prometheus.Registerer, w *worker.Worker) error {
	if reg == nil {
		return nil
	}
	for _, g := range []struct {
		name, help string
		value      func(worker.Stats) int
	}{
		{"mulligan_worker_slots", "How many tools may run.", func(s worker.Stats) int { return s.Slots }},
		{"mulligan_worker_running", "Deliveries being handled.", func(s worker.Stats) int { return s.Running }},
		{"mulligan_worker_held", "Deliveries that wait for a slot.", func(s worker.Stats) int { return s.Held }},
		{"mulligan_worker_abandoned", "Tools that ignore their end and keep a slot.", func(s worker.Stats) int { return s.Abandoned }},
	} {
		gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: g.name, Help: g.help, ConstLabels: prometheus.Labels{"worker": w.Name()},
		}, func() float64 { return float64(g.value(w.Stats())) })
		if err := reg.Register(gauge); err != nil {
			return err
		}
	}
	return nil
}
