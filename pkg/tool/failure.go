package tool

import (
	"errors"
	"time"

	"mulligan/pkg/messages"
)

// Failure is an error that says more than its text: what kind of failure it
// is, and what is known about the effect. Tools make one with the functions
// below and may wrap it with %w; the text that the caller sees is that of the
// outermost error. Any other error is a definite failure of the tool with its
// own text.
type Failure struct {
	Code messages.Code // empty means tool_error
	Text string
	// Body is the failing result where it is not Text, see [Failed].
	Body []byte
	// Ambiguous: the effect may have happened, and nobody knows (S7.3).
	Ambiguous bool
	// NotExecuted: the tool did not begin.
	NotExecuted bool
	// NothingDone: the tool began and changed nothing, so that waiting for
	// RetryAfter spends no attempt (S6.2).
	NothingDone bool
	RetryAfter  time.Duration // a floor for the delay; zero for none

	err error
}

// Error is the text.
func (f *Failure) Error() string { return f.Text }

// Unwrap gives the error that the tool had.
func (f *Failure) Unwrap() error { return f.err }

// FailureOf reads err, which must not be nil, as a worker does.
func FailureOf(err error) *Failure {
	var inner *Failure
	if !errors.As(err, &inner) {
		return &Failure{Code: messages.CodeToolError, Text: err.Error(), err: err}
	}
	f := *inner
	if error(inner) != err && f.Body == nil { //nolint:errorlint // whether something wraps it is the question
		f.Text = err.Error()
	}
	if f.Code == "" {
		f.Code = messages.CodeToolError
	}
	return &f
}

// Failed is a failure whose result is body, word for word: what a tool
// answers that reports errors in its output. It is definite.
func Failed(body []byte) error {
	if body == nil {
		body = []byte{}
	}
	return &Failure{Code: messages.CodeToolError, Text: string(body), Body: body}
}

// Definite says of err that the tool knows how it ended, also when its
// context was done before: without it an error that comes after a time-out or
// a cancel counts as ambiguous.
func Definite(err error) error {
	f := FailureOf(err)
	f.Ambiguous, f.err = false, err
	return f
}

// Ambiguous says of err that the effect may have happened: a connection that
// broke after the request was sent. A machine never repeats an unsafe tool
// after it (S7.3).
func Ambiguous(err error) error {
	f := FailureOf(err)
	f.Ambiguous, f.NothingDone, f.err = true, false, err
	return f
}

// ConnectionLost is [Ambiguous] with its own code: the answer was lost.
func ConnectionLost(err error) error {
	f := FailureOf(err)
	f.Code, f.Ambiguous, f.NothingDone, f.err = messages.CodeConnectionLost, true, false, err
	return f
}

// Invalid says of err that the arguments cannot be used and nothing was done.
// It spends an attempt, since it is for the arguments to change (S4.4).
func Invalid(err error) error {
	f := FailureOf(err)
	f.Code, f.NotExecuted, f.Ambiguous, f.err = messages.CodeInvalidArguments, true, false, err
	return f
}

// RetryAfter adds to err how long to wait at the least before the next try.
// With nothingDone the wait spends no attempt (S6.2): say it only when the
// tool is sure that it changed nothing.
func RetryAfter(err error, d time.Duration, nothingDone bool) error {
	f := FailureOf(err)
	f.RetryAfter, f.err = max(d, 0), err
	f.NothingDone = nothingDone && !f.Ambiguous
	return f
}

// RateLimited says that the tool refused for now and did nothing; zero leaves
// the delay to the policy.
func RateLimited(err error, after time.Duration) error {
	return notNow(messages.CodeRateLimited, err, after)
}

// Unavailable says that the tool cannot be used for now and did nothing; zero
// leaves the delay to the policy.
func Unavailable(err error, after time.Duration) error {
	return notNow(messages.CodeUnavailable, err, after)
}

func notNow(code messages.Code, err error, after time.Duration) error {
	f := FailureOf(err)
	f.Code, f.Ambiguous, f.NothingDone, f.RetryAfter, f.err = code, false, true, max(after, 0), err
	return f
}
