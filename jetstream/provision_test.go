package jetstream_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

func TestProvisionTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	nc, _ := raw(t, s)
	updates := make(chan *nats.Msg, 100)
	sub, err := nc.ChanSubscribe("$JS.API.STREAM.*.>", updates)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	provision(t, p, jetstream.TopologyConfig{})
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for len(updates) > 0 {
		if m := <-updates; strings.HasPrefix(m.Subject, "$JS.API.STREAM.INFO.") {
			asked++
		} else {
			t.Errorf("provisioning again asked for %s %s", m.Subject, m.Data)
		}
	}
	if asked != 9 {
		t.Errorf("it looked at %d streams, not 9", asked)
	}
}

func TestProvisionBySeveralAtOnce(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	var all sync.WaitGroup
	for range 4 {
		p := natstest.Connect(t, s, jetstream.Config{})
		all.Go(func() {
			if err := p.Provision(t.Context(), jetstream.TopologyConfig{}); err != nil {
				t.Error(err)
			}
			if err := p.EnsureQueue(t.Context(), "q"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestProvisionChangesWhatMayChange(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	kept := result(p, "r", "kept")
	mustPut(t, p, kept)
	_, js := raw(t, s)
	config := func(name string) natsjs.StreamConfig {
		t.Helper()
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config
	}
	// Who runs the broker may add what is theirs.
	theirs := config("MULLIGAN_RESULTS")
	theirs.Description = "theirs"
	theirs.Metadata["team"] = "night shift"
	if _, err := js.UpdateStream(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	longer := natstest.Connect(t, s, jetstream.Config{Lease: 3 * time.Second})
	provision(t, longer, jetstream.TopologyConfig{ResultsAge: 5 * 24 * time.Hour, ResultsBytes: 64 << 20})
	got := config("MULLIGAN_RESULTS")
	if got.MaxAge != 5*24*time.Hour || got.MaxBytes != 64<<20 || got.Description != "theirs" || got.Metadata["team"] != "night shift" {
		t.Errorf("RESULTS is %+v", got)
	}
	if _, err := p.Get(t.Context(), kept.Subject); err != nil {
		t.Errorf("a result is gone: %v", err)
	}
	c, err := js.Consumer(t.Context(), "MULLIGAN_RECOVERY", messages.ConsumerDecisions)
	if err != nil || c.CachedInfo().Config.AckWait != 3*time.Second {
		t.Errorf("the lease of decisions: %+v, %v", c.CachedInfo().Config, err)
	}
}

func TestProvisionRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		have natsjs.StreamConfig
		want error
		text string
	}{
		{"newer", natsjs.StreamConfig{Metadata: map[string]string{"mulligan.topology": "99"}}, jetstream.ErrNewerTopology, "version 99"},
		{"foreign", natsjs.StreamConfig{}, jetstream.ErrForeignStream, "another prefix"},
		{"not a number", natsjs.StreamConfig{Metadata: map[string]string{"mulligan.topology": "one"}}, nil, "not a number"},
		{"other retention", natsjs.StreamConfig{Retention: natsjs.WorkQueuePolicy, Metadata: map[string]string{"mulligan.topology": "1"}}, nil, "never change"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := natstest.Server(t)
			_, js := raw(t, s)
			c.have.Name, c.have.Subjects = "MULLIGAN_PAYLOADS", []string{"mulligan.payload.>"}
			if _, err := js.CreateStream(t.Context(), c.have); err != nil {
				t.Fatal(err)
			}
			p := natstest.Connect(t, s, jetstream.Config{})
			err := p.Provision(t.Context(), jetstream.TopologyConfig{})
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "MULLIGAN_PAYLOADS") {
				t.Fatalf("got %v", err)
			}
			if c.want != nil {
				if _, err := js.Stream(t.Context(), "MULLIGAN_CALLS"); !errors.Is(err, natsjs.ErrStreamNotFound) {
					t.Errorf("it made a stream before it refused: %v", err)
				}
			}
		})
	}
}

func TestProvisionUpgradesOlder(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	_, js := raw(t, s)
	_, err := js.CreateStream(t.Context(), natsjs.StreamConfig{
		Name: "MULLIGAN_PAYLOADS", Subjects: []string{"mulligan.payload.>"}, Metadata: map[string]string{"mulligan.topology": "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	stream, err := js.Stream(t.Context(), "MULLIGAN_PAYLOADS")
	if err != nil {
		t.Fatal(err)
	}
	if c := stream.CachedInfo().Config; c.Metadata["mulligan.topology"] != "1" || !c.DiscardNewPerSubject || c.MaxAge == 0 {
		t.Errorf("it is %+v", c)
	}
}

// The figures that a server's defaults would make wrong.
func TestProvisionSaysWhatDefaultsWouldNot(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	_, js := raw(t, s)
	for info := range js.ListStreams(t.Context()).Info() {
		if c := info.Config; c.MaxConsumers < 10_000 || c.Duplicates > time.Second || c.Metadata["mulligan.topology"] != "1" {
			t.Errorf("%s has %d consumers at most, a window of %v, metadata %v", c.Name, c.MaxConsumers, c.Duplicates, c.Metadata)
		}
		stream, err := js.Stream(t.Context(), info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for c := range stream.ListConsumers(t.Context()).Info() {
			if c := c.Config; c.MaxWaiting != 8192 || c.MaxAckPending != 50_000 || c.MaxDeliver != -1 || len(c.BackOff) != 0 || c.AckPolicy != natsjs.AckExplicitPolicy || c.AckWait != natstest.Lease {
				t.Errorf("consumer %s is %+v", c.Durable, c)
			}
		}
	}
	schedule, err := js.Stream(t.Context(), "MULLIGAN_SCHEDULE")
	if err != nil {
		t.Fatal(err)
	}
	if c := schedule.CachedInfo().Config; c.MaxAge != 0 || c.MaxBytes != -1 || c.MaxMsgs != -1 || c.Discard != natsjs.DiscardOld || !c.AllowMsgSchedules {
		t.Errorf("SCHEDULE has a limit that would drop calls: %+v", c)
	}
}

// Who keeps stories for minutes keeps nothing else for a day.
func TestWhatOutlivesStoriesDoesSoInProportion(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for stories, want := range map[time.Duration]time.Duration{0: 31 * day, 3 * day: 4 * day, day: 2 * day, time.Minute: 2 * time.Minute} {
		c := jetstream.TopologyConfig{RecoveryAge: stories, ResultsAge: min(stories, day)}.WithDefaults()
		if err := c.Validate(); err != nil || c.RecordTTL != want || c.PayloadsAge != want {
			t.Errorf("stories kept for %s: records %s, payloads %s, want %s; %v", c.RecoveryAge, c.RecordTTL, c.PayloadsAge, want, err)
		}
	}
}

func TestP7_27_RetentionsAreOrdered(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	if err := (jetstream.TopologyConfig{}).WithDefaults().Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	for field, c := range map[string]jetstream.TopologyConfig{
		"deadline limit":  {ResultsAge: day, DeadlineLimit: day},
		"cancel ttl":      {DeadlineLimit: 2 * day, CancelTTL: day},
		"recovery age":    {ResultsAge: 10 * day, RecoveryAge: 9 * day},
		"answer-by limit": {RecoveryAge: 5 * day, AnswerByLimit: 6 * day},
		"record ttl":      {RecoveryAge: 5 * day, RecordTTL: 4 * day},
		"payloads age":    {RecoveryAge: 5 * day, PayloadsAge: 4 * day},
		"replicas":        {Replicas: 2},
		"results age":     {ResultsAge: time.Millisecond},
		"calls bytes":     {CallsBytes: -5},
	} {
		err := c.WithDefaults().Validate()
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
	p := natstest.Connect(t, natstest.Server(t), jetstream.Config{})
	if err := p.Provision(t.Context(), jetstream.TopologyConfig{ResultsAge: day, DeadlineLimit: 2 * day}); err == nil {
		t.Error("a disorder was provisioned")
	}
	if _, err := p.LastSequence(t.Context(), messages.StreamCalls); !errors.Is(err, messages.ErrNotFound) {
		t.Errorf("something of it was made: %v", err)
	}
}

// What Topology tells is what Provision makes.
func TestTopologyTellsWhatIsMade(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	cfg := jetstream.Config{Prefix: "other", Lease: natstest.Lease, QueueLimits: map[string]int{"tight": 1}}
	assets, err := jetstream.Topology(cfg, jetstream.TopologyConfig{}, []string{"q", "tight"})
	if err != nil {
		t.Fatal(err)
	}
	p := natstest.Connect(t, s, cfg)
	provision(t, p, jetstream.TopologyConfig{})
	for _, q := range []string{"q", "tight"} {
		if err := p.EnsureQueue(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	told := map[string]bool{}
	for _, a := range assets {
		name := a.Name
		switch a.Kind {
		case "bucket":
			name = "KV_" + name
		case "consumer":
			name = a.Stream + "/" + name
		}
		told[name] = true
		if len(a.Subjects) == 0 || len(a.Settings) == 0 {
			t.Errorf("%+v says too little", a)
		}
	}
	made := map[string]bool{}
	_, js := raw(t, s)
	for info := range js.ListStreams(t.Context()).Info() {
		made[info.Config.Name] = true
		stream, err := js.Stream(t.Context(), info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for c := range stream.ListConsumers(t.Context()).Info() {
			made[info.Config.Name+"/"+c.Name] = true
		}
	}
	a, _ := json.Marshal(told)
	b, _ := json.Marshal(made)
	if string(a) != string(b) {
		t.Errorf("told %s\nmade %s", a, b)
	}
	if _, err := jetstream.Topology(jetstream.Config{Prefix: "No"}, jetstream.TopologyConfig{}, nil); err == nil {
		t.Error("a bad prefix was taken")
	}
}

// TestCallsBeginsWithItsHead: consumers of CALLS never stand at the first message of
// the stream, where the broker would look through all that waits (ADR 0026).
func TestCallsBeginsWithItsHead(t *testing.T) {
	t.Parallel()
	p := natstest.Start(t)
	heads := func() (all []messages.Stored) {
		t.Helper()
		if err := p.List(t.Context(), messages.StreamCalls, nil, func(m messages.Stored) bool {
			all = append(all, m)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := heads()
	if len(first) != 1 || first[0].Subject != p.Names().CallsHead() || first[0].Sequence != 1 {
		t.Fatalf("a new pool has %+v in CALLS", first)
	}
	if err := p.Provision(t.Context(), jetstream.TopologyConfig{}); err != nil {
		t.Fatal(err)
	}
	if again := heads(); len(again) != 1 || again[0].Sequence != 1 {
		t.Errorf("a second start leaves %+v", again)
	}
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	for _, lane := range messages.Lanes() {
		if waiting, _, err := p.Backlog(t.Context(), messages.StreamCalls, p.Names().LaneConsumer("q", lane)); err != nil || waiting != 0 {
			t.Errorf("%d calls wait in lane %s, %v", waiting, lane, err)
		}
	}
}
