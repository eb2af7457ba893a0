package jetstream

import (
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/pkg/messages"
)

// Asset is one thing that the broker holds for a pool, for people to read.
type Asset struct {
	Kind     string   `json:"kind"` // stream, bucket or consumer
	Name     string   `json:"name"` // at the broker
	Stream   string   `json:"stream,omitempty"`
	Subjects []string `json:"subjects"`
	Settings []string `json:"settings"` // what is not the broker's default
}

// Topology lists what Provision makes with these settings, and for each of
// queues what EnsureQueue adds. It talks to no broker.
func Topology(cfg Config, t TopologyConfig, queues []string) ([]Asset, error) {
	cfg, t = cfg.WithDefaults(), t.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	names, err := messages.NewPool(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	p := &Pool{names: names, cfg: cfg}
	var out []Asset
	for _, s := range t.streams(names) {
		out = append(out, streamAsset(s))
	}
	for _, c := range sharedConsumers(names) {
		out = append(out, consumerAsset(names.StreamName(c.stream), p.durable(c.name, c.filter)))
	}
	for _, q := range queues {
		for _, c := range p.laneConsumers(q, 0) {
			out = append(out, consumerAsset(names.StreamName(messages.StreamCalls), c))
		}
	}
	return out, nil
}

func streamAsset(s natsjs.StreamConfig) Asset {
	a := Asset{Kind: "stream", Name: s.Name, Subjects: s.Subjects}
	if name, ok := bucketOf(s.Name); ok {
		a.Kind, a.Name = "bucket", name
	}
	add := func(ok bool, format string, args ...any) {
		if ok {
			a.Settings = append(a.Settings, fmt.Sprintf(format, args...))
		}
	}
	add(s.Retention == natsjs.WorkQueuePolicy, "work queue")
	add(s.DiscardNewPerSubject, "first write wins")
	add(s.MaxMsgsPerSubject == 1 && !s.DiscardNewPerSubject, "last write wins")
	add(s.AllowMsgSchedules, "schedules")
	add(s.MaxAge > 0, "kept %s", days(s.MaxAge))
	add(s.MaxBytes > 0, "at most %d bytes", s.MaxBytes)
	add(s.AllowMsgTTL, "ttl per message")
	if s.RePublish != nil {
		add(true, "republished to %s", s.RePublish.Destination)
	}
	add(s.Replicas > 1, "%d replicas", s.Replicas)
	add(true, "at most %d consumers", s.MaxConsumers)
	add(true, "topology version %s", s.Metadata[metadataVersion])
	return a
}

func consumerAsset(stream string, c natsjs.ConsumerConfig) Asset {
	return Asset{
		Kind: "consumer", Name: c.Durable, Stream: stream, Subjects: []string{c.FilterSubject},
		Settings: []string{
			fmt.Sprintf("lease %v", c.AckWait),
			fmt.Sprintf("at most %d unacked", c.MaxAckPending),
			fmt.Sprintf("at most %d waiting pulls", c.MaxWaiting),
		},
	}
}

func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}
