//go:build unix

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

func (b *brokers) js() natsjs.JetStream {
	b.t.Helper()
	nc, err := nats.Connect(b.urls(), nats.Token(brokerToken))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	if err != nil {
		b.t.Fatal(err)
	}
	return js
}

// streams are all streams of the broker, asked for until it answers: not all of
// it does while streams are moved.
func streams(t *testing.T, js natsjs.JetStream) map[string]*natsjs.StreamInfo {
	t.Helper()
	var out map[string]*natsjs.StreamInfo
	eventually(t, "the broker lists its streams", func() error {
		out = make(map[string]*natsjs.StreamInfo)
		l := js.ListStreams(t.Context())
		for info := range l.Info() {
			out[info.Config.Name] = info
		}
		return l.Err()
	})
	return out
}

// older turns the topology into one that an earlier build could have left:
// another version, no republishing, no late outcomes, no consumer of settled.
func older(t *testing.T, js natsjs.JetStream) {
	t.Helper()
	for name, info := range streams(t, js) {
		cfg := info.Config
		cfg.Metadata["mulligan.topology"] = "0"
		switch name {
		case "MULLIGAN_RESULTS":
			cfg.RePublish = nil
			cfg.MaxAge = 2 * 24 * time.Hour
		case "MULLIGAN_RECOVERY":
			var subjects []string
			for _, s := range cfg.Subjects {
				if !strings.Contains(s, ".late.") {
					subjects = append(subjects, s)
				}
			}
			cfg.Subjects = subjects
		}
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if err := js.DeleteConsumer(t.Context(), "MULLIGAN_RECOVERY", messages.ConsumerSettled); err != nil {
		t.Fatal(err)
	}
}

// TestAnOlderTopologyIsBroughtUpUnderItsCalls leaves calls queued, delayed and
// parked in a topology of an older build, and starts services of this one: it is
// changed in place, and every call ends, once. A topology of a newer build is
// refused with a text, and left as it is.
func TestAnOlderTopologyIsBroughtUpUnderItsCalls(t *testing.T) {
	t.Parallel()
	const each = 40
	b := newBrokers(t, 1)
	b.up()
	c := b.cluster(jetstream.TopologyConfig{})
	declaration, _ := asksOnce(t, c.dir)
	serve := func(round int) {
		c.run("coordinator", round, "--policy", c.noBreaker())
		c.run("reflector", round)
		c.run("worker", round, "--builtin", "--tools", declaration, "--slots", "8")
	}
	serve(0)
	c.serving(1)
	var parked, delayed, queued []messages.Submission
	for range each {
		pay := call("pay", `{}`)
		pay.Policy = []byte(`{"ask_user":"park"}`)
		parked = append(parked, pay)
		delayed = append(delayed, call("fail", `{"times":1,"kind":"retry_after","retry_after_ms":20000,"text":"later"}`))
		queued = append(queued, call("echo", `{}`))
	}
	c.submit(parked)
	places := c.parked(each)
	c.submit(delayed)
	c.settled(each)
	c.kill("worker-0")
	c.submit(queued)
	c.kill("coordinator-0")
	c.kill("reflector-0")
	js := b.js()
	before := streams(t, js)
	older(t, js)

	serve(1)
	eventually(t, "the topology is that of this build", func() error {
		for name, info := range streams(t, js) {
			if info.Config.Metadata["mulligan.topology"] != fmt.Sprint(jetstream.TopologyVersion) {
				return fmt.Errorf("%s has version %s", name, info.Config.Metadata["mulligan.topology"])
			}
		}
		_, err := js.Consumer(t.Context(), "MULLIGAN_RECOVERY", messages.ConsumerSettled)
		return err
	})
	for name, info := range streams(t, js) {
		was := before[name].Config
		if is := info.Config; is.MaxAge != was.MaxAge || len(is.Subjects) != len(was.Subjects) || (is.RePublish == nil) != (was.RePublish == nil) {
			t.Errorf("%s is %+v, and was %+v", name, is, was)
		}
	}
	c.answerAll(places, func(int) messages.AnswerKind { return messages.AnswerRetry }, func(int) {})
	all := append(append(queued, delayed...), parked...)
	for id, r := range c.results(all, func(int) {}).results {
		if r.Status != messages.Succeeded {
			t.Errorf("call %s ended %s: %s", id, r.Status, r.Reason)
		}
	}
	c.idle()
	c.once(all)

	newer := streams(t, js)["MULLIGAN_PAYLOADS"].Config
	newer.Metadata["mulligan.topology"] = fmt.Sprint(jetstream.TopologyVersion + 1)
	newer.Description = "of a newer build"
	if _, err := js.UpdateStream(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	old := c.run("coordinator", 2)
	await(t, "the end of a coordinator that is too old", old.done)
	said, err := os.ReadFile(old.log)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("stream MULLIGAN_PAYLOADS has topology version %d, this build knows up to %d", jetstream.TopologyVersion+1, jetstream.TopologyVersion)
	if code := old.cmd.ProcessState.ExitCode(); code == 0 || !strings.Contains(string(said), want) || !strings.Contains(string(said), "start a build of that version") {
		t.Errorf("it ended with %d and said %s", code, said)
	}
	if is := streams(t, js)["MULLIGAN_PAYLOADS"].Config; is.Description != newer.Description || is.Metadata["mulligan.topology"] != newer.Metadata["mulligan.topology"] {
		t.Errorf("it was changed to %+v", is)
	}
}

// TestReplicasAreRaisedInARunningCluster begins with one replica on three nodes,
// puts coordinators in their place that want three, under load, and then loses
// each node once: nothing is lost, and every consumer is bound again.
func TestReplicasAreRaisedInARunningCluster(t *testing.T) {
	t.Parallel()
	b := newBrokers(t, 3)
	b.up()
	c := b.cluster(jetstream.TopologyConfig{})
	serve := func(replicas string, i int) {
		c.run("coordinator", i, "--policy", c.noBreaker(), "--replicas", replicas)
	}
	serve("1", 0)
	serve("1", 1)
	for i := range 2 {
		c.run("reflector", i)
		c.run("worker", i, "--builtin", "--slots", "8")
	}
	c.serving(2)
	js := b.js()
	var all []messages.Submission
	load := func() {
		t.Helper()
		calls := make([]messages.Submission, scaled(150))
		for i := range calls {
			switch i % 3 {
			case 0:
				calls[i] = call("sleep", `{"ms":20}`)
			case 1:
				calls[i] = call("fail", `{"times":1,"kind":"retry_after","retry_after_ms":3000,"text":"later"}`)
			default:
				calls[i] = call("echo", `{}`)
			}
		}
		c.submit(calls)
		all = append(all, calls...)
	}
	load()
	for i := range 2 { // one after another, each by another one
		old := c.named(fmt.Sprintf("coordinator-%d", i))
		serve("3", 2+i)
		if err := old.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		await(t, "the end of a coordinator", old.done)
		load()
	}
	inSync := func() error {
		var errs []error
		for name, info := range streams(t, js) {
			if info.Config.Replicas != 3 || info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != 2 {
				errs = append(errs, fmt.Errorf("%s has %d replicas: %+v", name, info.Config.Replicas, info.Cluster))
				continue
			}
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Offline {
					errs = append(errs, fmt.Errorf("%s at %s is not current", name, r.Name))
				}
			}
		}
		return errors.Join(errs...)
	}
	eventually(t, "every stream has three replicas", inSync)
	load()
	for _, node := range b.nodes {
		node.kill()
		load()
		node.up()
		node.healthy()
		eventually(t, "every stream has three replicas again", inSync)
	}
	for id, r := range c.results(all, func(int) {}).results {
		if r.Status != messages.Succeeded {
			t.Errorf("call %s ended %s: %s", id, r.Status, r.Reason)
		}
	}
	c.idle()
	c.once(all)
	t.Logf("%d calls ended while replicas were raised and three nodes were lost, one after another", len(all))
}
