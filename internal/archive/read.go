package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mulligan/internal/strict"
	"mulligan/pkg/messages"
)

// MaxLine bounds a line, in bytes: no call has a longer one.
const MaxLine = 256 << 20

// LineError says which line of a file cannot be used, and why.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// Checked is a file that was read from end to end.
type Checked struct {
	Head   Head
	Tail   Tail
	Digest string // SHA-256 of all of it, in hexadecimal digits
	Left   int64  // calls without a result, which are not brought in
}

// handler is told of the lines behind the head. A nil one only checks.
type handler struct {
	payload func(line int, p Payload, b []byte) error
	call    func(line int, c Call) error
}

// Check reads a whole file and says what is wrong with it: a [*LineError] names
// the line, the field, its value and the way out.
func Check(ctx context.Context, r io.Reader, names messages.Pool) (Checked, error) {
	sum := sha256.New()
	c, err := read(ctx, io.TeeReader(r, sum), names, handler{})
	c.Digest = hex.EncodeToString(sum.Sum(nil))
	return c, err
}

// read goes through a file. It keeps the digests of its payloads, and one line.
func read(ctx context.Context, r io.Reader, names messages.Pool, h handler) (Checked, error) {
	f := &reader{in: bufio.NewReaderSize(r, 1<<20), names: names, h: h, payloads: make(map[string]bool)}
	err := f.all(ctx)
	if err != nil && f.line > 0 && ctx.Err() == nil {
		err = &LineError{f.line, err}
	}
	return f.out, err
}

type reader struct {
	in       *bufio.Reader
	names    messages.Pool
	h        handler
	line     int
	payloads map[string]bool
	last     string // call
	out      Checked
}

func (f *reader) all(ctx context.Context) error {
	b, err := f.next()
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty; `mulligan runs export` writes one")
	}
	if err != nil {
		return err
	}
	if err := f.head(b); err != nil {
		return err
	}
	for ctx.Err() == nil {
		b, err := f.next()
		if errors.Is(err, io.EOF) {
			if !f.out.Tail.End {
				return errors.New("the file ends here without its last line, and so is not whole; export the run again")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if f.out.Tail.End {
			return errors.New("something follows the last line; give one run at a time")
		}
		if err := f.one(b); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// next reads a line.
func (f *reader) next() ([]byte, error) {
	f.line++
	var whole []byte
	for {
		b, err := f.in.ReadSlice('\n')
		if len(whole)+len(b) > MaxLine {
			return nil, fmt.Errorf("is longer than %d bytes, the limit of a line", MaxLine)
		}
		whole = append(whole, b...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(whole)) > 0:
			return whole, nil
		}
		return whole, err
	}
}

func (f *reader) head(b []byte) error {
	var v struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("is no JSON: %w; give a file of `mulligan runs export`", err)
	}
	switch {
	case v.Format != Format:
		return fmt.Errorf("format %.60q is not %q; give a file of `mulligan runs export`", v.Format, Format)
	case v.Version != Version:
		return fmt.Errorf("version %d is unknown here, where it is %d; use the build that wrote the file, or one of its age", v.Version, Version)
	}
	h := &f.out.Head
	if err := strict.Decode(b, h); err != nil {
		return err
	}
	if err := h.Run.Check(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if e := h.Entry; e != nil {
		switch {
		case e.Run != h.Run:
			return fmt.Errorf("entry.run %.100q is not run %.100q", e.Run, h.Run)
		case e.Delete != nil || e.Import != nil || e.From != 0:
			return errors.New("entry has a field that concerns a pool alone: delete, import or from; leave it out")
		case e.Spec != nil:
			if err := e.Spec.Check(); err != nil {
				return fmt.Errorf("entry.spec.%w", err)
			}
		}
	}
	if !h.Whole {
		return errors.New("whole is false: calls of the run had not ended when it was exported; wait for its end and export it again")
	}
	return nil
}

func (f *reader) one(b []byte) error {
	var v struct {
		Call    string          `json:"call"`
		Payload json.RawMessage `json:"payload"`
		End     bool            `json:"end"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("is no JSON: %w", err)
	}
	switch {
	case v.Call != "":
		return f.call(b)
	case v.Payload != nil:
		return f.payload(b)
	case v.End:
		return f.end(b)
	}
	return errors.New("is none of a call, a payload and the end: it has no field call, payload or end")
}

func (f *reader) payload(b []byte) error {
	var p Payload
	if err := strict.Decode(b, &p); err != nil {
		return err
	}
	content := p.content()
	sum := sha256.Sum256(content)
	switch {
	case hex.EncodeToString(sum[:]) != p.Payload.Digest:
		return fmt.Errorf("payload.digest %s is not that of the content; the file was changed", p.Payload.Digest)
	case int64(len(content)) != p.Payload.Size:
		return fmt.Errorf("payload.size %d is not %d, the size of the content", p.Payload.Size, len(content))
	case f.payloads[p.Payload.Digest]:
		return fmt.Errorf("payload.digest %s stands in the file before", p.Payload.Digest)
	}
	f.payloads[p.Payload.Digest] = true
	f.out.Tail.Payloads++
	if f.h.payload == nil {
		return nil
	}
	return f.h.payload(f.line, p, content)
}

func (f *reader) call(b []byte) error {
	var c Call
	if err := strict.Decode(b, &c); err != nil {
		return err
	}
	if err := messages.CheckCallID(c.Call); err != nil {
		return fmt.Errorf("call: %w", err)
	}
	if c.Call <= f.last {
		return fmt.Errorf("call %s stands behind %s, and calls stand in the order of their ids, each once", c.Call, f.last)
	}
	f.last = c.Call
	refs, err := c.check(f.names, f.out.Head.Run)
	if err != nil {
		return fmt.Errorf("call %s: %w", c.Call, err)
	}
	gone := make(map[string]bool, len(c.Missing))
	for _, m := range c.Missing {
		gone[m] = true
	}
	for _, r := range refs {
		if !f.payloads[r.Digest] && !gone["payload "+r.Digest] {
			return fmt.Errorf("call %s: payload %s is referred to and stands neither before this line nor in missing; export the run again", c.Call, r.Digest)
		}
	}
	f.out.Tail.Calls++
	if c.Result == nil {
		f.out.Left++
	}
	if f.h.call == nil {
		return nil
	}
	return f.h.call(f.line, c)
}

// check names the part of a call that cannot be used, and gives the payloads
// that it refers to.
func (c Call) check(names messages.Pool, run messages.Run) (refs []messages.PayloadRef, err error) {
	if c.Result != nil {
		refs = bodyRefs(c.Result.Output)
		if _, err := names.DecodeResult(names.EncodeResult(c.Result.of(run, c.Call))); err != nil {
			return nil, fmt.Errorf("result: %w", err)
		}
	}
	if c.Record != nil {
		r, err := messages.DecodeRecord(c.Record)
		switch {
		case err != nil:
			return nil, fmt.Errorf("record: %w", err)
		case r.Call.Run != run || r.Call.ID != c.Call:
			return nil, errors.New("record: envelope is that of another call")
		case r.State != messages.Ended:
			return nil, fmt.Errorf("record: state %q is not ended, and nothing that goes on is brought in", r.State)
		}
		refs = append(refs, recordRefs(r)...)
	}
	for i, m := range c.Story {
		at, err := m.subject(names, run, c.Call)
		if err == nil {
			_, err = names.Parse(at)
		}
		if err == nil {
			var more []messages.PayloadRef
			more, err = m.refs(run, c.Call)
			refs = append(refs, more...)
		}
		if err != nil {
			return nil, fmt.Errorf("story[%d]: %w", i, err)
		}
	}
	for i, r := range c.Replays {
		err := errors.Join(messages.CheckCallID(r.Call), r.Run.Check())
		if err == nil && r.Original != c.Call {
			err = fmt.Errorf("original %.60q is another call", r.Original)
		}
		if err != nil {
			return nil, fmt.Errorf("replays[%d]: %w", i, err)
		}
	}
	return refs, nil
}

func (f *reader) end(b []byte) error {
	var t Tail
	if err := strict.Decode(b, &t); err != nil {
		return err
	}
	is := f.out.Tail
	switch {
	case t.Calls != is.Calls || t.Calls != f.out.Head.Calls:
		return fmt.Errorf("calls is %d, where the first line says %d and there are %d; the file is not whole", t.Calls, f.out.Head.Calls, is.Calls)
	case t.Payloads != is.Payloads:
		return fmt.Errorf("payloads is %d, and there are %d; the file is not whole", t.Payloads, is.Payloads)
	}
	f.out.Tail = t
	return nil
}
