package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"
)

// exchange is one request and its answer.
type exchange struct {
	g    *Gateway
	w    http.ResponseWriter
	r    *http.Request
	conn *http.ResponseController
	who  *Token
	id   string // of the request, for its log line and its problems

	status int   // that was sent; 0 for none yet
	failed error // what its handler returned
}

// Header, Write and WriteHeader note what was sent, and give each write to the
// client so much time and no more.
func (x *exchange) Header() http.Header { return x.w.Header() }

func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.w.WriteHeader(status)
}

func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	_ = x.conn.SetWriteDeadline(time.Now().Add(x.g.cfg.Limits.Stall)) // a connection without deadlines, as of a test, has none
	return x.w.Write(b)                                               //nolint:gosec // it is JSON, or lines or events of it, and said to be, with nosniff
}

// flush sends what was written.
func (x *exchange) flush() error { return x.conn.Flush() }

func (x *exchange) ctx() context.Context { return x.r.Context() }

// Media types of bodies.
const (
	typeJSON   = "application/json"
	typeLines  = "application/jsonl"
	typeEvents = "text/event-stream"
)

// json answers with a value.
func (x *exchange) json(status int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	x.raw(status, buf.Bytes())
	return nil
}

// raw answers with JSON.
func (x *exchange) raw(status int, b []byte) {
	x.Header().Set("Content-Type", typeJSON)
	x.WriteHeader(status)
	_, _ = x.Write(b) // whoever asked may be gone
}

// accepts says whether the body is of a type that can be read.
func (x *exchange) accepts(types ...string) error {
	given := x.r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(given)
	for _, t := range types {
		if err == nil && media == t {
			return nil
		}
	}
	return fail(http.StatusUnsupportedMediaType, codeBadType, "the body is not said to be JSON: give the header Content-Type: %s (curl --json does)", types[0]).about("Content-Type", given)
}

// body reads the whole of a request that is small. One without a body gives nil.
func (x *exchange) body() ([]byte, error) {
	if err := x.accepts(typeJSON); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := x.take(&buf, x.g.cfg.Limits.Body); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// take copies the body to a writer. Whoever sends it must not stall, nor send
// too much.
func (x *exchange) take(to io.Writer, most int64) error {
	if x.r.ContentLength > most {
		return tooLarge(most)
	}
	n, err := io.Copy(to, io.LimitReader(&steady{x}, most+1))
	switch {
	case n > most:
		return tooLarge(most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail(http.StatusRequestTimeout, codeSlow, "nothing of the body came for %s after %d bytes; send it again", x.g.cfg.Limits.Stall, n)
	case err != nil:
		var own *writeError
		if errors.As(err, &own) {
			return own.error
		}
		return fail(http.StatusBadRequest, codeBroken, "the body broke off after %d bytes, and nothing of it was used; send it again", n)
	}
	_ = x.conn.SetReadDeadline(time.Time{}) // else a wait for results would end with it
	return nil
}

func tooLarge(most int64) error {
	return fail(http.StatusRequestEntityTooLarge, "too_large", "the body is longer than %d bytes; send less at a time, and put large data where the tool can fetch it", most)
}

// steady reads a body and moves the deadline with each read.
type steady struct{ x *exchange }

func (s *steady) Read(b []byte) (int, error) {
	_ = s.x.conn.SetReadDeadline(time.Now().Add(s.x.g.cfg.Limits.Stall)) // as in Write
	return s.x.r.Body.Read(b)
}

// writeError is an error of where a body is kept, and not of its sender.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

// errWaitOver says that the wait that was asked for is over.
var errWaitOver = errors.New("the wait is over")

// waiting is a context that ends with the wait, with the request, and when the
// gateway stops.
func (x *exchange) waiting(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(x.ctx(), d, errWaitOver)
	ctx, stop := context.WithCancelCause(ctx)
	after := context.AfterFunc(x.g.waits, func() { stop(errStopping) })
	return ctx, func() {
		after()
		stop(nil)
		cancel()
	}
}

// cameBack says whether an error only means that the wait ended before the call.
func cameBack(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	return err != nil && (errors.Is(cause, errWaitOver) || errors.Is(cause, errStopping)) && errors.Is(err, cause)
}
