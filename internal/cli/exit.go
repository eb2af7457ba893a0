package cli

import (
	"errors"
	"fmt"

	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// The exit codes (docs of each command).
const (
	exitOK          = 0
	exitInternal    = 1
	exitUsage       = 2
	exitSome        = 3 // some calls did not succeed
	exitUnfinished  = 4 // not in time, or waiting for a human
	exitUnreachable = 5 // no NATS, or no coordinator
	exitNotFound    = 6
	exitInterrupted = 130
)

// codeError carries an exit code. A silent one has said everything already.
type codeError struct {
	code   int
	err    error
	silent bool
}

func (e *codeError) Error() string { return e.err.Error() }

func (e *codeError) Unwrap() error { return e.err }

func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &codeError{code: code, err: err}
}

func usage(format string, args ...any) error { return withCode(exitUsage, fmt.Errorf(format, args...)) }

// quietly ends with a code, where the output has told everything.
func quietly(code int) error {
	return &codeError{code: code, err: fmt.Errorf("exit code %d", code), silent: true}
}

var (
	errInterrupted = errors.New("interrupted")
	errWaitOver    = errors.New("not finished in time")
)

// exitCode says with which code an error ends the program.
func exitCode(err error) int {
	var c *codeError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &c):
		return c.code
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, errWaitOver):
		return exitUnfinished
	case errors.Is(err, messages.ErrNotFound):
		return exitNotFound
	case errors.Is(err, messages.ErrNoResponder), errors.Is(err, jetstream.ErrUnreachable):
		return exitUnreachable
	}
	return exitInternal
}
