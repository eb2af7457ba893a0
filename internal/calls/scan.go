package calls

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the size in bytes of the longest line that is read. It leaves
// room for the largest input, should every byte of it be escaped.
const MaxLine = 32 << 20

// LineError says what is wrong with one line; its siblings are not touched.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// Line is where a line stands in its file, and which calls of the file it
// holds. Empty lines are none.
type Line struct {
	Offset int64
	Length int32 // bytes, without the line end; tooLong for a line above MaxLine
	Number int32 // of the line, from 1
	First  int32 // index of its first call in the file; a line without calls has that of the next one
	Own    bool  // its calls are answered in our own format
}

const tooLong = -1

var byteOrderMark = []byte("\xef\xbb\xbf")

// scan reads lines and hands over each that is not empty; the bytes are valid
// until fn returns, and nil where the line is too long.
func scan(r io.Reader, fn func(Line, []byte) error) error {
	in := bufio.NewReaderSize(r, 256<<10)
	var buf []byte
	var at int64
	for number := int32(1); ; number++ {
		line, n, err := readLine(in, buf[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", number, err)
		}
		e := Line{Offset: at, Length: tooLong, Number: number}
		at += n
		if line != nil {
			buf = line
			if number == 1 && bytes.HasPrefix(line, byteOrderMark) {
				line, e.Offset = line[len(byteOrderMark):], int64(len(byteOrderMark))
			}
			line = bytes.TrimRight(line, " \t\r")
			e.Length = int32(len(line))
		}
		if e.Length != 0 {
			if ferr := fn(e, line); ferr != nil {
				return ferr
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readLine appends a line to buf, without its end, and says how many bytes it
// took in all. It gives nil for a line that is too long, which it reads over.
func readLine(in *bufio.Reader, buf []byte) (line []byte, n int64, err error) {
	long := false
	for {
		part, err := in.ReadSlice('\n')
		n += int64(len(part))
		if long = long || len(buf)+len(part) > MaxLine+1; !long {
			buf = append(buf, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long {
			return nil, n, err
		}
		if buf == nil {
			buf = []byte{}
		}
		return bytes.TrimSuffix(buf, []byte{'\n'}), n, err
	}
}
