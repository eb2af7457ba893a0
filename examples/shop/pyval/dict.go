package pyval

import "iter"

// indexFrom is the number of keys from which a Dict looks keys up in a map;
// below it, a scan is faster and smaller.
const indexFrom = 12

// Dict is an object that keeps its keys in the order they were first set. The
// zero value is empty and ready.
type Dict struct {
	entries []entry
	// index maps a key to its place in entries, once there are indexFrom keys.
	index map[string]int
}

type entry struct {
	key   string
	value Value
}

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.entries) }

// Get returns the value under key, and whether there is one.
func (d *Dict) Get(key string) (Value, bool) {
	i := d.find(key)
	if i < 0 {
		return nil, false
	}
	return d.entries[i].value, true
}

// Set puts value under key. A known key keeps its place, a new one goes last.
func (d *Dict) Set(key string, value Value) {
	if i := d.find(key); i >= 0 {
		d.entries[i].value = value
		return
	}
	d.entries = append(d.entries, entry{key, value})
	if d.index != nil {
		d.index[key] = len(d.entries) - 1
	} else if len(d.entries) >= indexFrom {
		d.buildIndex()
	}
}

// Delete takes key out; a key that is not there is no error.
func (d *Dict) Delete(key string) {
	i := d.find(key)
	if i < 0 {
		return
	}
	d.entries = append(d.entries[:i:i], d.entries[i+1:]...)
	if d.index != nil {
		d.buildIndex()
	}
}

// All yields the keys and values in order. The Dict must not be changed
// meanwhile.
func (d *Dict) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, e := range d.entries {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// Clone returns a deep copy.
func (d *Dict) Clone() *Dict {
	c := &Dict{entries: make([]entry, len(d.entries))}
	for i, e := range d.entries {
		c.entries[i] = entry{e.key, Clone(e.value)}
	}
	if d.index != nil {
		c.buildIndex()
	}
	return c
}

func (d *Dict) find(key string) int {
	if d.index != nil {
		if i, ok := d.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range d.entries {
		if d.entries[i].key == key {
			return i
		}
	}
	return -1
}

func (d *Dict) buildIndex() {
	d.index = make(map[string]int, len(d.entries))
	for i, e := range d.entries {
		d.index[e.key] = i
	}
}
