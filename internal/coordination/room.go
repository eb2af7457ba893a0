package coordination

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"mulligan/pkg/messages"
)

// Store says how much the broker holds, in bytes.
type Store interface {
	// Usage is how much all streams hold, how much of it queued calls are, and
	// about how much of it is failures and decisions that nobody has done with.
	Usage(ctx context.Context) (stored, queued, failed int64, err error)
}

// Of the room that a call needs until it has ended.
const (
	// outcomeShare is what the outcomes of a queued call may take, in sizes of
	// the call: its failure, the record, the next dispatch and that one's
	// result. So a call has room to fail once and be tried again; what fails
	// more often lives on the reserve.
	outcomeShare = 4
	// payloadShare is the same in sizes of an input that was uploaded: a failing
	// output and a result. Everything else only refers to it.
	payloadShare = 2
	// waitShare is the same for a call whose failure and record are written: the
	// next dispatch and its result, in sizes of the record's input.
	waitShare = 2
	// recordSize is what is written for a call whatever its size.
	recordSize = 2048
	// reserveShare is the part of the store that no submission gets: for outcomes
	// that are larger than their calls, and for what another coordinator does
	// between two looks.
	reserveShare = 4
)

// room keeps submissions from filling the store. Once it is full, results find
// no place, so that calls are not acked, so that nothing makes place: what is
// accepted must leave room for its own end. Looking costs a few requests, so a
// look serves for a second, and what happens meanwhile is added to it. A call
// is counted from its admission on: by itself until it is in the store, then
// until a look that began later has seen it there.
type room struct {
	store Store
	limit int64 // 0: not known, nothing is refused for it
	shut  func() error
	log   *slog.Logger

	mu      sync.Mutex
	at      time.Time // when the last look ended
	looking bool
	seen    int64           // by the last look: stored, and wanted by the calls that have yet to end
	coming  int64           // of calls that were admitted and are on their way into the store
	fresh   int64           // of calls that came there since the last look began
	older   int64           // of those that came before the look that goes on
	waiting int64           // of dispatches that wait in SCHEDULE by our doing
	until   map[int64]int64 // the same, by the second in which the wait is over
	said    time.Time
}

func newRoom(s Store, limit int64, shut func() error, log *slog.Logger) *room {
	if s == nil {
		limit = 0
	}
	return &room{store: s, limit: limit, shut: shut, log: log, until: make(map[int64]int64)}
}

// admit keeps room for a call and its end, or says why there is none. What it
// kept is to be settled.
func (r *room) admit(ctx context.Context, s messages.Submission) (kept int64, err error) {
	if err := r.shut(); err != nil {
		return 0, fmt.Errorf("the pool takes nothing in now: %w; try again in %s", err, fullRetry)
	}
	if r.limit == 0 {
		return 0, nil
	}
	r.look(ctx)
	need := (1+outcomeShare)*int64(len(s.Input)+len(s.Task)) + recordSize
	if s.Payload != nil {
		need += payloadShare * s.Payload.Size
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken()+need > r.usable() {
		r.tell()
		return 0, fmt.Errorf("the pool's store is full: of %s, %s are in use or kept for the results of calls that go on; try again in %s",
			humanize.IBytes(uint64(r.limit)), humanize.IBytes(uint64(max(r.taken(), 0)+r.limit-r.usable())), fullRetry)
	}
	r.coming += need
	return need, nil
}

// settle ends what was kept at admission: what is stored, or may be, is left to
// the next look; what was refused after all is free at once.
func (r *room) settle(stored, refused int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.coming -= stored + refused
	r.fresh += stored
}

// wait keeps room for a dispatch that waits in SCHEDULE, where no look sees its
// size, until it is in CALLS and a look has seen it there. Other coordinators
// do not know, nor does this one after a restart.
func (r *room) wait(rec messages.Record, over time.Time) {
	if r.limit == 0 || rec.State != messages.Waiting {
		return
	}
	kept := waitShare*int64(len(rec.Input.Inline)) + recordSize
	if rec.Input.Ref != nil {
		kept += payloadShare * rec.Input.Ref.Size
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting += kept
	r.until[over.Add(2*countAge).Unix()] += kept
}

func (r *room) usable() int64 { return r.limit - r.limit/reserveShare }

// taken wants the lock held.
func (r *room) taken() int64 { return r.seen + r.coming + r.fresh + r.older + r.waiting }

// look renews the count when it is old; one caller does so while the others go
// on with what is known. It wants the lock free.
func (r *room) look(ctx context.Context) {
	if !r.begin() {
		return
	}
	stored, queued, failed, err := r.store.Usage(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looking, r.at = false, time.Now()
	if err != nil { // the broker itself refuses what it cannot hold
		r.fresh, r.older = r.fresh+r.older, 0
		r.log.Warn("how full the store is cannot be read", "error", err)
		return
	}
	r.seen, r.older = stored+outcomeShare*(queued+failed), 0
}

// begin says whether the caller is to look, and draws the line between what
// the look will see and what comes after it.
func (r *room) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looking || time.Since(r.at) < countAge {
		return false
	}
	r.looking = true
	r.fresh, r.older = 0, r.fresh
	now := time.Now().Unix()
	for second, kept := range r.until {
		if second < now {
			r.waiting -= kept
			delete(r.until, second)
		}
	}
	return true
}

const fullSaid = 10 * time.Second

// tell logs, now and then. It wants the lock held.
func (r *room) tell() {
	if time.Since(r.said) < fullSaid {
		return
	}
	r.said = time.Now()
	r.log.Warn("the store is full: submissions are refused until there is room", "limit", r.limit, "taken", r.taken())
}
