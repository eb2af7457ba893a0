package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"

	"mulligan/internal/calls"
	"mulligan/internal/format"
	"mulligan/pkg/messages"
)

// window is how many lines of a batch may be under way and not written: it
// bounds memory, whatever the length of the batch.
const window = 2048

// answered is a line of a batch with its answer. Lines count from 0.
type answered struct {
	n    int
	text []byte
	err  error
}

// stream runs the lines, so many at a time, and writes their answers in order,
// or as they are there.
func (b *batch) stream(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	b.x.Header().Set("Content-Type", typeLines)
	b.x.WriteHeader(http.StatusOK)
	out := make(chan answered, b.places()+1) // never blocks: no more lines have a place
	places := make(chan struct{}, b.places())
	go b.feed(ctx, places, out)
	p := &printer{batch: b, held: make(map[int][]byte), places: places}
	var first error
	for a := range out {
		if first == nil {
			first = p.print(a)
		}
		if first == nil && len(out) == 0 {
			first = b.x.flush()
		}
		if first != nil {
			stop(first)
		}
	}
	if first == nil {
		return nil
	}
	return b.broken(ctx, first, p.wrote)
}

// printer writes answers in their order.
type printer struct {
	*batch
	wrote  int
	held   map[int][]byte // that have to wait for one before them
	places <-chan struct{}
}

func (p *printer) print(a answered) error {
	if a.err != nil {
		return a.err
	}
	if p.order == calls.OrderDone {
		a.n = p.wrote // it is its turn
	}
	for p.held[a.n] = a.text; p.held[p.wrote] != nil; p.wrote++ {
		if _, err := p.x.Write(p.held[p.wrote]); err != nil {
			return err
		}
		delete(p.held, p.wrote)
		<-p.places
	}
	return nil
}

// feed reads the lines and runs them, for as long as there are places. When all
// are submitted the run that the batch declared is closed.
func (b *batch) feed(ctx context.Context, places chan<- struct{}, out chan<- answered) {
	var running, begun sync.WaitGroup
	var failed atomic.Bool
	next := &group{batch: b}
	start := func() {
		if g := next; len(g.lines) > 0 {
			begun.Add(1)
			running.Go(func() {
				list, err := g.submit(ctx)
				if err != nil {
					failed.Store(true)
				}
				begun.Done()
				g.run(ctx, list, err, out)
			})
			next = &group{batch: b, n: g.n + len(g.lines), first: g.first + len(g.calls)}
		}
	}
	err := eachLine(b.file, func(_ int, raw []byte) error {
		line := format.Read(bytes.Clone(raw), b.format)
		if len(next.calls)+len(line.Calls) > messages.MaxChunkCalls {
			start()
		}
		select {
		case places <- struct{}{}:
		default:
			start()
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		next.lines, next.calls = append(next.lines, line), append(next.calls, line.Calls...)
		return nil
	})
	start()
	begun.Wait()
	if err == nil && !failed.Load() {
		err = b.close()
	}
	running.Wait()
	if err != nil {
		out <- answered{err: err}
	}
	close(out)
}

// submit begins the calls, and notes those that were accepted.
func (g *group) submit(ctx context.Context) ([]*going, error) {
	list, err := g.begin(ctx, g.first, g.calls)
	for _, p := range list {
		if p.pending != nil && !p.pending.Refused() {
			g.took(p.pending.Run)
		}
	}
	return list, err
}

// group is lines that are submitted together: those from line n on, with the
// calls from index first on.
type group struct {
	*batch
	n, first int
	lines    []format.Line
	calls    []format.Call
}

// run gives each line its answer as soon as its calls, which were begun or
// could not be, have ended.
func (g *group) run(ctx context.Context, list []*going, err error, out chan<- answered) {
	if err != nil {
		out <- answered{g.n, nil, err}
		return
	}
	defer closeAll(list)
	var running sync.WaitGroup
	for i, line := range g.lines {
		own := list[:len(line.Calls)]
		list = list[len(line.Calls):]
		running.Go(func() {
			text, err := g.answer(ctx, line, own)
			out <- answered{g.n + i, text, err}
		})
	}
	running.Wait()
}

// answer waits for the calls of a line, and gives the line that answers it.
func (b *batch) answer(ctx context.Context, line format.Line, list []*going) ([]byte, error) {
	answers := make([]format.Answer, len(list))
	var text []byte
	for i, p := range list {
		l, err := b.wait(ctx, p)
		if err != nil {
			return nil, err
		}
		answers[i] = l.Answer()
		if line.Format == format.Mulligan {
			text, err = l.Line()
		}
		if err != nil {
			return nil, err
		}
	}
	var err error
	if line.Format != format.Mulligan {
		text, err = line.Reply(answers)
	}
	return append(text, '\n'), err
}

// broken ends the answer to a batch before it is whole: its last line is a
// problem, since the status is sent.
func (b *batch) broken(ctx context.Context, err error, wrote int) error {
	p := problemOf(err)
	if cameBack(ctx, err) {
		p = fail(http.StatusGatewayTimeout, codeNotFinished, "%d lines are answered, and the wait is over; what was submitted goes on. The same request with the same Idempotency-Key gives all of them, and runs nothing twice", wrote)
		err = p
	}
	p.complete(b.x.id)
	if text, merr := json.Marshal(p); merr == nil {
		_, _ = b.x.Write(append(text, '\n')) // whoever asked may be gone
	}
	return err
}
