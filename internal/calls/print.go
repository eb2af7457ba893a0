package calls

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"mulligan/internal/format"
)

// print writes lines as their turn comes, flushing when there is none. A slow
// reader of the output holds up nothing but itself.
func (e *engine) print(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var buf []byte
	for {
		line, more := e.turn(ctx, out.Buffered() == 0)
		if !more {
			if err := out.Flush(); err != nil {
				return fmt.Errorf("write results: %w", err)
			}
			return context.Cause(ctx)
		}
		if line < 0 {
			if err := out.Flush(); err != nil {
				return fmt.Errorf("write results: %w", err)
			}
			continue
		}
		var err error
		if buf, err = e.text(line, buf); err != nil {
			return err
		}
		if _, err = out.Write(append(buf, '\n')); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
}

// text is what is printed for a line whose calls have ended: the result that
// the journal holds, or the answers in the format of the line, which is read
// again for it.
func (e *engine) text(n int, buf []byte) ([]byte, error) {
	first, end := e.file.Span(n)
	if e.file.Lines[n].Own {
		return e.journal.line(e.spans[first], buf)
	}
	line, err := e.file.line(n)
	if err != nil {
		return nil, err
	}
	answers := make([]format.Answer, 0, end-first)
	for _, s := range e.spans[first:end] {
		if buf, err = e.journal.line(s, buf); err != nil {
			return nil, err
		}
		var r Result
		if err := json.Unmarshal(buf, &r); err != nil {
			return nil, fmt.Errorf("read journal %s: %w", e.journal.Path(), err)
		}
		answers = append(answers, r.Answer())
	}
	return line.Reply(answers)
}

// turn gives the next line to write. With wait it waits for one, without it
// gives -1 where there is none yet. more is false after the last, and when
// ctx is done.
func (e *engine) turn(ctx context.Context, wait bool) (line int, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		if e.printed == len(e.file.Lines) || ctx.Err() != nil {
			return -1, false
		}
		if i, ok := e.nextLine(); ok {
			e.printed++
			if e.o.Pace != nil {
				e.changed.Broadcast()
			}
			return int(i), true
		}
		if !wait {
			return -1, true
		}
		e.changed.Wait()
	}
}

// lineReady says whether nextLine has one.
func (e *engine) lineReady() bool {
	if e.o.Order == OrderInput {
		return e.printed < len(e.file.Lines) && e.lineEnded(int32(e.printed))
	}
	return len(e.queue) > 0
}

func (e *engine) nextLine() (int32, bool) {
	if e.o.Order == OrderInput {
		i := int32(e.printed)
		return i, e.lineEnded(i)
	}
	if len(e.queue) == 0 {
		return 0, false
	}
	i := e.queue[0]
	e.queue = e.queue[1:]
	return i, true
}
