package messages

import (
	"fmt"
	"strings"
	"time"
)

// The smaller parts of a call's story in RECOVERY.

// Start says that a tool is about to run, or, with a Tombstone, that it never
// will in this dispatch (P7.14 to P7.17, P7.25).
type Start struct {
	Version   string    `json:"version"`
	Token     string    `json:"token"`    // random for each handling, so that a lost ack finds itself
	Sequence  uint64    `json:"sequence"` // of the message in CALLS
	Delivery  int       `json:"delivery"`
	Worker    string    `json:"worker"`
	Tombstone string    `json:"tombstone,omitempty"` // see [Tombstone]; empty for a real one
	At        time.Time `json:"at"`
}

// Tombstone writes the text of a tombstone: how the dispatch ends in place of
// starting, and why.
func Tombstone(code Code, why string) string { return string(code) + ": " + why }

// ParseTombstone reads what [Tombstone] writes. Any other text, also none, is
// taken for a code that nobody knows.
func ParseTombstone(s string) (code Code, why string) {
	before, why, _ := strings.Cut(s, ": ")
	return Code(before), why
}

// Cancel is the durable wish to end a call or run (P7: cancel is a trigger).
type Cancel struct {
	Version string    `json:"version"`
	Status  Status    `json:"status"` // Cancelled, or Expired for a passed deadline
	Code    Code      `json:"code"`
	Reason  string    `json:"reason"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// Settled says that a worker found its call ended, so that the record can be closed (P7.24).
type Settled struct {
	Version string    `json:"version"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// AnswerKind is what a human, or the clock, said about a parked call.
type AnswerKind string

// The answers (S5.3).
const (
	AnswerApprove  AnswerKind = "approve"
	AnswerEdit     AnswerKind = "edit"
	AnswerRetry    AnswerKind = "retry"
	AnswerSkip     AnswerKind = "skip"
	AnswerFail     AnswerKind = "fail"
	AnswerTimedOut AnswerKind = "answer_by" // written when no human was in time (P7.21)
)

// UnmarshalText refuses an unknown value.
func (a *AnswerKind) UnmarshalText(text []byte) error {
	return parseEnum("answer", a, text, []AnswerKind{AnswerApprove, AnswerEdit, AnswerRetry, AnswerSkip, AnswerFail, AnswerTimedOut})
}

// Answer is the one way out of parked; the first wins.
type Answer struct {
	Version string     `json:"version"`
	Kind    AnswerKind `json:"kind"`
	Input   *Body      `json:"input,omitempty"` // AnswerEdit only
	Reason  string     `json:"reason,omitempty"`
	By      string     `json:"by"`
	At      time.Time  `json:"at"`
	Token   string     `json:"token,omitempty"` // of the request, see [AnswerRequest]
}

// Late is an outcome that came after the end of its call, or an answer that
// came after another: kept, linked, and changing nothing (S7.5). One of the
// three is set.
type Late struct {
	Version string    `json:"version"`
	Why     string    `json:"why"`
	Output  *Body     `json:"output,omitempty"` // of a success
	Failure *Failure  `json:"failure,omitempty"`
	Answer  *Answer   `json:"answer,omitempty"`
	Worker  string    `json:"worker"` // who wrote it
	At      time.Time `json:"at"`
}

// DueKind says what a schedule is for.
type DueKind string

// The kinds of schedules.
const (
	DueRetry    DueKind = "retry"
	DueAnswerBy DueKind = "answer-by"
	DueDeadline DueKind = "deadline"
	DueRunOver  DueKind = "run" // look whether a run is over, and tell its webhook
)

// UnmarshalText refuses an unknown value.
func (k *DueKind) UnmarshalText(text []byte) error {
	return parseEnum("due kind", k, text, []DueKind{DueRetry, DueAnswerBy, DueDeadline, DueRunOver})
}

// Due is what a schedule fires: the time of dispatch N of a call has come,
// after W postponements. Call is empty for what concerns a whole run; for
// DueRunOver N counts the attempts to tell the webhook and W the looks.
type Due struct {
	Version string    `json:"version"`
	Kind    DueKind   `json:"kind"`
	Run     Run       `json:"run"`
	Call    string    `json:"call,omitempty"`
	N       int       `json:"n"`
	W       int       `json:"w"`
	At      time.Time `json:"at"` // when it was to fire
	// NotBefore is when the dispatch may go out, where the schedule is to fire
	// earlier; whoever takes it waits for that.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// EncodeStory writes a Start, Cancel, Settled, Answer, Late or Due to a subject
// of its kind. The texts of a late failure are cut as [Pool.EncodeFailure] does.
func EncodeStory[T Start | Cancel | Settled | Answer | Late | Due](subject string, v T) (Message, error) {
	switch x := any(&v).(type) {
	case *Start:
		x.Version = Version
	case *Cancel:
		x.Version = Version
	case *Settled:
		x.Version = Version
	case *Answer:
		x.Version = Version
	case *Late:
		x.Version = Version
		if x.Failure != nil {
			f := *x.Failure
			f.fit()
			x.Failure = &f
		}
	case *Due:
		x.Version = Version
	}
	return jsonMessage(subject, fmt.Sprintf("%T", v), &v)
}

// DecodeStory reads what [EncodeStory] writes.
func DecodeStory[T Start | Cancel | Settled | Answer | Late | Due](b []byte) (T, error) {
	var v T
	return v, decodeJSON(fmt.Sprintf("%T", v), b, &v)
}

func (c *Cancel) check() error {
	if c == nil {
		return nil
	}
	return c.Status.UnmarshalText([]byte(c.Status))
}

func (a *Answer) check() error { return a.Kind.UnmarshalText([]byte(a.Kind)) }

func (l *Late) check() error {
	switch {
	case l.Failure != nil:
		return l.Failure.check()
	case l.Answer != nil:
		return l.Answer.check()
	}
	return nil
}

func (d *Due) check() error {
	if err := d.Kind.UnmarshalText([]byte(d.Kind)); err != nil {
		return err
	}
	if err := checkOrdinal("n", d.N, MaxDispatches); err != nil {
		return err
	}
	if d.W < 0 {
		return fmt.Errorf("w %d is below 0", d.W)
	}
	if d.Call != "" {
		if err := CheckCallID(d.Call); err != nil {
			return err
		}
	}
	return d.Run.Check()
}
