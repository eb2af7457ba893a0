package pool

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/internal/coordination"
	"mulligan/internal/metrics"
	"mulligan/internal/reflection"
	"mulligan/jetstream"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

func (p *Pool) coordinator(b *jetstream.Pool, name string) (running, error) {
	cfg := coordination.Config{Broker: b, Name: name, Lease: p.cfg.Lease, Policies: p.cfg.Policies, Document: p.cfg.Document, Log: p.cfg.Log.With("part", name),
		Store: b, StoreLimit: p.storeLimit(), Shut: p.lowDisk, Notify: p.cfg.Notify}
	if reg := p.registerer(name); reg != nil {
		cfg.Metrics = metrics.NewCoordinator(reg)
	}
	return coordination.New(cfg)
}

func (p *Pool) reflector(b *jetstream.Pool, name string) (running, error) {
	return reflection.New(reflection.Config{
		Broker: b, Name: name, Lease: p.cfg.Lease, Policies: p.cfg.Policies, Reflector: p.cfg.Reflector, Log: p.cfg.Log.With("part", name),
		Model: p.cfg.Model, AnalyseTimeout: p.cfg.AnalyseTimeout, Metrics: ReflectorMetrics(p.registerer(name)),
	})
}

func (p *Pool) worker(b *jetstream.Pool, name string) (running, error) {
	return p.workerOf(b, name, p.cfg.Tools, nil)
}

func (p *Pool) liveWorker(of worker.Live) func(b *jetstream.Pool, name string) (running, error) {
	return func(b *jetstream.Pool, name string) (running, error) { return p.workerOf(b, name, nil, of) }
}

func (p *Pool) workerOf(b *jetstream.Pool, name string, tools []*tool.Tool, live worker.Live) (running, error) {
	w, err := worker.New(worker.Config{
		Broker: b, Name: name, Tools: tools, Live: live, Hooks: p.cfg.Hooks, Slots: p.cfg.Slots, Lease: p.cfg.Lease, DrainTimeout: p.cfg.DrainTimeout,
		KeepOffer: true, // the calls of a pool that is started again wait for it
		Replace:   true, // its tools are those of this process, whatever an earlier one had
		Log:       p.cfg.Log.With("part", name), Metrics: WorkerMetrics(p.cfg.Metrics),
	})
	if err != nil {
		return nil, err
	}
	return w, errors.Join(RegisterStats(p.cfg.Metrics, w))
}

// registerer keeps the counters of several services of a kind apart.
func (p *Pool) registerer(name string) prometheus.Registerer {
	if p.cfg.Metrics == nil {
		return nil
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"part": name}, p.cfg.Metrics)
}
