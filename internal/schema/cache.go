package schema

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
)

// Cache keeps compiled schemas by the digest of their text, so that a tool's
// schema is compiled once however many of its calls fail. It may be used
// concurrently; the zero Cache holds up to 1024 schemas.
type Cache struct {
	mu sync.Mutex
	m  map[[sha256.Size]byte]cached // guarded by mu
}

type cached struct {
	s   *Schema
	err error
}

const cacheSize = 1024

// Compile is [Compile], remembered. A failure is remembered too.
func (c *Cache) Compile(raw json.RawMessage) (*Schema, error) {
	key := sha256.Sum256(raw)
	c.mu.Lock()
	got, ok := c.m[key]
	c.mu.Unlock()
	if ok {
		return got.s, got.err
	}
	// Outside the lock: two goroutines may compile the same schema once each,
	// which is cheaper than one slow schema holding up all others.
	s, err := Compile(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = make(map[[sha256.Size]byte]cached)
	}
	if len(c.m) >= cacheSize {
		for k := range c.m { // any one: a full cache is a schema generator at work, not a working set
			delete(c.m, k)
			break
		}
	}
	c.m[key] = cached{s, err}
	return s, err
}
