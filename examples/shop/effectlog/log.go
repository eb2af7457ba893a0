// Package effectlog keeps the shop's witness: a file with one JSON line for
// each change that a tool made. Nothing else in the shop can tell whether a
// call took effect once or twice, since its own answers may have been lost.
//
// A line is written in one piece, before the answer is given, and not synced:
// it survives the death of the process, not that of the machine.
package effectlog

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"mulligan/examples/shop/tools"
)

// Effect is one line of the log.
type Effect struct {
	Run  string `json:"run"`
	Call string `json:"call"`
	// Key is the idempotency key of the request, empty if it had none.
	Key  string `json:"key"`
	Tool string `json:"tool"`
	// Seq counts the effects of the file, from 1.
	Seq int64 `json:"seq"`
	// InputDigest is the SHA-256 of the arguments as they came, in hex.
	InputDigest string    `json:"input_sha256"`
	Time        time.Time `json:"time"`
}

// Log appends effects to a file. It is safe for concurrent use.
type Log struct {
	now func() time.Time

	mu   sync.Mutex
	file *os.File
	seq  int64
	// torn says that the file does not end with a line end.
	torn bool
}

var _ tools.Witness = (*Log)(nil)

// Open opens the log at path for appending, and creates it if it is not there.
// What it holds stays; the count goes on after it. now gives the times.
func Open(path string, now func() time.Time) (*Log, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("effect log: %w", err)
	}
	record, err := read(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("effect log %s: %w", path, err), file.Close())
	}
	l := &Log{now: now, file: file, torn: record.unended}
	for _, e := range record.Effects {
		l.seq = max(l.seq, e.Seq)
	}
	return l, nil
}

// Committed appends the effect of a commit.
func (l *Log) Committed(c tools.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	digest := sha256.Sum256(c.Input)
	line, err := json.Marshal(Effect{
		Run: c.Run, Call: c.Call, Key: c.Key, Tool: c.Tool,
		Seq:         l.seq + 1,
		InputDigest: hex.EncodeToString(digest[:]),
		Time:        l.now().UTC(),
	})
	if err != nil {
		return fmt.Errorf("effect log: %w", err)
	}
	line = append(line, '\n')
	if l.torn {
		// A line that was cut off must not swallow this one.
		line = append([]byte{'\n'}, line...)
	}
	if n, err := l.file.Write(line); err != nil {
		l.torn = l.torn || n > 0
		return fmt.Errorf("effect log: %w", err)
	}
	l.torn = false
	l.seq++
	return nil
}

// Close closes the file. Further commits fail.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// CallID names a call of a run.
type CallID struct {
	Run  string `json:"run"`
	Call string `json:"call"`
}

// Record is what a log holds.
type Record struct {
	// Effects stand in the order they took place.
	Effects []Effect
	// Torn counts the lines that are no effect: cut off when a process died or
	// a disk was full. Such a change did not take place.
	Torn int

	unended bool
}

// ReadFile reads a log, which may be growing meanwhile.
func ReadFile(path string) (Record, error) {
	file, err := os.Open(path)
	if err != nil {
		return Record{}, fmt.Errorf("effect log: %w", err)
	}
	// Nothing was written, so closing has nothing to lose.
	defer file.Close()
	record, err := read(file)
	if err != nil {
		return Record{}, fmt.Errorf("effect log %s: %w", path, err)
	}
	return record, nil
}

func read(r io.Reader) (Record, error) {
	var record Record
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return Record{}, err
		}
		ended := err == nil
		if len(line) > 0 {
			record.unended = !ended
			record.add(line, ended)
		}
		if !ended {
			return record, nil
		}
	}
}

func (r *Record) add(line []byte, ended bool) {
	if len(line) == 1 && ended {
		return
	}
	var e Effect
	if !ended || json.Unmarshal(line, &e) != nil || e.Seq == 0 {
		r.Torn++
		return
	}
	r.Effects = append(r.Effects, e)
}

// PerCall counts the effects of each call that has any.
func (r Record) PerCall() map[CallID]int {
	counts := make(map[CallID]int)
	for _, e := range r.Effects {
		counts[CallID{e.Run, e.Call}]++
	}
	return counts
}

// Repeated returns the calls that took effect more than once, in the order of
// their first repetition.
func (r Record) Repeated() []CallID {
	var repeated []CallID
	counts := make(map[CallID]int)
	for _, e := range r.Effects {
		id := CallID{e.Run, e.Call}
		if counts[id]++; counts[id] == 2 {
			repeated = append(repeated, id)
		}
	}
	return repeated
}
