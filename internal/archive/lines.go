package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"mulligan/pkg/messages"
)

// What the first line of a file says.
const (
	Format  = "mulligan-run"
	Version = 1 // of the lines; it changes when a reader would misunderstand
)

// Head is the first line.
type Head struct {
	Format  string       `json:"format"`
	Version int          `json:"version"`
	Run     messages.Run `json:"run"`
	Name    string       `json:"name"`
	// Whole says that every call of the run had ended. One that is not whole
	// cannot be brought in.
	Whole   bool  `json:"whole"`
	Calls   int64 `json:"calls"`   // lines of calls that follow
	Results int64 `json:"results"` // of these, those with a result
	// Entry is what RUNS says, without what concerns its pool alone; absent where
	// the run was not declared.
	Entry *messages.RunEntry `json:"entry,omitempty"`
}

// Call is the line of a call.
type Call struct {
	Call string `json:"call"`
	// Submission is the call as a line for `mulligan run`, with its input in full,
	// where the pool still knows that: of a call that succeeded at once it never does.
	Submission json.RawMessage   `json:"submission,omitempty"`
	Result     *Result           `json:"result,omitempty"`
	Story      []Message         `json:"story,omitempty"`   // what RECOVERY holds of it
	Record     json.RawMessage   `json:"record,omitempty"`  // what ATTEMPTS holds of it
	Replays    []messages.Replay `json:"replays,omitempty"` // of it, by other runs
	// Missing is what had outlived its retention: "result", "failure 0",
	// "payload " and a digest; or "unreadable " and what a build did not know.
	Missing []string `json:"missing,omitempty"`
}

// Message is one of RECOVERY, as docs/wire.md has it.
type Message struct {
	Kind  string          `json:"kind"`
	N     int             `json:"n"`
	K     int             `json:"k,omitempty"`
	Token string          `json:"token,omitempty"`
	Body  json.RawMessage `json:"body"`
}

// Result is a [messages.Result] as JSON; call and run stand around it.
type Result struct {
	Ref          string          `json:"ref,omitempty"`
	Tool         string          `json:"tool"`
	OriginalTool string          `json:"original_tool,omitempty"`
	Status       messages.Status `json:"status"`
	Code         messages.Code   `json:"code,omitempty"`
	IsError      bool            `json:"is_error,omitempty"`
	Attempts     int             `json:"attempts"`
	Dispatch     int             `json:"dispatch"`
	RecoveredBy  string          `json:"recovered_by,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	Guidance     string          `json:"guidance,omitempty"`
	Worker       string          `json:"worker,omitempty"`
	Duration     messages.Millis `json:"duration_ms,omitempty"`
	Ended        time.Time       `json:"ended,omitzero"`
	Labels       messages.Labels `json:"labels,omitempty"`
	Output       messages.Body   `json:"output"`
}

// Payload is the line of a large input or output. It stands before the first
// call that refers to it, once.
type Payload struct {
	Payload messages.PayloadRef `json:"payload"`
	Text    *string             `json:"text,omitempty"`
	Base64  []byte              `json:"base64,omitempty"` // of what is no UTF-8
}

// Tail is the last line: without it a file is not whole.
type Tail struct {
	End      bool  `json:"end"`
	Calls    int64 `json:"calls"`
	Payloads int64 `json:"payloads"`
	// Missing counts what had outlived its retention: parts of calls, and calls
	// of which nothing but the count of the run is left.
	Missing int64 `json:"missing"`
}

func resultOf(r messages.Result) *Result {
	return &Result{
		Ref: r.Ref, Tool: r.Tool, OriginalTool: r.OriginalTool, Status: r.Status, Code: r.Code, IsError: r.IsError, Attempts: r.Attempts,
		Dispatch: r.Dispatch, RecoveredBy: r.RecoveredBy, Reason: r.Reason, Guidance: r.Guidance, Worker: r.Worker, Duration: r.Duration,
		Ended: r.Ended, Labels: r.Labels, Output: r.Output,
	}
}

func (r *Result) of(run messages.Run, call string) messages.Result {
	return messages.Result{
		Call: call, Run: run, Ref: r.Ref, Tool: r.Tool, OriginalTool: r.OriginalTool, Status: r.Status, Code: r.Code, IsError: r.IsError, Attempts: r.Attempts,
		Dispatch: r.Dispatch, RecoveredBy: r.RecoveredBy, Reason: r.Reason, Guidance: r.Guidance, Worker: r.Worker, Duration: r.Duration,
		Ended: r.Ended, Labels: r.Labels, Output: r.Output,
	}
}

func payloadOf(ref messages.PayloadRef, b []byte) Payload {
	p := Payload{Payload: ref}
	if utf8.Valid(b) {
		text := string(b)
		p.Text = &text
	} else {
		p.Base64 = b
	}
	return p
}

func (p Payload) content() []byte {
	if p.Text != nil {
		return []byte(*p.Text)
	}
	return p.Base64
}

// marshal writes a line, without its end.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

// subject is where a message stands.
func (m Message) subject(names messages.Pool, run messages.Run, call string) (string, error) {
	switch m.Kind {
	case messages.KindStart:
		if m.K > 0 {
			return names.MarkSubject(run, call, m.N, m.K), nil
		}
		return names.StartSubject(run, call, m.N), nil
	case messages.KindFailure:
		return names.FailureSubject(run, call, m.N), nil
	case messages.KindDecision:
		return names.DecisionSubject(run, call, m.N), nil
	case messages.KindAnswer:
		return names.AnswerSubject(run, call, m.N), nil
	case messages.KindSettled:
		return names.SettledSubject(run, call, m.N), nil
	case messages.KindCancel:
		return names.CancelSubject(run, call), nil
	case messages.KindLate:
		if m.Token == "" {
			return "", errors.New("token is missing")
		}
		return names.LateSubject(run, call, m.N, m.Token), nil
	}
	return "", fmt.Errorf("kind %.60q is none of start, failure, decision, answer, settled, cancel, late", m.Kind)
}

// refs are the payloads that a message refers to; an error says that its body
// cannot be read, or is of another call.
func (m Message) refs(run messages.Run, call string) ([]messages.PayloadRef, error) {
	other := func(r messages.Run, c string, n int) error {
		if r != run || c != call || n != m.N {
			return errors.New("body is that of another call or dispatch")
		}
		return nil
	}
	switch m.Kind {
	case messages.KindStart:
		_, err := messages.DecodeStory[messages.Start](m.Body)
		return nil, err
	case messages.KindFailure:
		f, err := messages.DecodeFailure(m.Body)
		if err == nil {
			err = other(f.Call.Run, f.Call.ID, f.Call.Dispatch)
		}
		return failureRefs(f), err
	case messages.KindDecision:
		d, err := messages.DecodeDecision(m.Body)
		if err == nil {
			err = other(d.Run, d.Call, d.Dispatch)
		}
		return nil, err
	case messages.KindAnswer:
		a, err := messages.DecodeStory[messages.Answer](m.Body)
		return answerRefs(&a), err
	case messages.KindSettled:
		_, err := messages.DecodeStory[messages.Settled](m.Body)
		return nil, err
	case messages.KindCancel:
		_, err := messages.DecodeStory[messages.Cancel](m.Body)
		return nil, err
	case messages.KindLate:
		l, err := messages.DecodeStory[messages.Late](m.Body)
		refs := answerRefs(l.Answer)
		if l.Output != nil {
			refs = append(refs, bodyRefs(*l.Output)...)
		}
		if l.Failure != nil {
			refs = append(refs, failureRefs(*l.Failure)...)
		}
		return refs, err
	}
	return nil, fmt.Errorf("kind %.60q is unknown", m.Kind)
}

func failureRefs(f messages.Failure) []messages.PayloadRef {
	return append(append(bodyRefs(f.Input), bodyRefs(f.Output)...), taskRefs(f.Call)...)
}

func answerRefs(a *messages.Answer) []messages.PayloadRef {
	if a == nil || a.Input == nil {
		return nil
	}
	return bodyRefs(*a.Input)
}

func recordRefs(r messages.Record) []messages.PayloadRef {
	return append(bodyRefs(r.Input), taskRefs(r.Call)...)
}

func taskRefs(c messages.Call) []messages.PayloadRef {
	if c.TaskRef == nil {
		return nil
	}
	return []messages.PayloadRef{*c.TaskRef}
}

func bodyRefs(b messages.Body) []messages.PayloadRef {
	if b.Ref == nil {
		return nil
	}
	return []messages.PayloadRef{*b.Ref}
}
