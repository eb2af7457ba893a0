package jetstream

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/pkg/messages"
)

// TopologyVersion is the version of the layout of streams, buckets and
// consumers that this build makes. It stands in the metadata of every stream.
// A layout of the same or an older version is brought up to this one; one of a
// newer version is refused, since what it means is unknown here.
const TopologyVersion = 1

const metadataVersion = "mulligan.topology"

// Numbers of consumers that a stream may have. The server's own default, 1,000,
// is less than a large pool needs, and it can never be changed afterwards.
const (
	maxLaneConsumers = 100_000 // of CALLS: four for each queue
	maxReaders       = 100_000 // of the others: one for each follower or listing
)

// TopologyConfig says how long what is kept, and where. The ages are ordered
// (protocol section 6), and Validate holds them to it.
type TopologyConfig struct {
	// Replicas of every stream: 1, or 3 and 5 in a cluster. Default 1.
	Replicas int
	// ResultsAge is the retention of RESULTS: within it a call ends once.
	// Default 3 days.
	ResultsAge time.Duration
	// RecoveryAge is the retention of RECOVERY, the stories. Default 30 days.
	RecoveryAge time.Duration
	// PayloadsAge is the retention of PAYLOADS, at least RecoveryAge, since
	// stories refer to it. Default: a day more than RecoveryAge, or twice that
	// where it is less than a day.
	PayloadsAge time.Duration
	// RecordTTL is the life of a record in ATTEMPTS after its last write, at
	// least RecoveryAge. Default as PayloadsAge.
	RecordTTL time.Duration
	// DeadlineLimit is how far ahead the deadline of a call or run may lie;
	// less than ResultsAge. Default: two thirds of ResultsAge.
	DeadlineLimit time.Duration
	// CancelTTL is the life of entries in CONTROL, at least DeadlineLimit.
	// Default ResultsAge.
	CancelTTL time.Duration
	// AnswerByLimit is how far ahead the answer-by of a parked call may lie; at
	// most RecoveryAge. Default 7 days, or RecoveryAge where that is less.
	AnswerByLimit time.Duration

	// CallsBytes, ResultsBytes, RecoveryBytes and PayloadsBytes bound the
	// stores, in bytes. A full one refuses what is new and recovers when there
	// is room. Default 0: bounded by the server only. SCHEDULE has no limit,
	// since one would drop waiting calls without a word.
	CallsBytes    int64
	ResultsBytes  int64
	RecoveryBytes int64
	PayloadsBytes int64
}

// WithDefaults fills what is zero.
func (c TopologyConfig) WithDefaults() TopologyConfig {
	const day = 24 * time.Hour
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.ResultsAge = cmp.Or(c.ResultsAge, 3*day)
	c.RecoveryAge = cmp.Or(c.RecoveryAge, 30*day)
	c.PayloadsAge = cmp.Or(c.PayloadsAge, c.RecoveryAge+min(day, c.RecoveryAge))
	c.RecordTTL = cmp.Or(c.RecordTTL, c.RecoveryAge+min(day, c.RecoveryAge))
	c.DeadlineLimit = cmp.Or(c.DeadlineLimit, c.ResultsAge/3*2)
	c.CancelTTL = cmp.Or(c.CancelTTL, c.ResultsAge)
	c.AnswerByLimit = cmp.Or(c.AnswerByLimit, min(7*day, c.RecoveryAge))
	return c
}

// Validate holds the ages to their order (protocol section 6, P7.27) and names
// every field that breaks it.
func (c TopologyConfig) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Replicas == 1 || c.Replicas == 3 || c.Replicas == 5, "replicas %d: give 1, 3 or 5", c.Replicas)
	check(c.ResultsAge >= time.Second, "results age %v: give 1s or more", c.ResultsAge)
	check(c.DeadlineLimit > 0 && c.DeadlineLimit < c.ResultsAge,
		"deadline limit %v must be less than results age %v, or a call whose queue was paused could end a second time", c.DeadlineLimit, c.ResultsAge)
	check(c.CancelTTL >= c.DeadlineLimit,
		"cancel ttl %v must be at least the deadline limit %v, or a cancelled call could start after all", c.CancelTTL, c.DeadlineLimit)
	check(c.RecoveryAge >= c.ResultsAge,
		"recovery age %v must be at least results age %v, or a start would be forgotten before its result", c.RecoveryAge, c.ResultsAge)
	check(c.AnswerByLimit > 0 && c.AnswerByLimit <= c.RecoveryAge,
		"answer-by limit %v must be at most recovery age %v, or a parked call would lose its story", c.AnswerByLimit, c.RecoveryAge)
	check(c.RecordTTL >= c.RecoveryAge,
		"record ttl %v must be at least recovery age %v, or an old trigger would meet no record", c.RecordTTL, c.RecoveryAge)
	check(c.PayloadsAge >= c.RecoveryAge,
		"payloads age %v must be at least recovery age %v, or a story would refer to nothing", c.PayloadsAge, c.RecoveryAge)
	for name, n := range map[string]int64{"calls": c.CallsBytes, "results": c.ResultsBytes, "recovery": c.RecoveryBytes, "payloads": c.PayloadsBytes} {
		check(n >= 0, "%s bytes %d is negative; 0 leaves it to the server", name, n)
	}
	return errors.Join(errs...)
}

// streams are the streams of a pool, buckets included, in the order in which
// they are made.
func (c TopologyConfig) streams(n messages.Pool) []natsjs.StreamConfig {
	sub := func(tokens string) string { return n.Prefix() + "." + tokens }
	base := func(s messages.Stream, subjects ...string) natsjs.StreamConfig {
		return natsjs.StreamConfig{
			Name: n.StreamName(s), Subjects: subjects, Storage: natsjs.FileStorage, Replicas: c.Replicas,
			MaxConsumers: maxReaders, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgsPerSubject: -1,
			AllowDirect: true, // for listings, and for what never changes; that something is not there only the leader says
			// Msg-Ids are never sent, so the window only has to be short.
			Duplicates: 100 * time.Millisecond,
			Metadata:   map[string]string{metadataVersion: fmt.Sprint(TopologyVersion)},
		}
	}
	once := func(s messages.Stream, bytes int64, subjects ...string) natsjs.StreamConfig {
		cfg := base(s, subjects...)
		cfg.MaxMsgsPerSubject, cfg.Discard, cfg.DiscardNewPerSubject = 1, natsjs.DiscardNew, true
		if bytes > 0 {
			cfg.MaxBytes = bytes
		}
		return cfg
	}

	calls := once(messages.StreamCalls, c.CallsBytes, sub("call.>"))
	calls.Retention, calls.MaxConsumers = natsjs.WorkQueuePolicy, maxLaneConsumers

	results := once(messages.StreamResults, c.ResultsBytes, sub("result.>"))
	results.MaxAge, results.AllowMsgTTL = c.ResultsAge, true
	results.RePublish = &natsjs.RePublish{Source: sub("result.>"), Destination: sub("live.result.>")}

	recovery := once(messages.StreamRecovery, c.RecoveryBytes, sub("start.>"), sub("failure.>"), sub("decision.>"),
		sub("answer.>"), sub("settled.>"), sub("cancel.>"), sub("late.>"))
	recovery.MaxAge, recovery.AllowMsgTTL = c.RecoveryAge, true

	schedule := base(messages.StreamSchedule, sub("sched.>"), sub("due.>"))
	schedule.Retention, schedule.Discard = natsjs.WorkQueuePolicy, natsjs.DiscardOld
	schedule.AllowMsgSchedules, schedule.AllowRollup = true, true

	payloads := once(messages.StreamPayloads, c.PayloadsBytes, sub("payload.>"))
	payloads.MaxAge = c.PayloadsAge

	return []natsjs.StreamConfig{
		calls, results, recovery, schedule, payloads,
		c.bucket(n, messages.BucketAttempts, c.RecordTTL),
		c.bucket(n, messages.BucketRuns, c.RecordTTL),
		c.bucket(n, messages.BucketTools, 0),
		c.bucket(n, messages.BucketControl, c.CancelTTL),
	}
}

// bucket is a stream in the form that every NATS client takes for a key-value
// bucket, with a history of one.
func (c TopologyConfig) bucket(n messages.Pool, b messages.Bucket, age time.Duration) natsjs.StreamConfig {
	name := n.BucketName(b)
	return natsjs.StreamConfig{
		Name: bucketPrefix + name, Subjects: []string{"$KV." + name + ".>"}, Storage: natsjs.FileStorage, Replicas: c.Replicas,
		MaxConsumers: maxReaders, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgsPerSubject: 1,
		Discard: natsjs.DiscardNew, MaxAge: age, AllowRollup: true, DenyDelete: true, AllowDirect: true,
		AllowMsgTTL: true, SubjectDeleteMarkerTTL: markerTTL, Duplicates: 100 * time.Millisecond,
		Metadata: map[string]string{metadataVersion: fmt.Sprint(TopologyVersion)},
	}
}

// sharedConsumers are the durables of RECOVERY and SCHEDULE: what each reads.
func sharedConsumers(n messages.Pool) []sharedConsumer {
	sub := func(tokens string) string { return n.Prefix() + "." + tokens }
	return []sharedConsumer{
		{messages.StreamRecovery, messages.ConsumerReflector, sub("failure.>")},
		{messages.StreamRecovery, messages.ConsumerDecisions, sub("decision.>")},
		{messages.StreamRecovery, messages.ConsumerAnswers, sub("answer.>")},
		{messages.StreamRecovery, messages.ConsumerCancels, sub("cancel.>")},
		{messages.StreamRecovery, messages.ConsumerSettled, sub("settled.>")},
		{messages.StreamSchedule, messages.ConsumerDue, sub("due.>")},
	}
}

type sharedConsumer struct {
	stream messages.Stream
	name   string
	filter string
}
