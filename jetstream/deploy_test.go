package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// deployed starts a server from a file of deploy/nats, on a free port.
func deployed(t *testing.T, file string, env map[string]string, change func(*server.Options)) *server.Server {
	t.Helper()
	env["MULLIGAN_NATS_STORE"] = t.TempDir()
	for k, v := range env {
		t.Setenv(k, v)
	}
	o := &server.Options{}
	if err := o.ProcessConfigFile(filepath.Join("..", "deploy", "nats", file)); err != nil { // a warning is an error here
		t.Fatal(err)
	}
	o.Port, o.HTTPPort, o.NoSigs, o.NoLog = server.RANDOM_PORT, 0, true, true
	o.JetStreamMaxStore = 256 << 20 // the test's disk may be small
	if change != nil {
		change(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server is not ready")
	}
	return s
}

func connect(t *testing.T, cfg jetstream.Config) *jetstream.Pool {
	t.Helper()
	cfg.Lease = natstest.Lease
	p, err := jetstream.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestDeploySingle(t *testing.T) {
	s := deployed(t, "single.conf", map[string]string{"MULLIGAN_NATS_TOKEN": "the-token"}, nil)
	if _, err := jetstream.Connect(t.Context(), jetstream.Config{URL: s.ClientURL()}); !errors.Is(err, jetstream.ErrUnreachable) {
		t.Fatalf("without the token: %v", err)
	}
	p := connect(t, jetstream.Config{URL: s.ClientURL(), Token: "the-token"})
	provision(t, p, jetstream.TopologyConfig{})
	mustPut(t, p, result(p, "r", "x"))
}

// TestDeployPrincipals takes each role through what it does, and tries what it
// must not.
func TestDeployPrincipals(t *testing.T) {
	env, seeds := map[string]string{}, map[string]string{}
	for name, key := range map[string]string{"coordinator": "COORDINATOR", "worker": "WORKER", "reflector": "REFLECTOR", "submitter": "SUBMITTER", "observer": "OBSERVER", "human": "HUMAN", "operator": "OPERATOR", "importer": "IMPORTER"} {
		user, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		seed, err := user.Seed()
		if err != nil {
			t.Fatal(err)
		}
		if env["MULLIGAN_"+key+"_NKEY"], err = user.PublicKey(); err != nil {
			t.Fatal(err)
		}
		seeds[name] = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(seeds[name], seed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"principals.conf", "principals-apart.conf"} {
		t.Run(file, func(t *testing.T) { takeThrough(t, deployed(t, file, env, nil), seeds) })
	}
}

func takeThrough(t *testing.T, s *server.Server, seeds map[string]string) {
	as := func(name string) *jetstream.Pool {
		return connect(t, jetstream.Config{URL: s.ClientURL(), NKeyFile: seeds[name], InboxPrefix: "_I." + name, Timeout: 2 * patience})
	}
	roles := roles{
		t: t, coordinator: as("coordinator"), worker: as("worker"), reflector: as("reflector"),
		client: as("submitter"), observer: as("observer"), human: as("human"), operator: as("operator"),
	}
	roles.succeed()
	roles.fail()
	roles.operate()
	roles.overstep()
}

type roles struct {
	t                                 *testing.T
	coordinator, worker, reflector    *jetstream.Pool
	client, observer, human, operator *jetstream.Pool
}

func (r roles) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// succeed is the short way of a call.
func (r roles) succeed() {
	ctx, n := r.t.Context(), r.client.Names()
	r.must(r.coordinator.Provision(ctx, jetstream.TopologyConfig{}))
	r.must(r.coordinator.EnsureQueue(ctx, "q"))
	id := messages.NewCallID()
	background(r.t, func(ctx context.Context) error {
		return r.coordinator.Serve(ctx, messages.EndpointSubmit, nil, func(ctx context.Context, _ []byte) []byte {
			return fmt.Append(nil, r.coordinator.Publish(ctx, messages.Message{Subject: n.CallSubject("q", messages.LaneNormal, "r", id, 0)}))
		})
	})
	got := make(chan messages.Stored, 1)
	background(r.t, func(ctx context.Context) error {
		return r.client.Follow(ctx, messages.StreamResults, []string{n.ResultsFilter("r")}, 1, func(s messages.Stored) { got <- s })
	})
	ref, err := r.client.PutPayload(ctx, []byte("large"))
	r.must(err)
	eventually(r.t, func() error {
		_, err := r.client.Request(ctx, messages.EndpointSubmit, []byte("call"))
		return err
	})
	ds, err := r.worker.Fetch(ctx, messages.StreamCalls, n.LaneConsumer("q", messages.LaneNormal), 1, patience)
	if err != nil || len(ds) != 1 {
		r.t.Fatalf("%v, %v", ds, err)
	}
	_, err = r.worker.GetPayload(ctx, ref)
	r.must(err)
	mustPut(r.t, r.worker, messages.Message{Subject: n.StartSubject("r", id, 0)})
	mustPut(r.t, r.worker, messages.Message{Subject: n.ResultSubject("r", id), Body: []byte("done")})
	r.must(r.worker.Ack(ctx, ds[0]))
	if s := next(r.t, "the result", got); string(s.Body) != "done" {
		r.t.Fatalf("got %q", s.Body)
	}
	eventually(r.t, func() error {
		if _, err := r.coordinator.Get(ctx, ds[0].Subject); !errors.Is(err, messages.ErrNotFound) {
			return fmt.Errorf("the ack did not count: %v", err)
		}
		return nil
	})
}

// fail is the long way: failure, decision, record, schedule, and the watches.
func (r roles) fail() {
	ctx, n, id := r.t.Context(), r.client.Names(), messages.NewCallID()
	mustPut(r.t, r.worker, messages.Message{Subject: n.FailureSubject("r", id, 0)})
	ds, err := r.reflector.Fetch(ctx, messages.StreamRecovery, messages.ConsumerReflector, 1, patience)
	if err != nil || len(ds) != 1 {
		r.t.Fatalf("%v, %v", ds, err)
	}
	mustPut(r.t, r.reflector, messages.Message{Subject: n.DecisionSubject("r", id, 0)})
	r.must(r.reflector.Ack(ctx, ds[0]))
	ds, err = r.coordinator.Fetch(ctx, messages.StreamRecovery, messages.ConsumerDecisions, 1, patience)
	if err != nil || len(ds) != 1 {
		r.t.Fatalf("%v, %v", ds, err)
	}
	_, err = r.coordinator.Save(ctx, messages.BucketAttempts, messages.CallKey("r", id), []byte("{}"), 0, time.Hour)
	r.must(err)
	r.must(r.coordinator.Schedule(ctx, messages.Due{Kind: messages.DueRetry, Run: "r", Call: id, N: 1, At: time.Now()}))
	due, err := r.coordinator.Fetch(ctx, messages.StreamSchedule, messages.ConsumerDue, 1, patience)
	if err != nil || len(due) != 1 {
		r.t.Fatalf("%v, %v", due, err)
	}
	r.must(r.coordinator.Put(ctx, messages.BucketTools, "tool.x", []byte("{}"), 0))
	for name, p := range map[string]*jetstream.Pool{"coordinator": r.coordinator, "reflector": r.reflector} {
		seen := make(chan string, 10)
		background(r.t, func(ctx context.Context) error {
			return p.Watch(ctx, messages.BucketTools, ">", nil, func(e messages.Entry) { seen <- e.Key })
		})
		if key := next(r.t, "a watch of the "+name, seen); key != "tool.x" {
			r.t.Errorf("the %s saw %s", name, key)
		}
	}
	for _, p := range []*jetstream.Pool{r.coordinator, r.worker, r.client, r.observer, r.human, r.operator} {
		r.must(second(p.Entries(ctx, messages.BucketTools, ">")))
	}
	stories := 0
	for _, p := range []*jetstream.Pool{r.client, r.observer} {
		r.must(p.List(ctx, messages.StreamRecovery, n.StoryFilters("r", id), func(messages.Stored) bool {
			stories++
			return true
		}))
		r.must(third(p.Backlog(ctx, messages.StreamCalls, n.LaneConsumer("q", messages.LaneNormal))))
	}
	if stories != 4 {
		r.t.Errorf("two who explain see %d parts of the story", stories)
	}
	r.must(r.coordinator.Purge(ctx, n.CallSchedules("r", id)))
	r.must(r.coordinator.Publish(ctx, messages.Message{Subject: n.CallSubject("q", messages.LaneRetry, "r", id, 1)}))
	r.must(r.coordinator.Purge(ctx, n.CallFilter("r", id)))
	for stream, filter := range map[messages.Stream]string{
		messages.StreamResults: n.ResultsFilter("gone"), messages.StreamRecovery: n.RunStories("gone"),
		messages.StreamSchedule: n.RunAllSchedules("gone"), messages.StreamPayloads: n.PayloadFilter("gone"),
	} {
		r.must(second(r.coordinator.Erase(ctx, stream, filter)))
	}
	r.must(second(r.coordinator.EraseEntries(ctx, messages.BucketAttempts, "gone.>")))
	stored, queued, _, err := r.coordinator.Usage(ctx)
	if err != nil || stored == 0 || queued > headBytes {
		r.t.Errorf("%d bytes stored, %d queued, %v", stored, queued, err)
	}
}

// operate changes the policies, which reflectors follow and clients may read.
func (r roles) operate() {
	ctx := r.t.Context()
	background(r.t, func(ctx context.Context) error {
		return r.coordinator.Serve(ctx, messages.EndpointPolicy, nil, func(ctx context.Context, b []byte) []byte {
			return fmt.Append(nil, r.coordinator.Put(ctx, messages.BucketControl, messages.PolicyKey, b, messages.Forever))
		})
	})
	eventually(r.t, func() error {
		return second(r.operator.Request(ctx, messages.EndpointPolicy, []byte("{}")))
	})
	for name, p := range map[string]*jetstream.Pool{"worker": r.worker, "reflector": r.reflector} {
		seen := make(chan string, 10)
		background(r.t, func(ctx context.Context) error {
			return p.Watch(ctx, messages.BucketControl, messages.PolicyKey, nil, func(e messages.Entry) { seen <- e.Key })
		})
		if key := next(r.t, "a watch of the "+name, seen); key != messages.PolicyKey {
			r.t.Errorf("the %s saw %s", name, key)
		}
	}
	for _, p := range []*jetstream.Pool{r.client, r.observer, r.operator} {
		r.must(second(p.Load(ctx, messages.BucketControl, messages.PolicyKey)))
		r.must(second(p.Entries(ctx, messages.BucketControl, messages.BreakerPrefix+">")))
	}
	r.must(second(r.worker.Load(ctx, messages.BucketControl, messages.PolicyKey))) // as that of a breaker, before its probe runs
	due := messages.Due{Kind: messages.DueAnswerBy, Run: "r", Call: messages.NewCallID(), At: time.Now().Add(time.Hour)}
	r.must(r.coordinator.Schedule(ctx, due))
	for _, p := range []*jetstream.Pool{r.client, r.observer, r.human, r.operator} { // all see what waits for a human; who may answer is another matter
		parked := 0
		filter := p.Names().ParkedFilter("*", "*")
		r.must(p.List(ctx, messages.StreamSchedule, []string{filter}, func(messages.Stored) bool { parked++; return true }))
		r.must(second(p.Get(ctx, p.Names().ParkedFilter("*", due.Call))))
		if parked != 1 {
			r.t.Errorf("%d parked calls are seen", parked)
		}
	}
	r.must(r.reflector.List(ctx, messages.StreamRecovery, []string{r.reflector.Names().Prefix() + ".decision.r.>"}, func(messages.Stored) bool { return true }))
}

// overstep tries what a role must not do; each is said at once, not by a time-out.
func (r roles) overstep() {
	ctx, n, id := r.t.Context(), r.client.Names(), messages.NewCallID()
	call := messages.Message{Subject: n.CallSubject("q", messages.LaneNormal, "r", id, 0)}
	due := messages.Due{Kind: messages.DueRetry, Run: "r", Call: id, N: 1, At: time.Now()}
	begin := time.Now()
	for what, err := range map[string]error{
		"a worker queues a call":      r.worker.Publish(ctx, call),
		"a client queues a call":      r.client.Publish(ctx, call),
		"a worker schedules":          r.worker.Schedule(ctx, due),
		"a worker writes a bucket":    r.worker.Put(ctx, messages.BucketTools, "tool.x", nil, 0),
		"a worker purges":             r.worker.Purge(ctx, n.ResultsFilter("")),
		"a reflector writes a record": r.reflector.Put(ctx, messages.BucketAttempts, "r.c", nil, 0),
		"a worker makes a queue":      r.worker.EnsureQueue(ctx, "q2"),
		"a client makes streams":      r.client.Provision(ctx, jetstream.TopologyConfig{ResultsAge: 100 * time.Hour}),
		"a worker decides":            second(r.worker.PutOnce(ctx, messages.Message{Subject: n.DecisionSubject("r", id, 0)})),
		"a reflector ends a call":     second(r.reflector.PutOnce(ctx, messages.Message{Subject: n.ResultSubject("r", id)})),
		"a client ends a call":        second(r.client.PutOnce(ctx, messages.Message{Subject: n.ResultSubject("r", id)})),
		"a client asks as a worker":   second(r.client.Request(ctx, messages.EndpointOffer, nil)),
		"a worker cancels":            second(r.worker.Request(ctx, messages.EndpointCancel, nil)),
		"a client sets policies":      second(r.client.Request(ctx, messages.EndpointPolicy, nil)),
		"a client opens a breaker":    second(r.client.Request(ctx, messages.EndpointBreaker, nil)),
		"a client answers":            second(r.client.Request(ctx, messages.EndpointAnswer, nil)),
		"a reflector sets policies":   r.reflector.Put(ctx, messages.BucketControl, messages.PolicyKey, nil, 0),
		"a human submits":             second(r.human.Request(ctx, messages.EndpointSubmit, nil)),
		"a human sets policies":       second(r.human.Request(ctx, messages.EndpointPolicy, nil)),
		"a client deletes a run":      second(r.client.Request(ctx, messages.EndpointDelete, nil)),
		"an operator erases results":  second(r.operator.Erase(ctx, messages.StreamResults, n.ResultsFilter("r"))),
		"an observer submits":         second(r.observer.Request(ctx, messages.EndpointSubmit, nil)),
		"an observer answers":         second(r.observer.Request(ctx, messages.EndpointAnswer, nil)),
		"an observer puts a payload":  second(r.observer.PutPayload(ctx, []byte("x"))),
		"an operator writes a bucket": r.operator.Put(ctx, messages.BucketControl, messages.PolicyKey, nil, 0),
	} {
		if !errors.Is(err, messages.ErrForbidden) {
			r.t.Errorf("%s: %v", what, err)
		}
	}
	if took := time.Since(begin); took > 2*patience { // one that is not told of waits for as long
		r.t.Errorf("it took %v to say so", took)
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

// TestDeployCluster starts three servers from one file, and loses one.
func TestDeployCluster(t *testing.T) {
	env := map[string]string{"MULLIGAN_NATS_TOKEN": "the-token", "MULLIGAN_NATS_SECRET": "between-servers"}
	var addresses []string
	for i := range 3 {
		addresses = append(addresses, freeAddress(t))
		env[fmt.Sprintf("MULLIGAN_NATS_ROUTE%d", i+1)] = "nats-route://route:between-servers@" + addresses[i]
	}
	var servers []*server.Server
	urls := ""
	for i := range 3 {
		env["MULLIGAN_NATS_NAME"] = fmt.Sprintf("n%d", i+1)
		env["MULLIGAN_NATS_CLUSTER"] = addresses[i]
		env["MULLIGAN_NATS_LISTEN"] = "127.0.0.1:0"
		s := deployed(t, "cluster.conf", env, nil)
		servers = append(servers, s)
		urls += "," + s.ClientURL()
	}
	p := connect(t, jetstream.Config{URL: urls[1:], Token: "the-token", Timeout: 3 * time.Second})
	eventually(t, func() error {
		return p.Provision(t.Context(), jetstream.TopologyConfig{Replicas: 3})
	})
	eventually(t, func() error { return p.EnsureQueue(t.Context(), "q") })
	got := make(chan messages.Stored, 100)
	background(t, func(ctx context.Context) error {
		return p.Follow(ctx, messages.StreamResults, nil, 1, func(s messages.Stored) { got <- s })
	})
	put := func(m messages.Message) {
		t.Helper()
		eventually(t, func() error { return second(p.PutOnce(t.Context(), m)) })
	}
	put(result(p, "r", "before"))
	if s := next(t, "a result", got); string(s.Body) != "before" {
		t.Fatalf("got %q", s.Body)
	}
	var leader *server.Server // of RESULTS
	eventually(t, func() error {
		i := slices.IndexFunc(servers, func(s *server.Server) bool { return s.JetStreamIsStreamLeader("$G", "MULLIGAN_RESULTS") })
		if i < 0 {
			return errors.New("nobody leads RESULTS")
		}
		leader = servers[i]
		return nil
	})
	leader.Shutdown()
	leader.WaitForShutdown()
	m := result(p, "r", "after")
	put(m)
	if s := next(t, "a result after the loss of the leader", got); string(s.Body) != "after" {
		t.Fatalf("got %q", s.Body)
	}
	eventually(t, func() error {
		winner, err := p.PutOnce(t.Context(), m)
		if err == nil && winner == nil {
			t.Fatal("it was written a second time")
		}
		return err
	})
	c := messages.Message{Subject: p.Names().CallSubject("q", messages.LaneNormal, "r", messages.NewCallID(), 0)}
	eventually(t, func() error {
		if err := p.Publish(t.Context(), c); err != nil && !errors.Is(err, messages.ErrExists) {
			return err
		}
		return nil
	})
	eventually(t, func() error {
		ds, err := p.Fetch(t.Context(), messages.StreamCalls, p.Names().LaneConsumer("q", messages.LaneNormal), 1, time.Second)
		if err == nil && len(ds) == 0 {
			err = errors.New("nothing was handed over")
		}
		return err
	})
}
