package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"mulligan/internal/calls"
	"mulligan/internal/format"
	"mulligan/pkg/messages"
)

const paramOrder = "order"

// postBatch runs the calls of JSON lines, and answers each line by one.
func (x *exchange) postBatch() error {
	if err := x.parameters("wait", paramOrder, paramFormat, paramRun, paramLane, paramSpec); err != nil {
		return err
	}
	want, err := x.wish(x.g.cfg.Limits.Wait)
	if err != nil {
		return err
	}
	f, err := x.format()
	if err != nil {
		return err
	}
	order := calls.Order(x.r.URL.Query().Get(paramOrder))
	switch order {
	case "", calls.OrderInput, calls.OrderDone:
	default:
		return fail(http.StatusBadRequest, codeBadParameter, "order is neither input nor done").about(paramOrder, string(order))
	}
	spec, err := x.batchSpec(want.async)
	if err != nil {
		return err
	}
	file, err := x.spool()
	if err != nil {
		return err
	}
	defer file.Close()
	w, n, err := x.begun(file, f)
	if err != nil {
		return err
	}
	b := &batch{work: w, batchRun: &batchRun{spec: spec}, file: file, format: f, order: order}
	if err := b.declare(n); err != nil {
		return err
	}
	if want.async {
		return b.leave()
	}
	ctx, stop := x.waiting(want.wait)
	defer stop()
	return b.stream(ctx)
}

// begun counts the calls of a file, and takes it in under its identity. What
// is wrong with the request as a whole is told before anything runs.
func (x *exchange) begun(file *os.File, f format.Format) (w *work, n int, err error) {
	err = eachLine(file, func(_ int, line []byte) error {
		c, _ := format.Count(line, f)
		if n += c; n > x.who.Calls {
			return fail(http.StatusRequestEntityTooLarge, codeTooManyCalls, "the batch holds more than %d calls, which this token may make in one request; send it in parts", x.who.Calls)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, 0, err
	}
	means := []string{paramFormat, paramRun, paramLane}
	if x.r.URL.Query().Has(paramSpec) {
		means = append(means, paramSpec)
	}
	sum, err := x.digest(bufio.NewReader(file), means...)
	if err != nil {
		return nil, 0, err
	}
	id, err := x.identity(sum)
	if err != nil {
		return nil, 0, err
	}
	w, err = x.work(id)
	return w, n, err
}

// spool keeps the body in a temporary file, which has no name any more: nothing
// of a batch runs before it is there as a whole.
func (x *exchange) spool() (*os.File, error) {
	if err := x.accepts(typeLines, "application/x-ndjson", "application/x-jsonlines", typeJSON); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "mulligan-batch-")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err == nil {
		err = x.take(kept{f}, x.g.cfg.Limits.Batch)
	}
	if err != nil {
		_ = f.Close() // it is gone with this
		return nil, err
	}
	return f, nil
}

// kept marks the errors of the file.
type kept struct{ f *os.File }

func (k kept) Write(b []byte) (int, error) {
	n, err := k.f.Write(b)
	if err != nil {
		err = &writeError{fmt.Errorf("keep the batch: %w", err)}
	}
	return n, err
}

// eachLine hands over the lines that are not empty, from the beginning.
func eachLine(file *os.File, fn func(number int, line []byte) error) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewScanner(file)
	in.Buffer(make([]byte, 64<<10), calls.MaxLine)
	number := 0
	for in.Scan() {
		number++
		line := bytes.TrimRight(in.Bytes(), " \t\r")
		if len(line) == 0 {
			continue
		}
		if err := fn(number, line); err != nil {
			return err
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fail(http.StatusRequestEntityTooLarge, messages.CodeTooLarge, "line %d is longer than %d bytes", number+1, calls.MaxLine)
	}
	return in.Err()
}

// batch is a file of calls on its way.
type batch struct {
	*work
	*batchRun
	file   *os.File
	format format.Format
	order  calls.Order
}

// left is a batch that nobody waits for: all that is accepted, and the lines of
// what is not.
type left struct {
	Run      string         `json:"run"` // of the calls that name none, as it stands in paths
	Location string         `json:"location"`
	Accepted int            `json:"accepted"`
	Refused  []calls.Result `json:"refused"`
}

// leave submits everything and does not wait for results.
func (b *batch) leave() error {
	run := b.batch.Run(b.work.run)
	l := left{Run: string(run), Location: runLocation(run) + "/results", Refused: []calls.Result{}}
	var chunk []messages.Submission
	send := func() error {
		submit := b.batch.Submit
		if b.id.keyed {
			submit = b.batch.Resubmit
		}
		refused, err := submit(b.x.ctx(), chunk)
		if err != nil {
			return err
		}
		byID := make(map[string]messages.Submission, len(chunk))
		for _, s := range chunk {
			byID[s.Call] = s
		}
		for _, r := range refused {
			l.Refused = append(l.Refused, calls.NotAccepted(byID[r.Call], r.Code, r.Text))
		}
		for _, r := range refused {
			delete(byID, r.Call)
		}
		for _, s := range byID {
			b.took(b.batch.Run(s.Run))
		}
		l.Accepted += len(byID)
		chunk = chunk[:0]
		return nil
	}
	index := 0
	err := eachLine(b.file, func(_ int, raw []byte) error {
		for _, c := range format.Read(bytes.Clone(raw), b.format).Calls {
			s, line, err := b.submission(b.x.ctx(), index, c)
			index++
			switch {
			case err != nil:
				return err
			case line != nil:
				l.Refused = append(l.Refused, *line)
				continue
			}
			chunk = append(chunk, s)
		}
		if len(chunk) < chunks*messages.MaxChunkCalls {
			return nil
		}
		return send()
	})
	if err == nil {
		err = send()
	}
	if err == nil {
		err = b.close()
	}
	if err != nil {
		return err
	}
	b.x.Header().Set("Location", l.Location)
	return b.x.json(http.StatusAccepted, l)
}

// chunks is how many requests of the service are sent side by side.
const chunks = 4
