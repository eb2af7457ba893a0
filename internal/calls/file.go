package calls

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strings"

	"mulligan/internal/format"
	"mulligan/pkg/messages"
)

// File is a file of calls and where its lines stand. It is read-only and may
// be used concurrently.
type File struct {
	Path   string // as given; "-" for what was read from standard input
	Format format.Format
	Size   int64
	Digest string // SHA-256 of the whole, in hexadecimal digits
	Lines  []Line
	// Calls is how many calls there are. Each is known by its index in the file:
	// what a line says of its identity may stand in another line too.
	Calls int
	// Once says that it was read from a stream, which a later run cannot read again.
	Once bool

	// Runs are the names of the runs, in order of appearance; empty stands for
	// the calls without one. Of more than MaxRuns only that they are many is kept.
	Runs     []string
	ManyRuns bool
	// before and after give for each call its neighbours in the same named
	// run, -1 for none. They are filled when the sequence was asked for.
	before, after []int32

	f *os.File // a temporary one if Once
}

// MaxRuns is up to how many runs of a file are told apart for filtering.
const MaxRuns = 32

// ErrFolder says that a path names a folder.
var ErrFolder = errors.New("is a folder; give a file of calls, one JSON object a line")

// Open reads a file once, to find its lines and its digest. What can be read
// only once goes through a temporary file: path "-", which is in, a pipe, a
// device. With sequence it also finds out which calls belong to the same run.
func Open(path string, in io.Reader, f format.Format, sequence bool) (*File, error) {
	c := &File{Path: path, Format: f}
	if err := c.open(in); err != nil {
		return nil, fmt.Errorf("file of calls: %w", err)
	}
	if err := c.index(sequence); err != nil {
		_ = c.Close() // nothing was written
		return nil, fmt.Errorf("file of calls %s: %w", path, err)
	}
	return c, nil
}

func (c *File) open(in io.Reader) error {
	var err error
	if c.Path == "-" {
		c.Once = true
		c.f, err = spool(in)
		return err
	}
	f, err := os.Open(c.Path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s %w", c.Path, ErrFolder)
	case info.Mode().IsRegular() && !descriptor(c.Path):
		c.f = f
		return nil
	default:
		c.Once = true
		c.f, err = spool(f)
	}
	_ = f.Close() // nothing was written
	return err
}

// descriptor: the name stands for what this process was given, and for another
// file in the next.
func descriptor(path string) bool {
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// Is says whether the path names this file, by whatever way.
func (c *File) Is(path string) bool {
	if c.Path == "-" {
		return false
	}
	theirs, err := os.Stat(path)
	if err != nil {
		return false
	}
	ours, err := os.Stat(c.Path)
	return err == nil && os.SameFile(ours, theirs)
}

func spool(in io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "mulligan-calls-")
	if err != nil {
		return nil, err
	}
	if _, err = io.Copy(f, in); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close() // the error is told; the file goes
		_ = os.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// Close closes the file, and removes it if it was a temporary one.
func (c *File) Close() error {
	err := c.f.Close()
	if c.Once {
		if rerr := os.Remove(c.f.Name()); err == nil {
			err = rerr
		}
	}
	return err
}

func (c *File) index(sequence bool) error {
	sum := sha256.New()
	counted := &counter{w: sum}
	last := make(map[string]int32)
	err := scan(io.TeeReader(c.f, counted), func(l Line, line []byte) error {
		var n int
		if n, l.Own = format.Count(line, c.Format); c.Calls+n > math.MaxInt32 {
			return fmt.Errorf("more than %d calls; split the file", math.MaxInt32)
		}
		l.First = int32(c.Calls)
		c.Lines = append(c.Lines, l)
		run := ""
		if l.Own && (sequence || !c.ManyRuns) {
			run = runOf(line)
		}
		for range n {
			c.addCall(run, sequence, last)
		}
		return nil
	})
	c.Size, c.Digest = counted.n, hex.EncodeToString(sum.Sum(nil))
	return err
}

func (c *File) addCall(run string, sequence bool, last map[string]int32) {
	c.Calls++
	if sequence {
		c.before, c.after = append(c.before, -1), append(c.after, -1)
	}
	if sequence || !c.ManyRuns {
		c.noteRun(run, sequence, last)
	}
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.w.Write(b)
}

func (c *File) noteRun(run string, sequence bool, last map[string]int32) {
	i := int32(c.Calls - 1)
	before, known := last[run]
	if sequence && run != "" && known {
		c.after[before], c.before[i] = i, before
	}
	if !known && !c.ManyRuns {
		c.Runs = append(c.Runs, run)
		if len(c.Runs) > MaxRuns {
			c.Runs, c.ManyRuns = nil, true
		}
	}
	if sequence || !c.ManyRuns {
		last[run] = i
	}
}

// runOf gives the run that a line names. Lines that cannot name one are not
// parsed, which is most of what this pass would cost.
func runOf(line []byte) string {
	if !bytes.Contains(line, []byte(`"run"`)) && !bytes.Contains(line, []byte(`\u`)) {
		return ""
	}
	call, _ := format.Parse(line) // told when the line is submitted
	return call.Run
}

// LineOf is the index of the line that holds a call.
func (c *File) LineOf(call int) int {
	return sort.Search(len(c.Lines), func(i int) bool { return int(c.Lines[i].First) > call }) - 1
}

// Span is which calls a line holds: from the first to the one before the end.
func (c *File) Span(line int) (first, end int) {
	end = c.Calls
	if line+1 < len(c.Lines) {
		end = int(c.Lines[line+1].First)
	}
	return int(c.Lines[line].First), end
}

// size is about how many bytes of the file a call takes.
func (c *File) size(call int) int {
	line := c.LineOf(call)
	first, end := c.Span(line)
	return int(c.Lines[line].Length) / (end - first)
}

// reader reads calls of a file. Calls of one line that are read one after
// another cost one reading of it. Nobody else may use it meanwhile.
type reader struct {
	file *File
	at   int // the line that was read
	line format.Line
	read bool
}

// call reads a call. An error is a [*LineError], or that of reading the file.
func (r *reader) call(i int) (messages.Submission, error) {
	n := r.file.LineOf(i)
	if !r.read || r.at != n {
		line, err := r.file.line(n)
		if err != nil {
			return messages.Submission{}, err
		}
		r.at, r.line, r.read = n, line, true
	}
	l := r.file.Lines[n]
	c := r.line.Calls[i-int(l.First)]
	if c.Err != nil {
		return c.Submission, &LineError{int(l.Number), c.Err}
	}
	return c.Submission, nil
}

// line reads a line again. An error is that of a line that is too long, or of
// reading the file.
func (c *File) line(n int) (format.Line, error) {
	l := c.Lines[n]
	if l.Length == tooLong {
		return format.Line{}, &LineError{int(l.Number), fmt.Errorf(
			"is longer than %d bytes, the limit of a line; inputs are at most %d bytes long", MaxLine, messages.MaxPayload)}
	}
	text := make([]byte, l.Length)
	if _, err := c.f.ReadAt(text, l.Offset); err != nil {
		return format.Line{}, fmt.Errorf("file of calls %s, line %d: %w", c.Path, l.Number, err)
	}
	line := format.Read(text, c.Format)
	if first, end := c.Span(n); len(line.Calls) != end-first {
		return line, fmt.Errorf("file of calls %s has changed while it was read: line %d holds %d calls now", c.Path, l.Number, len(line.Calls))
	}
	return line, nil
}
