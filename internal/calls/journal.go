package calls

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"mulligan/internal/format"
	"mulligan/internal/runstate"
	"mulligan/pkg/messages"
)

// ErrBusy says that another process works with the journal.
var ErrBusy = errors.New("in use")

const journalVersion = 1

// Header is the first line of a journal.
type Header struct {
	Version int    `json:"mulligan_journal"`
	File    string `json:"file"`
	Size    int64  `json:"size"`
	Digest  string `json:"sha256"`
	Calls   int    `json:"calls"`
	Batch   string `json:"batch"` // names the run of the calls without one
	Pool    string `json:"pool"`
	Where   string `json:"where"` // the pool, for messages
	From    uint64 `json:"from"`  // in RESULTS, read before the first submission
	// Sequence says that the calls of a run were submitted one after another.
	Sequence bool `json:"sequence,omitempty"`
	// Run is that of the calls which name none, empty for the batch's own.
	Run string `json:"run,omitempty"`
	// Format is that of the file, empty for [format.Auto]: it says which calls there are.
	Format  format.Format `json:"format,omitempty"`
	Created time.Time     `json:"created"`
}

// record is any later line; one of its fields is set.
type record struct {
	Session  int             `json:"session,omitempty"` // a run began to work with this journal, from 1
	Sent     []sent          `json:"sent,omitempty"`    // about to be submitted
	Accepted []int32         `json:"accepted,omitempty"`
	Done     *int32          `json:"done,omitempty"` // Result is the line's
	Result   json.RawMessage `json:"result,omitempty"`
}

// sent binds an entry of the file to the id that it was submitted with.
type sent struct {
	Entry int32  `json:"i"`
	Call  string `json:"call"`
}

// Journal is the append-only file beside a file of calls. It holds what was
// submitted under which id and how it ended, so that a later run goes on where
// an earlier one stopped, however that was. Methods may be called concurrently.
type Journal struct {
	Header
	path string
	temp bool
	lock *flock.Flock

	loaded bool // it was read to its end, so that it may be removed when it holds nothing

	mu   sync.Mutex
	f    *os.File
	size int64 // where the next line goes; guarded by mu

	past past // of earlier sessions
}

// past is what a journal says about the calls, by their entries. It keeps few
// bytes of each, since a file may hold millions.
type past struct {
	session  int
	ids      []runstate.ID // the zero one of what was not submitted
	accepted []bool
	done     []span // of length 0 for what has not ended
	ended    int
}

// call is the id that an entry was submitted with.
func (p *past) call(i int32) (string, bool) {
	if int(i) >= len(p.ids) || p.ids[i] == (runstate.ID{}) {
		return "", false
	}
	return p.ids[i].String(), true
}

func (p *past) isAccepted(i int32) bool { return int(i) < len(p.accepted) && p.accepted[i] }

// result is where the line of an entry that has ended stands.
func (p *past) result(i int32) (span, bool) {
	if int(i) >= len(p.done) || p.done[i].length == 0 {
		return span{}, false
	}
	return p.done[i], true
}

// forAll makes room for all calls of a file at once: a list that grew would leave
// as much behind.
func forAll[T any](list []T, calls int) []T {
	if list == nil {
		return make([]T, calls)
	}
	return list
}

// span is where in the journal the line of a result stands.
type span struct {
	offset int64
	length int32
	status byte // index in statuses
	again  bool // the result counts as recovered when it is a success
}

// JournalPath is where the journal of a file stands unless said otherwise.
func JournalPath(file string) string { return file + ".journal" }

// OpenJournal opens or creates the journal of a file; fresh means from the
// start, whatever an earlier one says. It refuses a journal of a file with
// other content, since its lines would be taken for those of an earlier
// version, and it neither empties nor removes a file that is no journal.
func OpenJournal(path string, file *File, fresh bool) (*Journal, error) {
	if file.Is(path) {
		return nil, fmt.Errorf("journal %s is the file of calls itself; give another file with --journal", path)
	}
	j := &Journal{path: path, lock: flock.New(lockPath(path))}
	ok, err := j.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w; keep it elsewhere with --journal FILE, or run without with --no-journal", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("journal %s is %w: another run works on this file; wait for it, or end it", path, ErrBusy)
	}
	if err := j.open(file, fresh); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// TempJournal makes a journal that is removed when it is closed.
func TempJournal(file *File) (*Journal, error) {
	f, err := os.CreateTemp("", "mulligan-journal-")
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{path: f.Name(), temp: true, f: f}
	j.begin(file)
	return j, nil
}

// On Windows a lock keeps its holder's other handles out too, so it needs a
// file of its own there.
func lockPath(path string) string {
	if runtime.GOOS == "windows" {
		return path + ".lock"
	}
	return path
}

func (j *Journal) open(file *File, fresh bool) error {
	var err error
	if j.f, err = os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := j.recognise(); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	if fresh {
		if err := j.f.Truncate(0); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	if err := j.load(file); err != nil {
		return fmt.Errorf("journal %s: %w; begin anew with --restart, which runs every call again", j.path, err)
	}
	j.loaded = true
	if j.Version == 0 {
		j.begin(file)
		return nil
	}
	if was, is := orAuto(j.Format), orAuto(file.Format); was != is {
		return fmt.Errorf("journal %s was begun with --format %s, and with %s there may be other calls: go on with --format %s, "+
			"or begin anew with --restart, which runs every call again", j.path, was, is, was)
	}
	if j.Digest != file.Digest || j.Size != file.Size || j.Calls != file.Calls {
		return fmt.Errorf(
			"%s has changed since its journal %s was begun on %s (%d bytes then, %d now): "+
				"its lines may not be those whose calls were submitted. Restore the file to go on, and give calls that are new or mended in a file of their own; "+
				"or begin anew with --restart, which runs every call again",
			file.Path, j.path, j.Created.Local().Format(time.DateTime), j.Size, file.Size)
	}
	return nil
}

func orAuto(f format.Format) format.Format {
	if f == "" {
		return format.Auto
	}
	return f
}

// mark begins every journal: the first field of [Header].
const mark = `{"mulligan_journal":`

// recognise refuses what is neither a journal, nor the beginning of one, nor
// empty: it is somebody's file.
func (j *Journal) recognise() error {
	head := make([]byte, len(mark))
	n, err := j.f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !strings.HasPrefix(mark, string(head[:n])) {
		return errors.New("is not a journal but another file, which stays as it is; give another one with --journal")
	}
	return nil
}

func (j *Journal) begin(file *File) {
	j.Header = Header{Version: journalVersion, File: filepath.Base(file.Path), Size: file.Size, Digest: file.Digest, Calls: file.Calls}
	if file.Format != format.Auto {
		j.Format = file.Format
	}
	j.past = past{}
}

// Fresh says that nothing was submitted under this journal yet.
func (j *Journal) Fresh() bool { return j.Created.IsZero() }

// Complete says that every call has its result in the journal.
func (j *Journal) Complete() bool { return !j.Fresh() && j.past.ended == j.Calls }

// Path is where the journal stands.
func (j *Journal) Path() string { return j.path }

// start writes the header of a fresh journal, and that a session begins.
func (j *Journal) start(h Header) error {
	if j.Fresh() {
		j.Batch, j.Pool, j.Where, j.From, j.Sequence, j.Run, j.Created = h.Batch, h.Pool, h.Where, h.From, h.Sequence, h.Run, h.Created.UTC()
		if err := j.write(j.Header); err != nil {
			return err
		}
	}
	j.past.session++
	err := j.write(record{Session: j.past.session})
	return errors.Join(err, j.sync())
}

// sent is called before the calls are submitted, and is durable when it returns.
func (j *Journal) sent(batch []sent) error {
	if err := j.write(record{Sent: batch}); err != nil {
		return err
	}
	return j.sync()
}

func (j *Journal) accepted(entries []int32) error {
	err := j.write(record{Accepted: entries})
	return err
}

// done keeps the line of a result. It survives the end of this process at
// once, and that of the machine from the next submission on; what is lost then
// is read from the pool again.
func (j *Journal) done(entry int32, r Result) (span, error) {
	line, err := r.Line()
	if err != nil {
		return span{}, err
	}
	head := doneHead(entry)
	at, err := j.append(append(append(head, line...), '}', '\n'))
	if err != nil {
		return span{}, err
	}
	return span{offset: at + int64(len(head)), length: int32(len(line)), status: statusIndex(r.Status), again: again(r)}, nil
}

// doneHead begins the line of a result; a brace ends it.
func doneHead(entry int32) []byte { return fmt.Appendf(nil, `{"done":%d,"result":`, entry) }

func again(r Result) bool { return r.Attempts > 1 || r.RecoveredBy != "" }

func (j *Journal) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = j.append(append(b, '\n'))
	return err
}

func (j *Journal) append(b []byte) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := j.size
	if _, err := j.f.WriteAt(b, at); err != nil {
		return 0, fmt.Errorf("write journal %s: %w", j.path, err)
	}
	j.size += int64(len(b))
	return at, nil
}

// line reads the result line that stands at s.
func (j *Journal) line(s span, buf []byte) ([]byte, error) {
	buf = append(buf[:0], make([]byte, s.length)...)
	if _, err := j.f.ReadAt(buf, s.offset); err != nil {
		return nil, fmt.Errorf("read journal %s: %w", j.path, err)
	}
	return buf, nil
}

func (j *Journal) sync() error {
	if j.temp {
		return nil
	}
	if err := j.f.Sync(); err != nil {
		return fmt.Errorf("write journal %s: %w", j.path, err)
	}
	return nil
}

// Close makes durable what was written, and lets go of the journal. One that
// holds nothing is removed.
func (j *Journal) Close() error {
	var errs []error
	empty := false
	if j.f != nil {
		errs = append(errs, j.sync())
		empty = j.loaded && j.size == 0
		errs = append(errs, j.f.Close())
	}
	if j.temp || empty {
		errs = append(errs, os.Remove(j.path))
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Unlock())
		if lp := j.lock.Path(); lp != j.path {
			errs = append(errs, os.Remove(lp))
		}
	}
	return errors.Join(errs...)
}

// load reads what is there. A last line without its end was being written when
// its process died: it is cut off.
func (j *Journal) load(file *File) error {
	j.past = past{}
	if _, err := j.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := newLines(j.f)
	for first := true; ; first = false {
		at := in.at
		line, err := in.next()
		if errors.Is(err, io.EOF) {
			return j.f.Truncate(j.size)
		}
		if err != nil {
			return err
		}
		if first {
			if err := json.Unmarshal(line, &j.Header); err != nil || j.Version != journalVersion {
				return errors.New("is not a journal that this version reads")
			}
			if j.Calls != file.Calls { // it will be refused
				return nil
			}
		} else if err := j.past.add(line, at, j.Calls); err != nil {
			return fmt.Errorf("is damaged at byte %d: %w", at, err)
		}
		j.size = in.at
	}
}

// add takes in a line about a file of n calls.
func (p *past) add(line []byte, at int64, n int) error {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	p.session = max(p.session, r.Session)
	for _, s := range r.Sent {
		if err := within(s.Entry, n); err != nil {
			return err
		}
		id := runstate.IDOf(s.Call)
		if id == (runstate.ID{}) {
			return fmt.Errorf("it tells of a call with the id %.60q", s.Call)
		}
		p.ids = forAll(p.ids, n)
		p.ids[s.Entry] = id
	}
	for _, i := range r.Accepted {
		if err := within(i, n); err != nil {
			return err
		}
		p.accepted = forAll(p.accepted, n)
		p.accepted[i] = true
	}
	if r.Done == nil {
		return nil
	}
	if err := within(*r.Done, n); err != nil {
		return err
	}
	var res Result
	if err := json.Unmarshal(r.Result, &res); err != nil {
		return err
	}
	head := doneHead(*r.Done)
	if !bytes.Equal(line, slices.Concat(head, r.Result, []byte{'}'})) {
		return errors.New("a result stands in a line of another form")
	}
	p.done = forAll(p.done, n)
	if p.done[*r.Done].length == 0 {
		p.ended++
	}
	p.done[*r.Done] = span{
		offset: at + int64(len(head)), length: int32(len(r.Result)),
		status: statusIndex(res.Status), again: again(res),
	}
	return nil
}

func within(entry int32, n int) error {
	if entry < 0 || int(entry) >= n {
		return fmt.Errorf("it tells of call %d of a file of %d", entry, n)
	}
	return nil
}

func statuses() []messages.Status { return append(messages.Ends(), messages.Refused) }

func statusIndex(s messages.Status) byte {
	for i, k := range statuses() {
		if k == s {
			return byte(i)
		}
	}
	return byte(len(statuses()) - 1)
}
