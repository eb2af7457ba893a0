package messages

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// DefaultPrefix is the prefix of a pool that is not named.
const DefaultPrefix = "mulligan"

// Stream names one stream of a pool; [Pool.StreamName] gives its name at the broker.
type Stream string

// The streams (docs/wire.md, topology).
const (
	StreamCalls    Stream = "CALLS"
	StreamResults  Stream = "RESULTS"
	StreamRecovery Stream = "RECOVERY"
	StreamSchedule Stream = "SCHEDULE"
	StreamPayloads Stream = "PAYLOADS"
)

// Bucket names one key-value bucket of a pool.
type Bucket string

// The buckets.
const (
	BucketAttempts Bucket = "ATTEMPTS" // records of calls that failed, wait or are asked about
	BucketRuns     Bucket = "RUNS"     // runs and accepted batches
	BucketTools    Bucket = "TOOLS"    // registry and offers
	BucketControl  Bucket = "CONTROL"  // cancellations, pauses
)

// The durable consumers of RECOVERY and SCHEDULE.
const (
	ConsumerReflector = "reflector"
	ConsumerDecisions = "coordinator-decisions"
	ConsumerAnswers   = "coordinator-answers"
	ConsumerCancels   = "coordinator-cancels"
	ConsumerSettled   = "coordinator-settled"
	ConsumerDue       = "coordinator-due"
)

// Kinds of subjects.
const (
	KindCall     = "call"
	KindResult   = "result"
	KindStart    = "start"
	KindFailure  = "failure"
	KindDecision = "decision"
	KindAnswer   = "answer"
	KindSettled  = "settled"
	KindCancel   = "cancel"
	KindLate     = "late"
	KindSchedule = "sched"
	KindDue      = "due"
	KindPayload  = "payload"
	KindLive     = "live"
	KindService  = "svc"
	KindPeer     = "peer"
)

// Pool names one pool: every subject, stream and bucket carries its prefix.
// The zero Pool is the default one.
type Pool struct{ prefix string }

var prefixForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// NewPool checks the prefix of a pool; empty means [DefaultPrefix].
func NewPool(prefix string) (Pool, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if !prefixForm.MatchString(prefix) {
		return Pool{}, fmt.Errorf("pool %q: a pool's name is 1 to 32 characters, lower-case letters, digits and _, the first a letter", truncateText(prefix, 60))
	}
	return Pool{prefix}, nil
}

// Prefix is the first token of every subject of the pool.
func (p Pool) Prefix() string {
	if p.prefix == "" {
		return DefaultPrefix
	}
	return p.prefix
}

// StreamName is the name of a stream at the broker, such as MULLIGAN_CALLS.
func (p Pool) StreamName(s Stream) string { return strings.ToUpper(p.Prefix()) + "_" + string(s) }

// BucketName is the name of a bucket at the broker.
func (p Pool) BucketName(b Bucket) string { return strings.ToUpper(p.Prefix()) + "_" + string(b) }

// LaneConsumer is the name of the durable consumer of one lane of a queue. An
// escaped queue keeps its '=', which consumer names may hold.
func (p Pool) LaneConsumer(queue string, lane Lane) string {
	return Token(queue) + "-" + string(lane)
}

func (p Pool) subject(tokens ...string) string {
	return p.Prefix() + "." + strings.Join(tokens, ".")
}

// CallSubject is where dispatch n of a call is published. Queue and lane are
// part of it, so a repetition must use those of the first submission.
func (p Pool) CallSubject(queue string, lane Lane, run Run, call string, n int) string {
	return p.subject(KindCall, Token(queue), string(lane), string(run), call, strconv.Itoa(n))
}

// CallsHead is the subject of the message that CALLS begins with, which is no call
// and in no lane (ADR 0026).
func (p Pool) CallsHead() string { return p.subject(KindCall, "head") }

// LaneFilter matches all calls of one lane of a queue.
func (p Pool) LaneFilter(queue string, lane Lane) string {
	return p.subject(KindCall, Token(queue), string(lane), ">")
}

// QueueFilter matches all calls of a queue.
func (p Pool) QueueFilter(queue string) string { return p.subject(KindCall, Token(queue), ">") }

// CallFilter matches every queued dispatch of a call.
func (p Pool) CallFilter(run Run, call string) string {
	return p.subject(KindCall, "*", "*", string(run), call, "*")
}

// RunCallsFilter matches every queued dispatch of a run.
func (p Pool) RunCallsFilter(run Run) string {
	return p.subject(KindCall, "*", "*", string(run), "*", "*")
}

// ResultSubject is where the terminal result of a call is published.
func (p Pool) ResultSubject(run Run, call string) string {
	return p.subject(KindResult, string(run), call)
}

// ResultsFilter matches the results of a run; an empty run matches all.
func (p Pool) ResultsFilter(run Run) string {
	if run == "" {
		return p.subject(KindResult, ">")
	}
	return p.subject(KindResult, string(run), "*")
}

// LiveResultsFilter matches what RESULTS publishes again after storing it.
func (p Pool) LiveResultsFilter(run Run) string {
	return p.subject(KindLive, KindResult, string(run), "*")
}

// StartSubject is where the start of dispatch n of an unsafe tool stands.
func (p Pool) StartSubject(run Run, call string, n int) string {
	return p.subject(KindStart, string(run), call, strconv.Itoa(n))
}

// MarkSubject is where start mark k (from 1) of dispatch n of any other tool stands.
func (p Pool) MarkSubject(run Run, call string, n, k int) string {
	return p.subject(KindStart, string(run), call, strconv.Itoa(n), strconv.Itoa(k))
}

// FailureSubject is where the failure of dispatch n stands.
func (p Pool) FailureSubject(run Run, call string, n int) string {
	return p.subject(KindFailure, string(run), call, strconv.Itoa(n))
}

// DecisionSubject is where the decision on the failure of dispatch n stands.
func (p Pool) DecisionSubject(run Run, call string, n int) string {
	return p.subject(KindDecision, string(run), call, strconv.Itoa(n))
}

// DecisionsFilter matches every decision on the calls of a run.
func (p Pool) DecisionsFilter(run Run) string { return p.subject(KindDecision, string(run), "*", "*") }

// KindFilter matches all that RECOVERY holds of a kind, such as [KindFailure], of
// the calls of a run; an empty run stands for all.
func (p Pool) KindFilter(kind string, run Run) string {
	if run == "" {
		return p.subject(kind, ">")
	}
	return p.subject(kind, string(run), ">")
}

// AnswersFilter matches every answer to a parked call.
func (p Pool) AnswersFilter() string { return p.subject(KindAnswer, ">") }

// AnswerSubject is where the answer to dispatch n, parked, stands.
func (p Pool) AnswerSubject(run Run, call string, n int) string {
	return p.subject(KindAnswer, string(run), call, strconv.Itoa(n))
}

// SettledSubject says that dispatch n found its call ended.
func (p Pool) SettledSubject(run Run, call string, n int) string {
	return p.subject(KindSettled, string(run), call, strconv.Itoa(n))
}

// CancelSubject is where the wish to cancel a call stands; call may be [WholeRun].
func (p Pool) CancelSubject(run Run, call string) string {
	return p.subject(KindCancel, string(run), call)
}

// LateSubject is where an outcome is kept that came after the end of its call;
// token makes it unique.
func (p Pool) LateSubject(run Run, call string, n int, token string) string {
	return p.subject(KindLate, string(run), call, strconv.Itoa(n), token)
}

// StoryFilters match all that RECOVERY holds of a call.
func (p Pool) StoryFilters(run Run, call string) []string {
	return []string{
		p.subject("*", string(run), call, ">"),
		p.subject(KindCancel, string(run), call),
	}
}

// ScheduleSubject is the schedule that fires [Due]; n and w stand in it, so
// that an older schedule never replaces a newer one (P7.3).
func (p Pool) ScheduleSubject(d Due) string {
	call := d.Call
	if call == "" {
		call = WholeRun
	}
	return p.subject(KindSchedule, string(d.Kind), string(d.Run), call, strconv.Itoa(d.N), strconv.Itoa(d.W))
}

// CallSchedules matches every schedule of a call.
func (p Pool) CallSchedules(run Run, call string) string {
	return p.subject(KindSchedule, "*", string(run), call, "*", "*")
}

// ParkedFilter matches the schedule that every parked call has, that of its
// answer-by; run or call "*" stands for all.
func (p Pool) ParkedFilter(run Run, call string) string {
	return p.subject(KindSchedule, string(DueAnswerBy), string(run), call, "*", "*")
}

// RunSchedules matches the schedules of one kind of the calls of a run.
func (p Pool) RunSchedules(kind DueKind, run Run) string {
	return p.subject(KindSchedule, string(kind), string(run), "*", "*", "*")
}

// RunFirstSchedules matches what waits of a run before its first dispatch.
func (p Pool) RunFirstSchedules(run Run) string {
	return p.subject(KindSchedule, string(DueRetry), string(run), "*", "0", "*")
}

// RunFirstCalls matches every queued first dispatch of a run.
func (p Pool) RunFirstCalls(run Run) string {
	return p.subject(KindCall, "*", "*", string(run), "*", "0")
}

// RunStory matches what RECOVERY holds of one kind, such as KindFailure, about
// the dispatches of a run.
func (p Pool) RunStory(kind string, run Run) string { return p.subject(kind, string(run), "*", "*") }

// RunStories matches all that RECOVERY holds of a run.
func (p Pool) RunStories(run Run) string { return p.subject("*", string(run), ">") }

// RunAllSchedules matches every schedule of a run and of its calls.
func (p Pool) RunAllSchedules(run Run) string {
	return p.subject(KindSchedule, "*", string(run), "*", "*", "*")
}

// PayloadFilter matches the chunks of a payload.
func (p Pool) PayloadFilter(digest string) string { return p.subject(KindPayload, digest, "*") }

// RunFirstStory is RunStory for first dispatches.
func (p Pool) RunFirstStory(kind string, run Run) string {
	return p.subject(kind, string(run), "*", "0")
}

// WholeRun stands in place of the call where a subject or key means a whole
// run: its deadline, its cancellation.
const WholeRun = "_"

// DuePartitions is the number of partitions of due messages.
const DuePartitions = 8

// DueSubject is where a schedule of the call or run fires to.
func (p Pool) DueSubject(d Due) string {
	var h uint32 = 2166136261
	for _, c := range []byte(string(d.Run) + d.Call) {
		h = (h ^ uint32(c)) * 16777619
	}
	return p.subject(KindDue, strconv.Itoa(int(h%DuePartitions)))
}

// PayloadSubject is where chunk i of a payload stands.
func (p Pool) PayloadSubject(digest string, i int) string {
	return p.subject(KindPayload, digest, strconv.Itoa(i))
}

// ServiceSubject is the endpoint of the coordinators' service with this name.
func (p Pool) ServiceSubject(endpoint string) string { return p.subject(KindService, endpoint) }

// PeerSubject is where coordinators tell each other, and nobody else, what none
// of them stores.
func (p Pool) PeerSubject(topic string) string { return p.subject(KindPeer, topic) }

// PeerCalls is the topic of [CallsSeen].
const PeerCalls = "calls"

// Endpoints of the coordinators' service (docs/wire.md, service).
const (
	EndpointSubmit  = "submit"
	EndpointOffer   = "offer"
	EndpointCancel  = "cancel"
	EndpointAnswer  = "answer"
	EndpointBreaker = "breaker"
	EndpointQueue   = "queue"
	EndpointPolicy  = "policy"
	EndpointRun     = "run"
	EndpointDelete  = "delete"
)

// CallKey is the key of a call in ATTEMPTS.
func CallKey(run Run, call string) string { return string(run) + "." + call }

// Address is what a subject of a call says.
type Address struct {
	Kind  string // KindCall, KindResult, KindStart, …
	Queue string // KindCall only
	Lane  Lane   // KindCall only
	Run   Run
	Call  string
	N     int    // dispatch
	K     int    // start mark; 0 where there is none
	Token string // KindLate only
}

// Parse reads the subjects of CALLS, RESULTS and RECOVERY.
func (p Pool) Parse(subject string) (Address, error) {
	rest, ok := strings.CutPrefix(subject, p.Prefix()+".")
	t := strings.Split(rest, ".")
	bad := func(why string) (Address, error) {
		return Address{}, fmt.Errorf("subject %q: %s", truncateText(subject, 200), why)
	}
	if !ok || len(t) < 3 || slices.Contains(t, "") {
		return bad("is not one of pool " + p.Prefix())
	}
	a := Address{Kind: t[0]}
	t = t[1:]
	if a.Kind == KindCall {
		if len(t) != 5 {
			return bad("a call has five tokens after its kind")
		}
		q, err := Name(t[0])
		if err != nil {
			return bad(err.Error())
		}
		if err := a.Lane.UnmarshalText([]byte(t[1])); err != nil {
			return bad(err.Error())
		}
		a.Queue, t = q, t[2:]
	}
	a.Run, a.Call = Run(t[0]), t[1]
	if err := a.Run.Check(); err != nil {
		return bad(err.Error())
	}
	if a.Kind == KindCancel && a.Call == WholeRun {
		return p.parseTail(a, t[2:], bad)
	}
	if err := CheckCallID(a.Call); err != nil {
		return bad(err.Error())
	}
	return p.parseTail(a, t[2:], bad)
}

func (p Pool) parseTail(a Address, t []string, bad func(string) (Address, error)) (Address, error) {
	fewest, most := 1, 1
	switch a.Kind {
	case KindCall, KindFailure, KindDecision, KindAnswer, KindSettled:
	case KindResult, KindCancel:
		fewest, most = 0, 0
	case KindStart:
		most = 2
	case KindLate:
		fewest, most = 2, 2
	default:
		return bad("has an unknown kind")
	}
	if len(t) < fewest || len(t) > most {
		return bad("has the wrong number of tokens")
	}
	if len(t) == 0 {
		return a, nil
	}
	n, err := strconv.Atoi(t[0])
	if err != nil || n < 0 || n > MaxDispatches || strconv.Itoa(n) != t[0] {
		return bad("its dispatch is not a number from 0 to 25")
	}
	a.N = n
	switch {
	case len(t) == 1:
	case a.Kind == KindLate:
		a.Token = t[1]
	default:
		if a.K, err = strconv.Atoi(t[1]); err != nil || a.K < 1 || a.K > MaxMarks+1 || strconv.Itoa(a.K) != t[1] {
			return bad("its start mark is not a number from 1")
		}
	}
	return a, nil
}

// StreamOf says which stream holds the subject, ok false for none.
func (p Pool) StreamOf(subject string) (Stream, bool) {
	rest, ok := strings.CutPrefix(subject, p.Prefix()+".")
	if !ok {
		return "", false
	}
	kind, _, _ := strings.Cut(rest, ".")
	switch kind {
	case KindCall:
		return StreamCalls, true
	case KindResult:
		return StreamResults, true
	case KindStart, KindFailure, KindDecision, KindAnswer, KindSettled, KindCancel, KindLate:
		return StreamRecovery, true
	case KindSchedule, KindDue:
		return StreamSchedule, true
	case KindPayload:
		return StreamPayloads, true
	}
	return "", false
}
