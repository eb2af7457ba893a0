package jetstream

import (
	"context"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/pkg/messages"
)

// Of every durable consumer.
const (
	maxWaiting    = 8192   // pulls that wait; the server never lets it change later
	maxAckPending = 50_000 // where no limit of a queue says less
)

// EnsureQueue creates the durable consumers of a queue's lanes, or brings the
// lease and the limit of those that exist to what this pool is configured for.
// It may be repeated at any time. Only coordinators call it.
//
// A limit is divided over the lanes as MaxAckPending, at least one each. A
// limit below the number of lanes cannot be; then one consumer serves all lanes,
// under the name of the high lane, and a Fetch from another is ErrNotFound.
func (p *Pool) EnsureQueue(ctx context.Context, queue string) error {
	return p.SetQueue(ctx, queue, 0, false)
}

// SetQueue is EnsureQueue with what holds of the queue now: a limit in place of
// the configured one, 0 for that, and whether its consumers hand nothing over.
// What was handed over keeps its lease, and is acked as usual.
//
// A limit below the number of lanes stays as it was configured: one consumer
// cannot stand beside four.
func (p *Pool) SetQueue(ctx context.Context, queue string, inFlight int, paused bool) error {
	if err := messages.CheckName("queue", queue, messages.MaxQueueName); err != nil {
		return err
	}
	for _, c := range p.laneConsumers(queue, inFlight) {
		if paused {
			c.PauseUntil = &never // of a new one; the server leaves that of another alone
		}
		stream := p.names.StreamName(messages.StreamCalls)
		is, err := p.ensureConsumer(ctx, stream, c)
		if err == nil && is.Paused != paused {
			err = p.pause(ctx, stream, c, paused)
		}
		if err != nil {
			return fmt.Errorf("queue %q: %w", queue, err)
		}
	}
	return nil
}

// never is when a pause ends by itself.
var never = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

func (p *Pool) laneConsumers(queue string, inFlight int) []natsjs.ConsumerConfig {
	lanes := messages.Lanes()
	limit, limited := p.cfg.QueueLimits[queue]
	if inFlight > 0 && !(limited && limit < len(lanes)) {
		limit, limited = inFlight, true
	}
	if limited && limit < len(lanes) {
		c := p.durable(p.names.LaneConsumer(queue, messages.LaneHigh), p.names.QueueFilter(queue))
		c.MaxAckPending = limit
		return []natsjs.ConsumerConfig{c}
	}
	var out []natsjs.ConsumerConfig
	for i, lane := range lanes {
		c := p.durable(p.names.LaneConsumer(queue, lane), p.names.LaneFilter(queue, lane))
		if limited {
			c.MaxAckPending = limit / len(lanes)
			if i < limit%len(lanes) {
				c.MaxAckPending++
			}
		}
		out = append(out, c)
	}
	return out
}

func (p *Pool) durable(name, filter string) natsjs.ConsumerConfig {
	return natsjs.ConsumerConfig{
		Name:          name,
		Durable:       name,
		AckPolicy:     natsjs.AckExplicitPolicy,
		AckWait:       p.cfg.Lease,
		MaxDeliver:    -1,
		FilterSubject: filter,
		MaxWaiting:    maxWaiting,
		MaxAckPending: maxAckPending,
	}
}

// consumerState is what the server tells of a consumer that was ensured.
type consumerState struct {
	Paused bool `json:"paused"`
}

// ensureConsumer creates a durable or updates what may change live.
func (p *Pool) ensureConsumer(ctx context.Context, stream string, c natsjs.ConsumerConfig) (consumerState, error) {
	var is consumerState
	err := p.api(ctx, "CONSUMER.CREATE."+stream+"."+c.Durable, consumerRequest{Stream: stream, Config: c}, &is)
	return is, translate("ensure consumer", c.Durable+" of "+stream, err)
}

// pause keeps a consumer from handing anything over, or lets it again.
func (p *Pool) pause(ctx context.Context, stream string, c natsjs.ConsumerConfig, paused bool) error {
	var until struct {
		Until time.Time `json:"pause_until,omitzero"`
	}
	if paused {
		until.Until = never
	}
	err := p.api(ctx, "CONSUMER.PAUSE."+stream+"."+c.Durable, until, nil)
	if err != nil || paused {
		return translate("pause consumer", c.Durable+" of "+stream, err)
	}
	// The server does not look at requests that wait when a pause is taken back.
	// It does when the limit changes.
	for _, more := range []int{1, 0} {
		other := c
		other.MaxAckPending += more
		if _, err := p.ensureConsumer(ctx, stream, other); err != nil {
			return err
		}
	}
	return nil
}

// consumerRequest asks for a consumer. Action "create" makes a new one only;
// the empty one also brings an existing one to this configuration.
type consumerRequest struct {
	Stream string                `json:"stream_name"`
	Config natsjs.ConsumerConfig `json:"config"`
	Action string                `json:"action"`
}

// Backlog counts what a consumer has yet to hand over and what is in the hands
// of those who fetched it.
func (p *Pool) Backlog(ctx context.Context, stream messages.Stream, consumer string) (waiting, unacked int, err error) {
	name := p.names.StreamName(stream)
	var info struct {
		Pending int `json:"num_pending"`
		Unacked int `json:"num_ack_pending"`
	}
	err = p.api(ctx, "CONSUMER.INFO."+name+"."+consumer, nil, &info)
	if err != nil {
		return 0, 0, translate("count backlog of", consumer, err)
	}
	return info.Pending, info.Unacked, nil
}
