package dispatch

import (
	"time"

	"mulligan/pkg/messages"
)

// Event is a trigger together with what its message says. The field that
// belongs to the kind is set, the others are nil.
type Event struct {
	messages.Trigger

	Decision *messages.Decision // TriggerDecision
	Answer   *messages.Answer   // TriggerAnswer
	Cancel   *messages.Cancel   // TriggerCancel and TriggerDeadline: why, and with which status
}

// Facts is what the coordinator read before it asked. A step never looks
// anything up by itself; what is not among the facts does not count.
type Facts struct {
	// Result is what RESULTS holds for the call, by a leader read; nil for
	// nothing. It outranks the record (P7.10).
	Result *messages.Result
	// Failure is failure.n of the trigger's dispatch for a decision, and of the
	// record's dispatch, if there is one, for a cancel or deadline.
	Failure *messages.Failure
	// Origin is dispatch 0 as found in CALLS or in failure.0, for a call
	// without a record. Its Input is set.
	Origin *messages.Call
	// Input is the content of what a correction is about: the failed input, and
	// for an answer with an edit the edited one.
	Input []byte
	// At is when the trigger's message was stored.
	At time.Time
	// FailedAt is when the failure that was decided on was stored; zero: not known.
	FailedAt time.Time

	Waited bool  // the short wait that an earlier verdict asked for is over
	NoRoom bool  // too many short waits already: this one goes to SCHEDULE
	Claim  Claim // what became of the claim that an earlier verdict asked for
	Gone   bool  // the coordinator looked everywhere, more than once: nothing is known of the call

	// Gated says whether a dispatch to this tool has to ask before it goes out,
	// since a hook or a breaker stands before it; nil: none has to.
	Gated func(tool string) bool
	// Passage is the answer to an earlier [AskGate]; nil: not asked yet.
	Passage *Passage
	// Denied is why a human refused the same call in the same run before; empty
	// when none did. It is not asked again (S5.4).
	Denied string
	// Spent says why the run of the call has no retry left; empty while it has.
	Spent string

	// Tool looks a tool up by its name; nil knows none.
	Tool   func(name string) (Tool, bool)
	Limits Limits
}

// Tool is a tool as the registry knows it.
type Tool struct {
	Spec messages.ToolSpec
	// Unusable says why no call may be moved to this tool: withdrawn, excluded
	// by policy. Empty means that one may.
	Unusable string
	// Validate checks an input against the tool's schema; nil means that no
	// schema is known and nothing is checked (S3.2).
	Validate func(input []byte) error
}

// Passage says whether a dispatch may go out. The zero value lets it pass.
type Passage struct {
	Wait    *Wait    // not yet
	Refusal *Refusal // never: the call ends
	Probe   bool     // it goes out as the one probe of a half-open breaker (S8.4)
}

// Wait puts a dispatch off that spends no attempt meanwhile: an open breaker, a
// limit.
type Wait struct {
	Until  time.Time
	Reason string
}

// Refusal ends a call before its dispatch: a hook's veto, an open breaker. Text
// is for the caller's model, Reason for people; empty means Text.
type Refusal struct {
	Code   messages.Code
	Text   string
	Reason string
}

// Limits are the bounds that policy sets. All must be above zero.
type Limits struct {
	AnswerBy         time.Duration // how long a parked call waits for a human where its policy does not say
	AnswerByLimit    time.Duration // how long a policy may let one wait
	MaxWait          time.Duration // longest delay of a retry; below the TTL of records, else the record is gone when it fires
	ResultsRetention time.Duration // of RESULTS: an older trigger without record and result is a replay
}

// Claim is the outcome of claiming a start, so that no worker can begin the
// dispatch any more (P7.17, P7.19).
type Claim int

// The outcomes: not tried; a tombstone stands there, ours or another
// coordinator's; a worker was first.
const (
	NotClaimed Claim = iota
	ClaimWon
	ClaimLost
)

// Do is what a verdict asks the coordinator to do.
type Do int

// The verdicts. After WaitFirst, ClaimFirst, AskGate and ReadAgain the
// coordinator starts again at step 1 of protocol section 2, since what it read
// is old.
const (
	Ack        Do = iota + 1 // nothing to do: ack the trigger
	ReadAgain                // the read was stale or too early: never ack (P7.5)
	WaitFirst                // wait Delay beside the un-acked trigger, then from step 1 with Waited (P7.13)
	ClaimFirst               // put the tombstone, then from step 1 with the outcome in Claim
	AskGate                  // ask whether the dispatch of Record may go out, then from step 1 with Passage
	PutAnswer                // put Answer once at answer.n, then ack (P7.21)
	Write                    // compare-and-set Record, then its effects, then ack (P7.2, P7.12)
	WriteAgain               // compare-and-set Record, then from step 1
	Repeat                   // this trigger wrote Record: its effects, then ack (P7.1)
	Close                    // RESULTS has the end: compare-and-set Record to it, then AfterEnd, then ack
	Closed                   // as Close, with nothing to write
)

var doNames = [...]string{"", "ack", "read again", "wait first", "claim first", "ask the gate", "put answer", "write", "write, then again", "repeat", "close", "closed"}

func (d Do) String() string {
	if d < Ack || int(d) >= len(doNames) {
		return "no verdict"
	}
	return doNames[d]
}

// Verdict is what one step comes to. Why is for logs and people.
type Verdict struct {
	Do  Do
	Why string

	// Record is to be written (Write, WriteAgain, Close), was (Repeat), or would
	// be (AskGate). An
	// inline Input above messages.MaxInline has to go into PAYLOADS first.
	Record messages.Record
	Delay  time.Duration    // WaitFirst
	Mark   int              // ClaimFirst: the start mark to claim, 0 for the start of an unsafe tool
	Answer *messages.Answer // PutAnswer
}

func ack(why string) Verdict       { return Verdict{Do: Ack, Why: why} }
func readAgain(why string) Verdict { return Verdict{Do: ReadAgain, Why: why} }
