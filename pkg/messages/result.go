package messages

import "time"

// Result is how a call ended: exactly one for each accepted call (S5.1). In
// RESULTS it travels as headers around the tool's output, byte for byte.
type Result struct {
	Call string
	Ref  string
	Run  Run
	Tool string // the one that ran last
	// OriginalTool is the one first asked for, after a tool_change; else empty.
	OriginalTool string
	Status       Status
	Code         Code   // why, unless succeeded
	IsError      bool   // the output is a failure, verbatim (S5.2)
	Attempts     int    // spent, from 0; at most MaxAttempts
	Dispatch     int    // whose outcome this is
	RecoveredBy  string // what made a later attempt succeed; empty when the first did
	Reason       string // for people; cut to MaxText here, whole in the story
	Guidance     string // for the caller's model; cut to MaxText here, whole in the story
	Worker       string // who ran it, empty when nothing ran
	Duration     Millis // of the last execution
	Ended        time.Time
	Labels       Labels
	Output       Body
}

// EncodeResult writes a result for RESULTS.
func (p Pool) EncodeResult(r Result) Message {
	h := newHeaders()
	h.Set(HeaderVersion, Version)
	h.Set(HeaderCall, r.Call)
	h.Set(HeaderRun, string(r.Run))
	h.Set(HeaderTool, quoteHeader(r.Tool))
	h.Set(HeaderStatus, string(r.Status))
	setInt(h, HeaderAttempts, int64(r.Attempts))
	setInt(h, HeaderDispatch, int64(r.Dispatch))
	setInt(h, HeaderDuration, r.Duration.count())
	setText(h, HeaderRef, r.Ref)
	setText(h, HeaderOriginalTool, r.OriginalTool)
	setText(h, HeaderRecoveredBy, fit(r.RecoveredBy, maxRecoveredBy, runeSize))
	setText(h, HeaderReason, fit(r.Reason, MaxText, runeSize))
	setText(h, HeaderGuidance, fit(r.Guidance, MaxText, runeSize))
	setText(h, HeaderWorker, r.Worker)
	setTime(h, HeaderEnded, r.Ended)
	if r.Code != "" {
		h.Set(HeaderCode, string(r.Code))
	}
	if r.IsError {
		h.Set(HeaderIsError, "1")
	}
	if len(r.Labels) > 0 {
		h.Set(HeaderLabels, r.Labels.header())
	}
	body := r.Output.toMessage(h)
	return Message{Subject: p.ResultSubject(r.Run, r.Call), Header: h.Header, Body: body}
}

// DecodeResult reads a result from RESULTS; an error names the header.
func (p Pool) DecodeResult(m Message) (Result, error) {
	h := m.Header
	if err := checkVersion(h); err != nil {
		return Result{}, err
	}
	r := Result{Call: h.Get(HeaderCall), Run: Run(h.Get(HeaderRun)), IsError: h.Get(HeaderIsError) != ""}
	d := headerDecoder{h: h}
	r.Ref, r.Tool, r.OriginalTool, r.RecoveredBy = d.text(HeaderRef), d.text(HeaderTool), d.text(HeaderOriginalTool), d.text(HeaderRecoveredBy)
	r.Reason, r.Guidance, r.Worker = d.text(HeaderReason), d.text(HeaderGuidance), d.text(HeaderWorker)
	r.Attempts, r.Dispatch = int(d.int(HeaderAttempts, MaxAttempts)), int(d.int(HeaderDispatch, MaxDispatches))
	r.Duration, r.Ended = d.millis(HeaderDuration), d.time(HeaderEnded)
	d.enum(HeaderStatus, r.Status.UnmarshalText)
	d.enum(HeaderCode, r.Code.UnmarshalText)
	d.json(HeaderLabels, &r.Labels)
	if d.err == nil {
		r.Output, d.err = bodyOf(m)
	}
	if d.err != nil {
		return Result{}, d.err
	}
	if err := CheckCallID(r.Call); err != nil {
		return Result{}, err
	}
	return r, r.Run.Check()
}
