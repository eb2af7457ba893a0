package messages

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Call is one dispatch of a call, as it travels in CALLS: an envelope in
// headers and the tool's input, byte for byte, as the body. As JSON it is part
// of failures and records, with the input beside it.
type Call struct {
	ID           string      `json:"call"`
	Ref          string      `json:"ref,omitempty"` // the submitter's own id; echoed, never routed on
	Run          Run         `json:"run"`
	Tool         string      `json:"tool"`
	OriginalTool string      `json:"original_tool,omitempty"` // the one first asked for, after a tool_change
	Queue        string      `json:"queue"`
	Lane         Lane        `json:"lane"`                 // as submitted; later dispatches travel in LaneRetry
	Effect       Effect      `json:"effect"`               // frozen by the coordinator (protocol section 3)
	Attempt      int         `json:"attempt"`              // what the budget counts, from 0
	Dispatch     int         `json:"dispatch"`             // n, from 0
	Key          string      `json:"key"`                  // idempotency key (S7.2)
	Timeout      Millis      `json:"timeout_ms,omitempty"` // of one execution; 0 means the tool's own
	Deadline     time.Time   `json:"deadline,omitzero"`
	Task         string      `json:"task,omitempty"`
	TaskRef      *PayloadRef `json:"task_ref,omitempty"` // in place of Task above MaxTaskHeader
	Labels       Labels      `json:"labels,omitempty"`
	Ambiguous    []int       `json:"ambiguous,omitempty"`    // dispatches of an unsafe tool that ended ambiguously (S7.7)
	RecoveredBy  string      `json:"recovered_by,omitempty"` // what the recovery changed for this dispatch
	Repeat       bool        `json:"repeat,omitempty"`       // may repeat an earlier submission (P7.11)
	Probe        bool        `json:"probe,omitempty"`        // the one that a half-open breaker lets through (S8.4)
	// Policy is what the submitter wants to hold for this call alone, a JSON
	// object of at most MaxPolicy bytes in one line (docs/policies.md).
	Policy json.RawMessage `json:"policy,omitempty"`
	Trace  string          `json:"traceparent,omitempty"`

	Input Body `json:"-"`
}

// Labels are the submitter's own key-value pairs: echoed, searchable, never routed on.
type Labels map[string]string

var traceForm = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

const maxRecoveredBy = 512 // encoded bytes in a header; the whole text is in the record

// TravelLane is the lane that this dispatch is published in: as submitted for
// dispatch 0, [LaneRetry] for later ones.
func (c Call) TravelLane() Lane {
	if c.Dispatch > 0 {
		return LaneRetry
	}
	return c.Lane
}

// EncodeCall writes a call for CALLS.
func (p Pool) EncodeCall(c Call) Message {
	h := newHeaders()
	h.Set(HeaderVersion, Version)
	h.Set(HeaderCall, c.ID)
	h.Set(HeaderRun, string(c.Run))
	h.Set(HeaderTool, quoteHeader(c.Tool))
	h.Set(HeaderQueue, quoteHeader(c.Queue))
	h.Set(HeaderLane, string(c.Lane))
	h.Set(HeaderEffect, string(c.Effect))
	h.Set(HeaderKey, c.Key)
	setInt(h, HeaderAttempt, int64(c.Attempt))
	setInt(h, HeaderDispatch, int64(c.Dispatch))
	setText(h, HeaderRef, c.Ref)
	setText(h, HeaderOriginalTool, c.OriginalTool)
	setText(h, HeaderTask, c.Task)
	setText(h, HeaderRecoveredBy, fit(c.RecoveredBy, maxRecoveredBy, runeSize))
	setTime(h, HeaderDeadline, c.Deadline)
	if c.Timeout > 0 {
		setInt(h, HeaderTimeout, c.Timeout.count())
	}
	if c.TaskRef != nil {
		h.Set(HeaderTaskRef, c.TaskRef.Header())
	}
	if len(c.Labels) > 0 {
		h.Set(HeaderLabels, c.Labels.header())
	}
	if len(c.Ambiguous) > 0 {
		h.Set(HeaderAmbiguous, joinInts(c.Ambiguous))
	}
	if c.Repeat {
		h.Set(HeaderRepeat, "1")
	}
	if c.Probe {
		h.Set(HeaderProbe, "1")
	}
	if len(c.Policy) > 0 {
		h.Set(HeaderPolicy, string(c.Policy))
	}
	if traceForm.MatchString(c.Trace) { // a malformed one starts a new trace, as W3C Trace Context says
		h.Set(HeaderTrace, c.Trace)
	}
	body := c.Input.toMessage(h)
	return Message{Subject: p.CallSubject(c.Queue, c.TravelLane(), c.Run, c.ID, c.Dispatch), Header: h.Header, Body: body}
}

// DecodeCall reads a call from CALLS. An error means that the message was not
// written by a Mulligan of this wire version; it names the header.
func (p Pool) DecodeCall(m Message) (Call, error) {
	h := m.Header
	if err := checkVersion(h); err != nil {
		return Call{}, err
	}
	c := Call{ID: h.Get(HeaderCall), Run: Run(h.Get(HeaderRun)), Key: h.Get(HeaderKey), Repeat: h.Get(HeaderRepeat) != "", Probe: h.Get(HeaderProbe) != "", Trace: h.Get(HeaderTrace)}
	d := headerDecoder{h: h}
	c.Ref, c.Tool, c.Queue = d.text(HeaderRef), d.text(HeaderTool), d.text(HeaderQueue)
	c.OriginalTool, c.Task, c.RecoveredBy = d.text(HeaderOriginalTool), d.text(HeaderTask), d.text(HeaderRecoveredBy)
	c.Attempt, c.Dispatch = int(d.int(HeaderAttempt, MaxRetries)), int(d.int(HeaderDispatch, MaxDispatches))
	c.Timeout = d.millis(HeaderTimeout)
	c.Deadline = d.time(HeaderDeadline)
	c.TaskRef = d.payload(HeaderTaskRef)
	d.json(HeaderLabels, &c.Labels)
	d.json(HeaderPolicy, &c.Policy)
	c.Ambiguous = d.ints(HeaderAmbiguous)
	d.enum(HeaderLane, c.Lane.UnmarshalText)
	d.enum(HeaderEffect, c.Effect.UnmarshalText)
	if d.err == nil {
		c.Input, d.err = bodyOf(m)
	}
	if d.err != nil {
		return Call{}, d.err
	}
	return c, c.check()
}

// fill gives an envelope in JSON the defaults that its headers have.
func (c *Call) fill() {
	if c.Effect == "" {
		c.Effect = Unsafe
	}
	if c.Lane == "" {
		c.Lane = LaneNormal
	}
}

func (c Call) check() error {
	if err := CheckCallID(c.ID); err != nil {
		return err
	}
	if err := c.Run.Check(); err != nil {
		return err
	}
	if err := CheckName("tool", c.Tool, MaxName); err != nil {
		return err
	}
	if err := checkOrdinal("dispatch", c.Dispatch, MaxDispatches); err != nil {
		return err
	}
	if err := checkOrdinal("attempt", c.Attempt, MaxRetries); err != nil {
		return err
	}
	if err := c.checkHeaders(); err != nil {
		return err
	}
	return CheckName("queue", c.Queue, MaxQueueName)
}

// checkHeaders finds what an envelope in JSON can hold and headers cannot: the
// next dispatch is made of it.
func (c Call) checkHeaders() error {
	for i, n := range c.Ambiguous {
		if n < 0 || n > MaxDispatches || i > MaxDispatches {
			return fmt.Errorf("ambiguous is not a list of up to %d dispatches from 0 to %d", MaxDispatches+1, MaxDispatches)
		}
	}
	switch {
	case strings.ContainsFunc(c.Key, unprintable) || len(c.Key) > MaxName:
		return fmt.Errorf("key %q is not up to %d characters of printable ASCII", truncateText(c.Key, 60), MaxName)
	case !writable(c.Deadline):
		return fmt.Errorf("deadline %s is not a time of RFC 3339", c.Deadline.UTC())
	}
	return checkPolicy(c.Policy)
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

func checkOrdinal(field string, n, last int) error {
	if n < 0 || n > last {
		return fmt.Errorf("%s %d is not from 0 to %d", field, n, last)
	}
	return nil
}

type headerDecoder struct {
	h   Header
	err error
}

func (d *headerDecoder) keep(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *headerDecoder) text(key string) string {
	s, err := getText(d.h, key)
	d.keep(err)
	return s
}

func (d *headerDecoder) int(key string, most int64) int64 {
	n, err := getInt(d.h, key, most)
	d.keep(err)
	return n
}

func (d *headerDecoder) millis(key string) Millis {
	return Millis(time.Duration(d.int(key, maxMillis)) * time.Millisecond)
}

func (d *headerDecoder) time(key string) time.Time {
	t, err := getTime(d.h, key)
	d.keep(err)
	return t
}

func (d *headerDecoder) payload(key string) *PayloadRef {
	v := d.h.Get(key)
	if v == "" {
		return nil
	}
	r, err := ParsePayloadRef(v)
	if err != nil {
		d.keep(fmt.Errorf("header %s: %w", key, err))
		return nil
	}
	return &r
}

func (d *headerDecoder) json(key string, dst any) {
	v := d.h.Get(key)
	if v == "" {
		return
	}
	if err := json.Unmarshal([]byte(v), dst); err != nil {
		d.keep(fmt.Errorf("header %s: %q: %w", key, truncateText(v, 80), brief(err)))
	}
}

func (d *headerDecoder) enum(key string, unmarshal func([]byte) error) {
	if err := unmarshal([]byte(d.h.Get(key))); err != nil {
		d.keep(fmt.Errorf("header %s: %w", key, err))
	}
}

func (d *headerDecoder) ints(key string) []int {
	v := d.h.Get(key)
	if v == "" {
		return nil
	}
	var out []int
	for f := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 0 || n > MaxDispatches || len(out) > MaxDispatches {
			d.keep(fmt.Errorf("header %s: %q is not a list of dispatches", key, truncateText(v, 80)))
			return nil
		}
		out = append(out, n)
	}
	return out
}

func joinInts(ns []int) string {
	s := make([]string, len(ns))
	for i, n := range ns {
		s[i] = strconv.Itoa(n)
	}
	return strings.Join(s, ",")
}
