package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"mulligan/internal/coordination"
	"mulligan/internal/reflection"
	"mulligan/jetstream"
	"mulligan/jetstream/raw"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

// rig is what a scenario is measured on: a broker in a process of its own, and
// in this one a coordinator, a reflector, a worker and a submitter, each with
// its own connection, and beside them the raw pipeline.
type rig struct {
	cfg     rigConfig
	dir     string
	servers []*server
	parts   []part // in the order of their start
	broker  *jetstream.Pool
	client  *client.Client
	raw     *raw.Pipeline

	working sync.WaitGroup // the raw worker
	idle    context.CancelFunc
	worked  context.Context // done when the raw worker failed, with its error as the cause
}

type rigConfig struct {
	server   []string // the command of a broker's process
	brokers  int
	always   bool
	slots    int
	tools    []*tool.Tool
	policies string // a document; empty for what is shipped
	noRaw    bool
}

type part struct {
	service service
	broker  *jetstream.Pool
}

type service interface {
	Start(ctx context.Context) error
	Started() <-chan struct{}
	Stop(ctx context.Context) error
	Stopped() <-chan struct{}
	Err() error
}

// storeLimit is above what any scenario keeps.
const storeLimit = 64 << 30

func newRig(ctx context.Context, cfg rigConfig) (r *rig, err error) {
	dir, err := os.MkdirTemp("", "mulligan-bench-")
	if err != nil {
		return nil, err
	}
	r = &rig{cfg: cfg, dir: dir, worked: context.Background()}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
			r = nil
		}
	}()
	if err := r.startBrokers(ctx); err != nil {
		return r, err
	}
	if err := r.startParts(ctx); err != nil {
		return r, err
	}
	if cfg.noRaw {
		return r, nil
	}
	return r, r.startRaw(ctx)
}

func (r *rig) startBrokers(ctx context.Context) error {
	n := max(r.cfg.brokers, 1)
	var routes []string
	var ports []int
	if n > 1 {
		var err error
		if ports, err = freePorts(n); err != nil {
			return err
		}
		for _, p := range ports {
			routes = append(routes, fmt.Sprintf("127.0.0.1:%d", p))
		}
	}
	for i := range n {
		c := serverConfig{Dir: fmt.Sprintf("%s/broker-%d", r.dir, i), Always: r.cfg.always, StoreLimit: storeLimit, Routes: routes}
		if n > 1 {
			c.Name, c.RoutePort = fmt.Sprintf("bench-%d", i), ports[i]
		}
		s, err := startServer(ctx, r.cfg.server, c)
		if err != nil {
			return err
		}
		r.servers = append(r.servers, s)
	}
	return nil
}

// url is where the brokers are.
func (r *rig) url() string {
	urls := make([]string, len(r.servers))
	for i, s := range r.servers {
		urls[i] = s.URL
	}
	return strings.Join(urls, ",")
}

// patient bounds a request of a measurement, above what any load makes of it.
const patient = 30 * time.Second

func (r *rig) connect(ctx context.Context, name string, request time.Duration) (*jetstream.Pool, error) {
	return jetstream.Connect(ctx, jetstream.Config{URL: r.url(), Token: token, Name: "bench " + name, Timeout: request})
}

func (r *rig) startParts(ctx context.Context) error {
	var err error
	if r.broker, err = r.connect(ctx, "submitter", patient); err != nil {
		return err
	}
	if err := r.provision(ctx); err != nil {
		return err
	}
	if r.client, err = client.New(r.broker, client.Config{RequestTimeout: time.Minute, Patience: 10 * time.Minute}); err != nil {
		return err
	}
	var document json.RawMessage
	if r.cfg.policies != "" {
		document = json.RawMessage(r.cfg.policies)
	}
	for _, make := range []func(*jetstream.Pool) (service, error){
		func(b *jetstream.Pool) (service, error) {
			return coordination.New(coordination.Config{Broker: b, Name: "coordinator", Document: document, MaxQueued: -1})
		},
		func(b *jetstream.Pool) (service, error) {
			return reflection.New(reflection.Config{Broker: b, Name: "reflector"})
		},
	} {
		if err := r.start(ctx, make); err != nil {
			return err
		}
	}
	return r.startWorker(ctx, r.cfg.slots)
}

// provision makes the streams. A cluster that has just begun may have no leader
// yet, and then leaves a request without an answer: it is asked again soon.
func (r *rig) provision(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	b, err := r.connect(ctx, "provision", 2*time.Second)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.ProvisionPatiently(ctx, jetstream.TopologyConfig{Replicas: len(r.servers)})
}

func (r *rig) startWorker(ctx context.Context, slots int) error {
	return r.start(ctx, func(b *jetstream.Pool) (service, error) {
		return worker.New(worker.Config{Broker: b, Name: "worker", Tools: r.cfg.tools, Slots: slots, DrainTimeout: -1, KeepOffer: true, Replace: true})
	})
}

func (r *rig) start(ctx context.Context, make func(*jetstream.Pool) (service, error)) error {
	b, err := r.connect(ctx, "part", patient)
	if err != nil {
		return err
	}
	s, err := make(b)
	if err != nil {
		b.Close()
		return err
	}
	r.parts = append(r.parts, part{s, b})
	if err := s.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	select {
	case <-s.Started():
		return nil
	case <-s.Stopped():
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopWorkers stops the workers, the raw one too, for scenarios that only queue.
// The tools stay registered.
func (r *rig) stopWorkers() error {
	err := r.stopLast() // the worker was started last
	if r.raw != nil {
		err = errors.Join(err, r.stopRawWorker())
	}
	return err
}

func (r *rig) stopLast() error {
	last := r.parts[len(r.parts)-1]
	r.parts = r.parts[:len(r.parts)-1]
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	err := last.service.Stop(ctx)
	last.broker.Close()
	return err
}

func (r *rig) startRaw(ctx context.Context) error {
	p, err := raw.Open(ctx, raw.Config{URL: r.url(), Token: token, Like: r.broker.Names(), Queue: r.cfg.tools[0].Spec().Queue})
	if err != nil {
		return err
	}
	r.raw = p
	r.startRawWorker(r.cfg.slots)
	return nil
}

func (r *rig) startRawWorker(slots int) {
	ctx, stop := context.WithCancel(context.Background())
	var fail context.CancelCauseFunc
	r.idle = stop
	r.worked, fail = context.WithCancelCause(context.Background())
	r.working.Go(func() {
		if err := r.raw.Work(ctx, slots); err != nil {
			fail(fmt.Errorf("the raw worker failed: %w", err))
		}
	})
}

func (r *rig) stopRawWorker() error {
	r.idle()
	r.working.Wait()
	return context.Cause(r.worked)
}

// whileWorking ends the context of who waits for raw results when nobody works
// on them any more.
func (r *rig) whileWorking(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	forget := context.AfterFunc(r.worked, func() { end(context.Cause(r.worked)) })
	return ctx, func() {
		forget()
		end(nil)
	}
}

// usage is that of this process and of all brokers.
func (r *rig) usage(question string) (ours, brokers usage, err error) {
	for _, s := range r.servers {
		u, err := s.usage(question)
		if err != nil {
			return ours, brokers, err
		}
		brokers = brokers.plus(u)
	}
	return usageNow(question == settled), brokers, nil
}

func (r *rig) close() error {
	var errs []error
	if r.raw != nil {
		errs = append(errs, r.stopRawWorker(), r.raw.Close(context.Background()))
		r.raw = nil
	}
	return errors.Join(append(errs, r.stopOurs(), os.RemoveAll(r.dir))...)
}

// stopOurs stops what is there in the opposite order of its start, the brokers
// at the end.
func (r *rig) stopOurs() error {
	var errs []error
	if r.client != nil {
		r.client.Close()
	}
	for len(r.parts) > 0 {
		errs = append(errs, r.stopLast())
	}
	if r.broker != nil {
		r.broker.Close()
	}
	for _, s := range r.servers {
		errs = append(errs, s.stop())
	}
	r.client, r.broker, r.servers = nil, nil, nil
	return errors.Join(errs...)
}

// noop is the tool of most scenarios: it gives back its input.
const noop = "noop"

func echo(name, queue string) *tool.Tool {
	return tool.Raw(name, noopSchema, func(_ context.Context, c tool.Call) (tool.Output, error) {
		return tool.Output{Body: c.Input}, nil
	}, tool.Effect(messages.ReadOnly), tool.Queue(queue))
}

// noopSchema has something to check: what is not an object of a text is refused.
var noopSchema = json.RawMessage(`{"type":"object","properties":{"p":{"type":"string"}},"required":["p"],"additionalProperties":false}`)

// input is JSON of size bytes.
func input(size int) []byte {
	return []byte(`{"p":"` + strings.Repeat("x", max(0, size-8)) + `"}`)
}

// job is calls that are made ready.
type job struct {
	batch *client.Batch
	calls []messages.Submission
}

func (r *rig) job(n int, body []byte, toolOf func(i int) string) (job, error) {
	batch, err := r.client.OpenBatch(uuid.NewString(), 0)
	if err != nil {
		return job{}, err
	}
	j := job{batch: batch, calls: make([]messages.Submission, n)}
	for i := range j.calls { // as read from a file of calls
		j.calls[i] = messages.Submission{Call: messages.NewCallID(), Tool: toolOf(i), Input: body, IsJSON: true}
	}
	return j, nil
}

func always(tool string) func(int) string { return func(int) string { return tool } }

// submit submits the calls, all of which must be accepted.
func (j job) submit(ctx context.Context) error {
	refused, err := j.batch.Submit(ctx, j.calls)
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("%d calls were refused, the first: %s", len(refused), refused[0].Text)
	}
	return err
}

// run submits the calls and returns when the results of all are here.
func (r *rig) run(ctx context.Context, j job, each func(messages.Result) error) error {
	from, err := r.client.Position(ctx)
	if err != nil {
		return err
	}
	ended := r.await(ctx, j, from, each)
	if err := j.submit(ctx); err != nil {
		return err
	}
	return <-ended
}

// await reads the results of the calls, each of which must be a success.
func (r *rig) await(ctx context.Context, j job, from uint64, each func(messages.Result) error) <-chan error {
	ended := make(chan error, 1)
	left := len(j.calls)
	go func() {
		ended <- r.client.Results(ctx, client.Query{Runs: []messages.Run{j.batch.Run("")}, From: from}, func(res messages.Result) error {
			if res.Status != messages.Succeeded {
				return fmt.Errorf("call %s ended %s: %s", res.Call, res.Status, res.Reason)
			}
			if each != nil {
				if err := each(res); err != nil {
					return err
				}
			}
			if left--; left == 0 {
				return client.ErrStop
			}
			return nil
		})
	}()
	return ended
}

// rawBatch is the same messages for the raw pipeline: a body that Mulligan would
// put into PAYLOADS goes through the payload stream there too.
func (r *rig) rawBatch(n int, body []byte) *raw.Batch {
	run := messages.UnnamedRun(uuid.NewString())
	var large []byte
	if !(messages.Body{Inline: body}).FitsInline() {
		body, large = nil, body
	}
	calls := make([]messages.Message, n)
	for i := range calls {
		id := messages.NewCallID()
		calls[i] = r.broker.Names().EncodeCall(messages.Call{
			ID: id, Run: run, Tool: r.cfg.tools[0].Name(), Queue: r.cfg.tools[0].Spec().Queue, Lane: messages.LaneNormal, Effect: messages.ReadOnly,
			Key: id, Input: messages.Body{Inline: body},
		})
	}
	return r.raw.Batch(run, calls, large)
}
