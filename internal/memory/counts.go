package memory

import (
	"sync"

	"mulligan/internal/subject"
)

// Op is a kind of operation.
type Op string

// The operations. A delivery is counted for each message that Fetch hands over.
const (
	OpPutOnce      Op = "put once"
	OpGet          Op = "get"
	OpFind         Op = "find"
	OpPublish      Op = "publish"
	OpSchedule     Op = "schedule"
	OpPurge        Op = "purge"
	OpErase        Op = "erase"
	OpList         Op = "list"
	OpListHeads    Op = "list heads"
	OpMatching     Op = "matching"
	OpFollow       Op = "follow"
	OpLastSequence Op = "last sequence"
	OpFetch        Op = "fetch"
	OpDelivery     Op = "delivery"
	OpAck          Op = "ack"
	OpNak          Op = "nak"
	OpExtend       Op = "extend"
	OpEnsureQueue  Op = "ensure queue"
	OpBacklog      Op = "backlog"
	OpLoad         Op = "load"
	OpSave         Op = "save"
	OpPut          Op = "put"
	OpDelete       Op = "delete"
	OpEntries      Op = "entries"
	OpWatch        Op = "watch"
	OpServe        Op = "serve"
	OpRequest      Op = "request"
	OpTell         Op = "tell"
	OpHear         Op = "hear"
)

type counted struct {
	op Op
	on string
}

type counts struct {
	mu sync.Mutex
	n  map[counted]int
}

func (c *counts) add(op Op, on string) {
	c.mu.Lock()
	c.n[counted{op, on}]++
	c.mu.Unlock()
}

// Count says how often this connection did op on what matches filter, in the
// terms of [Broker.Fail].
func (b *Broker) Count(op Op, filter string) int {
	b.counts.mu.Lock()
	defer b.counts.mu.Unlock()
	total := 0
	for k, n := range b.counts.n {
		if k.op == op && subject.Covers(filter, k.on) {
			total += n
		}
	}
	return total
}

// Counts says how often this connection did each operation, whatever on.
func (b *Broker) Counts() map[Op]int {
	b.counts.mu.Lock()
	defer b.counts.mu.Unlock()
	out := make(map[Op]int)
	for k, n := range b.counts.n {
		out[k.op] += n
	}
	return out
}

// ResetCounts begins to count anew.
func (b *Broker) ResetCounts() {
	b.counts.mu.Lock()
	clear(b.counts.n)
	b.counts.mu.Unlock()
}
