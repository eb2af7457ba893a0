package calls

import (
	"bufio"
	"errors"
	"io"
)

// lines reads whole lines of any length, and knows where it stands.
type lines struct {
	in  *bufio.Reader
	buf []byte
	at  int64 // after the last whole line
}

func newLines(r io.Reader) *lines { return &lines{in: bufio.NewReaderSize(r, 64<<10)} }

// next gives the next line without its end; io.EOF also for one that has none.
func (l *lines) next() ([]byte, error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		l.buf = append(l.buf, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l.at += int64(len(l.buf))
		return l.buf[:len(l.buf)-1], nil
	}
}
