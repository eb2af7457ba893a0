package catalogue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"mulligan/pkg/messages"
)

// Queue is a queue of the pool as it stands.
type Queue struct {
	Name     string                  `json:"name"`
	Tools    int                     `json:"tools"`
	Waiting  int                     `json:"waiting"` // calls that no worker has yet
	InHand   int                     `json:"in_hand"` // that workers have
	Settings *messages.QueueSettings `json:"settings,omitempty"`
}

// Counted is a source that can count what waits.
type Counted interface {
	Entries
	Names() messages.Pool
	Backlog(ctx context.Context, stream messages.Stream, consumer string) (waiting, unacked int, err error)
}

// Queues gives the queues that any tool is in, in order of their names.
func Queues(ctx context.Context, src Counted, warn func(format string, args ...any)) ([]Queue, error) {
	tools, err := Tools(ctx, src, warn)
	if err != nil {
		return nil, err
	}
	of := make(map[string]*Queue)
	for _, t := range tools {
		if of[t.Queue] == nil {
			of[t.Queue] = &Queue{Name: t.Queue}
		}
		of[t.Queue].Tools++
	}
	entries, err := src.Entries(ctx, messages.BucketControl, messages.QueuePrefix+">")
	if err != nil {
		return nil, fmt.Errorf("the settings of queues cannot be read: %w", err)
	}
	for _, e := range entries {
		s, err := messages.DecodeQueueSettings(e.Value)
		if err != nil {
			warn("%s: %v; it is left out", e.Key, err)
		} else if of[s.Queue] != nil {
			of[s.Queue].Settings = &s
		}
	}
	var out []Queue
	for _, name := range slices.Sorted(maps.Keys(of)) {
		q := *of[name]
		for _, lane := range messages.Lanes() {
			waiting, unacked, err := src.Backlog(ctx, messages.StreamCalls, src.Names().LaneConsumer(name, lane))
			if errors.Is(err, messages.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("queue %q cannot be counted: %w", name, err)
			}
			q.Waiting, q.InHand = q.Waiting+waiting, q.InHand+unacked
		}
		out = append(out, q)
	}
	return out, nil
}
