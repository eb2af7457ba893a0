package calls

import (
	"errors"
	"fmt"
	"os"

	"mulligan/internal/format"
	"mulligan/pkg/messages"
)

// Inputs are the calls of a file by the ids under which they were submitted, as
// its journal says: where the input of a call stands that a pool does not keep.
// Its methods may be called by one goroutine at a time.
type Inputs struct {
	file    *File
	journal *Journal
	entries map[string]int32
	reader  reader
}

// OpenInputs opens a file of calls with the journal beside it.
func OpenInputs(path string) (*Inputs, error) {
	if _, err := os.Stat(JournalPath(path)); err != nil {
		return nil, fmt.Errorf("%s has no journal, so that nobody knows which of its calls is which: %w", path, err)
	}
	file, err := Open(path, nil, format.Auto, false)
	if err != nil {
		return nil, err
	}
	j, err := OpenJournal(JournalPath(path), file, false)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	in := &Inputs{file: file, journal: j, entries: make(map[string]int32, len(j.past.ids)), reader: reader{file: file}}
	for n := range j.past.ids {
		i := int32(n)
		call, ok := j.past.call(i)
		if !ok {
			continue
		}
		in.entries[call] = i
	}
	return in, nil
}

// Call gives the call with an id; ok is false where the file does not hold it.
func (in *Inputs) Call(id string) (s messages.Submission, ok bool, err error) {
	i, ok := in.entries[id]
	if !ok {
		return s, false, nil
	}
	s, err = in.reader.call(int(i))
	s.Call = id
	return s, err == nil, err
}

// Close lets go of file and journal.
func (in *Inputs) Close() error { return errors.Join(in.file.Close(), in.journal.Close()) }
