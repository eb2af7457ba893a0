package messages

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// What operators and humans ask of the coordinators beside submitting.

// AnswerRequest answers a parked call; body of EndpointAnswer. The first answer
// wins (S5.3).
type AnswerRequest struct {
	Version  string     `json:"version"`
	Run      Run        `json:"run"`
	Call     string     `json:"call"`
	Dispatch int        `json:"dispatch"` // the one that is asked about, so that an answer meets the question that was read
	Kind     AnswerKind `json:"kind"`
	Input    *Body      `json:"input,omitempty"` // AnswerEdit only
	Reason   string     `json:"reason,omitempty"`
	By       string     `json:"by"`
	Token    string     `json:"token,omitempty"` // random, so that a request that is sent again finds its own answer
}

// AnswerReply answers an AnswerRequest: with an empty Error the answer is
// durable and was the first.
type AnswerReply struct {
	Version string  `json:"version"`
	Error   string  `json:"error,omitempty"`
	Code    Code    `json:"code,omitempty"`  // of the error
	First   *Answer `json:"first,omitempty"` // the answer that was there before
}

// BreakerAction is what an operator wants of a breaker.
type BreakerAction string

// The actions.
const (
	BreakerForceOpen  BreakerAction = "open"  // refuse calls for a time, whatever they would do
	BreakerForceClose BreakerAction = "close" // let calls through and forget what was counted
)

// UnmarshalText refuses an unknown value.
func (a *BreakerAction) UnmarshalText(text []byte) error {
	return parseEnum("breaker action", a, text, []BreakerAction{BreakerForceOpen, BreakerForceClose})
}

// BreakerRequest opens or closes the breaker of a tool; body of EndpointBreaker.
type BreakerRequest struct {
	Version string        `json:"version"`
	Tool    string        `json:"tool"`
	Action  BreakerAction `json:"action"`
	For     Millis        `json:"for_ms,omitempty"` // BreakerForceOpen: how long; 0 means the reset time of the policy
	Reason  string        `json:"reason,omitempty"`
	By      string        `json:"by"`
}

// BreakerReply answers a BreakerRequest with the state that holds now.
type BreakerReply struct {
	Version string   `json:"version"`
	Error   string   `json:"error,omitempty"`
	Code    Code     `json:"code,omitempty"` // with Error: CodeBadCall or CodeNotStored
	Breaker *Breaker `json:"breaker,omitempty"`
}

// PolicyRequest replaces the policies of the pool; body of EndpointPolicy.
type PolicyRequest struct {
	Version string `json:"version"`
	// Document is the whole document (docs/policies.md); null takes it away, and
	// a request without one is an error.
	Document json.RawMessage `json:"document"`
	// Expect is the revision that the new document replaces; 0 replaces any.
	Expect uint64 `json:"expect,omitempty"`
	By     string `json:"by"`
}

// PolicyReply answers a PolicyRequest: with an empty Error the document holds
// for every part of the pool within moments.
type PolicyReply struct {
	Version  string `json:"version"`
	Error    string `json:"error,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
}

// PolicyEntry is the document with who wrote it: key [PolicyKey] in CONTROL.
type PolicyEntry struct {
	Version  string          `json:"version"`
	Document json.RawMessage `json:"document"`
	By       string          `json:"by"`
	At       time.Time       `json:"at"`
}

// EncodePolicies writes the entry of [PolicyKey]. Without a document it says
// that there is none any more.
func EncodePolicies(e PolicyEntry) ([]byte, error) {
	e.Version = Version
	if len(e.Document) == 0 {
		e.Document = json.RawMessage("null")
	}
	return encodeJSON("policies", &e)
}

// DecodePolicies reads what [EncodePolicies] writes; Document is nil where the
// pool has none.
func DecodePolicies(b []byte) (PolicyEntry, error) {
	var e PolicyEntry
	err := decodeJSON("policies", b, &e)
	if string(e.Document) == "null" {
		e.Document = nil
	}
	return e, err
}

// Denial is a human's no to a call of a run, kept so that the same call is not
// asked about again in it (S5.4): key [DenialKey] in CONTROL.
type Denial struct {
	Version string    `json:"version"`
	Call    string    `json:"call"`
	Reason  string    `json:"reason"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// EncodeDenial writes a denial for CONTROL.
func EncodeDenial(d Denial) ([]byte, error) {
	d.Version = Version
	return encodeJSON("denial", &d)
}

// DecodeDenial reads a denial.
func DecodeDenial(b []byte) (Denial, error) {
	var d Denial
	return d, decodeJSON("denial", b, &d)
}

// Keys of CONTROL that do not end a call.
const (
	// PolicyKey holds the policies of the pool.
	PolicyKey = "policy"
	// BreakerPrefix begins the keys of breakers.
	BreakerPrefix = "breaker."
)

// BreakerKey is the key in CONTROL of a tool's breaker; its value is a [Breaker].
func BreakerKey(tool string) string { return BreakerPrefix + Token(tool) }

// DenialKey is the key in CONTROL of a denial; digest is that of tool and
// canonical input. Its value is a [Denial].
func DenialKey(run Run, digest string) string { return "denied." + string(run) + "." + Token(digest) }

// DenialsFilter matches the keys in CONTROL of all denials of a run.
func DenialsFilter(run Run) string { return "denied." + string(run) + ".*" }

func (a *AnswerRequest) check() error {
	if err := CheckCallID(a.Call); err != nil {
		return err
	}
	if err := checkOrdinal("dispatch", a.Dispatch, MaxDispatches); err != nil {
		return err
	}
	if err := a.Kind.UnmarshalText([]byte(a.Kind)); err != nil {
		return err
	}
	if a.Kind == AnswerTimedOut {
		return errors.New("kind answer_by is written by the clock alone; give approve, edit, retry, skip or fail")
	}
	switch {
	case (a.Kind == AnswerEdit) != (a.Input != nil):
		return errors.New("input belongs to kind edit, and edit needs one")
	case len(a.Reason) > MaxText:
		return fmt.Errorf("reason is %d bytes long, the limit is %d; shorten it", len(a.Reason), MaxText)
	case len(a.Token) > MaxName:
		return fmt.Errorf("token is %d bytes long, the limit is %d", len(a.Token), MaxName)
	}
	return errors.Join(CheckName("by", a.By, MaxName), a.Run.Check())
}

func (b *BreakerRequest) check() error {
	if err := b.Action.UnmarshalText([]byte(b.Action)); err != nil {
		return err
	}
	return CheckName("tool", b.Tool, MaxName)
}

func (p *PolicyRequest) check() error {
	if len(p.Document) == 0 {
		return errors.New("document is missing; give the policies, or null to take them away")
	}
	return nil
}

func (b *BreakerReply) check() error {
	if b.Breaker == nil {
		return nil
	}
	return b.Breaker.check()
}

func (a *AnswerReply) check() error {
	if a.First == nil {
		return nil
	}
	return a.First.check()
}
