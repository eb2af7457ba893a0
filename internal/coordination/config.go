package coordination

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/internal/lifecycle"
	"mulligan/internal/metrics"
	"mulligan/internal/policies"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Config says how a coordinator works. The retentions are those of the pool's
// topology; Validate holds them to their order (protocol section 6, P7.27).
type Config struct {
	// Broker is the pool, such as a *jetstream.Pool. Required.
	Broker Broker
	// Name tells coordinators apart in stories and logs. Default: the host's
	// name and a random part.
	Name string

	// Notify tells the webhook of a run that it is over: address, an id that is the
	// same each time it is told of this run, and the entry of the run as JSON. Nil:
	// a declaration that names a webhook is refused.
	Notify func(ctx context.Context, address, id string, body []byte) error

	// Prepare makes the pool's streams, or waits until somebody has; nothing else
	// is done before it returns, and its error ends the coordinator. Nil: they
	// are waited for.
	Prepare func(ctx context.Context) error

	// Lease is how long the broker waits for an ack or extension before it hands
	// a trigger to another coordinator: the AckWait of the pool. Above the
	// pool's own, waiting triggers are handled twice for nothing. Default 60 s.
	Lease time.Duration
	// Concurrency is how many triggers of each kind are handled at once. A
	// trigger that waits takes none of it. Default 64.
	Concurrency int
	// ShortWaits is how many retries of less than a second may wait beside their
	// un-acked triggers; what comes beyond goes to SCHEDULE. Default 10,000,
	// negative none.
	ShortWaits int
	// Patience is how long one trigger is tried when the broker fails, before it
	// is let go, un-acked, for its next delivery. Default 20 s.
	Patience time.Duration
	// StopTimeout is how long Stop lets triggers end that are being handled.
	// What is not done then is left to the end of its lease. Default 10 s.
	StopTimeout time.Duration

	// ResultsRetention is the age that RESULTS keeps. Default 72 h.
	ResultsRetention time.Duration
	// RecordTTL is the life of a record after its last write; at least
	// RECOVERY's retention. Default 31 days.
	RecordTTL time.Duration
	// DeadlineLimit is how far ahead a deadline may lie; less than
	// ResultsRetention, or a call could end a second time. Default two thirds of it.
	DeadlineLimit time.Duration
	// CancelTTL is the life of a cancellation in CONTROL; at least DeadlineLimit.
	// Default ResultsRetention.
	CancelTTL time.Duration
	// AnswerBy is how long a parked call waits for a human where no policy says
	// so; at most AnswerByLimit. Default 24 h.
	AnswerBy time.Duration
	// AnswerByLimit is the longest that a policy may let one wait, that of the
	// topology; at most RecordTTL. Default 7 days.
	AnswerByLimit time.Duration
	// MaxWait is the longest delay before a retry that is honoured, whether a
	// strategy or a tool's own hint asks for it; a longer one ends the call soft.
	// Less than RecordTTL, else the record would be gone. Default 7 days.
	MaxWait time.Duration

	// MaxQueued is how many calls may wait in a queue before submissions to it
	// are refused. It is compared with a count that is up to a second old.
	// Default 1,000,000, negative no limit.
	MaxQueued int
	// Store and StoreLimit, in bytes, keep submissions from filling the broker's
	// store: they are refused while what is stored, what is queued and the ends
	// of all of it need more than three quarters of the limit. The count is up
	// to a second old. Default none: the broker refuses what it cannot hold, also
	// the results of what was accepted.
	Store      Store
	StoreLimit int64
	// Shut says why nothing may be taken in now, such as a disk that is nearly
	// full; submissions are refused for as long as it does. It is asked for each
	// call and must not block. Nil: never.
	Shut func() error
	// OfferLease is the life of an offer that is not renewed. Default 30 s.
	OfferLease time.Duration
	// WithdrawGrace is for how long a tool whose last offer was withdrawn counts
	// as merely late, so that a worker may come back from a deploy. Then its
	// calls are refused, and those in its queue fail. Default 30 s, negative none.
	WithdrawGrace time.Duration
	// DrainEvery is how often queues without workers are looked at. Default 5 s.
	DrainEvery time.Duration

	// Policies hold while the pool has no document of its own in CONTROL.
	Policies recovery.Document
	// Document, if it is not nil, is put there at the start, in place of another
	// one: the policies of the pool, as JSON (docs/policies.md).
	Document json.RawMessage

	// Log receives what is no outcome of a call. Nil discards.
	Log *slog.Logger
	// Metrics counts. Nil counts for nobody.
	Metrics *metrics.Coordinator
}

const day = 24 * time.Hour

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	c.Name = cmp.Or(c.Name, lifecycle.NewName())
	c.Lease = cmp.Or(c.Lease, time.Minute)
	c.Concurrency = cmp.Or(c.Concurrency, 64)
	c.ShortWaits = cmp.Or(c.ShortWaits, 10_000)
	c.Patience = cmp.Or(c.Patience, 20*time.Second)
	c.StopTimeout = cmp.Or(c.StopTimeout, 10*time.Second)
	c.ResultsRetention = cmp.Or(c.ResultsRetention, 3*day)
	c.RecordTTL = cmp.Or(c.RecordTTL, 31*day)
	c.DeadlineLimit = cmp.Or(c.DeadlineLimit, c.ResultsRetention/3*2)
	c.CancelTTL = cmp.Or(c.CancelTTL, c.ResultsRetention)
	c.AnswerByLimit = cmp.Or(c.AnswerByLimit, max(c.AnswerBy, min(7*day, c.RecordTTL)))
	c.AnswerBy = cmp.Or(c.AnswerBy, min(day, c.AnswerByLimit))
	c.MaxWait = cmp.Or(c.MaxWait, min(7*day, c.RecordTTL/2))
	c.MaxQueued = cmp.Or(c.MaxQueued, 1_000_000)
	c.OfferLease = cmp.Or(c.OfferLease, 30*time.Second)
	c.WithdrawGrace = cmp.Or(c.WithdrawGrace, 30*time.Second)
	c.DrainEvery = cmp.Or(c.DrainEvery, 5*time.Second)
	if c.Shut == nil {
		c.Shut = func() error { return nil }
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Metrics == nil {
		c.Metrics = metrics.NewCoordinator(nil)
	}
	return c
}

// Validate names every field that cannot be used, its value and the way out.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("coordinator: "+format, args...))
		}
	}
	check(c.Broker != nil, "broker is nil: give a pool")
	if err := messages.CheckName("name", c.Name, messages.MaxName); err != nil {
		errs = append(errs, fmt.Errorf("coordinator: %w", err))
	}
	check(c.Lease >= 100*time.Millisecond, "lease %s is too short to be extended: give 100ms or more", c.Lease)
	check(c.Concurrency > 0, "concurrency %d: give 1 or more", c.Concurrency)
	check(c.Patience > 0, "patience %s: give more than 0", c.Patience)
	check(c.StopTimeout > 0, "stop timeout %s: give more than 0", c.StopTimeout)
	check(c.ResultsRetention > 0, "results retention %s: give that of the pool", c.ResultsRetention)
	check(c.RecordTTL >= c.ResultsRetention, "record ttl %s is less than results retention %s", c.RecordTTL, c.ResultsRetention)
	check(c.DeadlineLimit > 0 && c.DeadlineLimit < c.ResultsRetention,
		"deadline limit %s must be less than results retention %s, or a call could end a second time", c.DeadlineLimit, c.ResultsRetention)
	check(c.CancelTTL >= c.DeadlineLimit, "cancel ttl %s must be at least the deadline limit %s", c.CancelTTL, c.DeadlineLimit)
	check(c.AnswerBy > 0 && c.AnswerBy <= c.AnswerByLimit, "answer-by %s must be above 0 and at most its limit %s", c.AnswerBy, c.AnswerByLimit)
	check(c.AnswerByLimit <= c.RecordTTL, "answer-by limit %s must be at most record ttl %s, or the question would be forgotten", c.AnswerByLimit, c.RecordTTL)
	check(c.MaxWait > 0 && c.MaxWait < c.RecordTTL, "max wait %s must be less than record ttl %s, or a record would be gone when its wait is over", c.MaxWait, c.RecordTTL)
	check(c.StoreLimit >= 0, "store limit %d is negative; 0 means that it is not known", c.StoreLimit)
	check(c.StoreLimit == 0 || c.Store != nil, "store limit %d without a store: give one, such as a *jetstream.Pool", c.StoreLimit)
	check(c.OfferLease >= time.Second, "offer lease %s: give 1s or more", c.OfferLease)
	if err := c.Policies.Check(); err != nil {
		errs = append(errs, fmt.Errorf("coordinator: policies: %w", err))
	}
	if _, err := policies.Check(c.Document); err != nil {
		errs = append(errs, fmt.Errorf("coordinator: document of policies: %w", err))
	}
	check(c.DrainEvery > 0, "drain every %s: give more than 0", c.DrainEvery)
	return errors.Join(errs...)
}

func (c Config) limits() dispatch.Limits {
	return dispatch.Limits{AnswerBy: c.AnswerBy, AnswerByLimit: c.AnswerByLimit, MaxWait: c.MaxWait, ResultsRetention: c.ResultsRetention}
}
