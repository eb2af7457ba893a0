package store

import (
	"errors"
	"fmt"
	"iter"
	"sync"

	"mulligan/examples/shop/pyval"
)

// ErrTooManyRuns says that a run is unknown and no further one can be held.
var ErrTooManyRuns = errors.New("too many runs")

// Runs holds the overlays of all runs over one database. It is safe for
// concurrent use.
//
// Runs are never evicted: an evicted run would silently start afresh, and a
// repeated order would look like a first one. What the memory holds is bounded
// instead by refusing runs beyond the limit.
type Runs struct {
	base  *Database
	limit int

	mu   sync.Mutex
	runs map[string]*Run
}

// NewRuns returns an empty set of at most limit runs over base.
func NewRuns(base *Database, limit int) *Runs {
	return &Runs{base: base, limit: limit, runs: make(map[string]*Run)}
}

// Open returns the run of that id, a fresh one if the id is new. Its error is
// [ErrTooManyRuns].
func (r *Runs) Open(id string) (*Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run, ok := r.runs[id]; ok {
		return run, nil
	}
	if len(r.runs) >= r.limit {
		return nil, fmt.Errorf("%w: %d are held, which is the limit; raise it or start the shop anew", ErrTooManyRuns, r.limit)
	}
	run := &Run{base: r.base, changed: make(overlay)}
	r.runs[id] = run
	return run, nil
}

// overlay holds changed and added records, by table and id.
type overlay map[Table]*pyval.Dict

func (o overlay) get(table Table, id string) (*pyval.Dict, bool) {
	records, ok := o[table]
	if !ok {
		return nil, false
	}
	v, ok := records.Get(id)
	if !ok {
		return nil, false
	}
	return v.(*pyval.Dict), true
}

func (o overlay) put(table Table, id string, record *pyval.Dict) {
	if o[table] == nil {
		o[table] = &pyval.Dict{}
	}
	o[table].Set(id, record)
}

// Run is the state of one run. It is safe for concurrent use: what is done in
// one run is done one after the other.
type Run struct {
	base *Database

	mu      sync.Mutex
	changed overlay
}

// Do calls f with a transaction. If f returns nil its changes are kept, else
// none is, and the error is returned. f must not call Do of the same run, nor
// keep the transaction.
func (r *Run) Do(f func(*Tx) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	tx := &Tx{run: r, changed: make(overlay)}
	if err := f(tx); err != nil {
		return err
	}
	for table, records := range tx.changed {
		for id, record := range records.All() {
			r.changed.put(table, id, record.(*pyval.Dict))
		}
	}
	return nil
}

// Tx is one transaction of a run. It must not be used concurrently.
type Tx struct {
	run     *Run
	changed overlay
}

// Get returns a record for reading. The caller must not change it.
func (t *Tx) Get(table Table, id string) (*pyval.Dict, bool) {
	if record, ok := t.changed.get(table, id); ok {
		return record, true
	}
	if record, ok := t.run.changed.get(table, id); ok {
		return record, true
	}
	v, ok := t.run.base.tables[table].Get(id)
	if !ok {
		return nil, false
	}
	return v.(*pyval.Dict), true
}

// Edit returns a record of the transaction's own, to be changed in place. What
// Get returned before for the same id is stale afterwards.
func (t *Tx) Edit(table Table, id string) (*pyval.Dict, bool) {
	if record, ok := t.changed.get(table, id); ok {
		return record, true
	}
	record, ok := t.Get(table, id)
	if !ok {
		return nil, false
	}
	own := record.Clone()
	t.changed.put(table, id, own)
	return own, true
}

// Put adds a record, or replaces the one of that id. The transaction takes it
// over.
func (t *Tx) Put(table Table, id string, record *pyval.Dict) {
	t.changed.put(table, id, record)
}

// All yields the records of a table for reading: those of the database in its
// order, then those that the run added, in theirs.
func (t *Tx) All(table Table) iter.Seq2[string, *pyval.Dict] {
	return func(yield func(string, *pyval.Dict) bool) {
		base := t.run.base.tables[table]
		for id := range base.All() {
			record, _ := t.Get(table, id)
			if !yield(id, record) {
				return
			}
		}
		t.allAdded(table, base, yield)
	}
}

func (t *Tx) allAdded(table Table, base *pyval.Dict, yield func(string, *pyval.Dict) bool) {
	seen := make(map[string]bool)
	for _, o := range []overlay{t.run.changed, t.changed} {
		records, ok := o[table]
		if !ok {
			continue
		}
		for id := range records.All() {
			if _, known := base.Get(id); known || seen[id] {
				continue
			}
			seen[id] = true
			record, _ := t.Get(table, id)
			if !yield(id, record) {
				return
			}
		}
	}
}
