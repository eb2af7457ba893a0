package coordination

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mulligan/pkg/messages"
)

// queues knows about how many calls wait in each queue. Counting costs a
// request for each lane, so a count serves for a second; what is accepted
// meanwhile is added to it.
type queues struct {
	broker Queues
	names  messages.Pool
	limit  int // below 0 for none

	mu     sync.Mutex
	counts map[string]*queueCount
}

type queueCount struct {
	at       time.Time
	counting bool
	waiting  int
}

const (
	countAge = time.Second
	// fullRetry is when a submission to a full queue may be tried again.
	fullRetry = 2 * time.Second
)

func newQueues(b Queues, names messages.Pool, limit int) *queues {
	return &queues{broker: b, names: names, limit: limit, counts: make(map[string]*queueCount)}
}

// admit adds one call to the queue, or says why it is full. What an operator
// said of the queue stands over the limit of the coordinators; 0 is nothing.
func (q *queues) admit(ctx context.Context, queue string, said int) error {
	limit := q.limit
	if said > 0 {
		limit = said
	}
	if limit < 0 {
		return nil
	}
	n := q.countOf(ctx, queue)
	q.mu.Lock()
	defer q.mu.Unlock()
	if n.waiting >= limit {
		return fmt.Errorf("queue '%s' is full: it holds %d of %d calls; try again in %s", queue, n.waiting, limit, fullRetry)
	}
	n.waiting++
	return nil
}

// countOf gives the count of a queue, which one caller renews when it is old
// while the others go on with it.
func (q *queues) countOf(ctx context.Context, queue string) *queueCount {
	q.mu.Lock()
	n := q.counts[queue]
	if n == nil {
		n = &queueCount{}
		q.counts[queue] = n
	}
	renew := !n.counting && time.Since(n.at) >= countAge
	n.counting = n.counting || renew
	q.mu.Unlock()
	if renew {
		waiting, err := q.count(ctx, queue)
		q.mu.Lock()
		n.counting, n.at = false, time.Now()
		if err == nil {
			n.waiting = waiting
		}
		q.mu.Unlock()
	}
	return n
}

func (q *queues) count(ctx context.Context, queue string) (int, error) {
	total := 0
	for _, lane := range messages.Lanes() {
		waiting, _, err := q.broker.Backlog(ctx, messages.StreamCalls, q.names.LaneConsumer(queue, lane))
		if errors.Is(err, messages.ErrNotFound) {
			continue // one consumer serves all lanes, or none is there yet
		}
		if err != nil {
			return 0, fmt.Errorf("count queue %q: %w", queue, err)
		}
		total += waiting
	}
	return total, nil
}
