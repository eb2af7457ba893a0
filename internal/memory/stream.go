package memory

import (
	"bytes"
	"maps"
	"slices"
	"sort"
	"time"

	"mulligan/internal/subject"
	"mulligan/pkg/messages"
)

// stream is an ordered list of messages. The pool's lock guards it.
type stream struct {
	name      string
	once      bool // one message a subject, the first one
	newest    bool // one message a subject, the last one
	workQueue bool // a message goes when it is acked
	full      bool // refuses what is new
	age       time.Duration

	last      uint64
	log       []*stored          // in order; those with gone set are swept later
	gone      int                // in log
	bySubject map[string]*stored // the last of each subject
	before    map[string]*stored // what that one replaced or found gone; nil value: nothing
	changed   chan struct{}      // closed and replaced at each change
}

type stored struct {
	messages.Stored
	deleted bool      // the mark of a deletion, in a bucket
	expires time.Time // zero: never
	timer   *time.Timer
	gone    bool
}

// copied keeps the stream's message apart from what callers do with theirs.
func copied(m messages.Message) messages.Message {
	h := maps.Clone(m.Header)
	for k, v := range h {
		h[k] = slices.Clone(v)
	}
	return messages.Message{Subject: m.Subject, Header: h, Body: bytes.Clone(m.Body)}
}

func (m *stored) out() messages.Stored {
	s := m.Stored
	s.Message = copied(s.Message)
	return s
}

func (m *stored) live(now time.Time) bool {
	return !m.gone && (m.expires.IsZero() || now.Before(m.expires))
}

// get is the live last message on a literal subject, or nil.
func (s *stream) get(subj string) *stored {
	m := s.bySubject[subj]
	if m == nil || !m.live(time.Now()) {
		return nil
	}
	return m
}

// lastMatching is the live last message that matches a filter, or nil.
func (s *stream) lastMatching(filter string) *stored {
	if m := s.get(filter); m != nil {
		return m
	}
	now := time.Now()
	for _, m := range slices.Backward(s.log) {
		if m.live(now) && subject.Covers(filter, m.Subject) {
			return m
		}
	}
	return nil
}

// add stores a message, unconditionally.
func (s *stream) add(m messages.Message, ttl time.Duration) *stored {
	now := time.Now()
	s.before[m.Subject] = s.get(m.Subject)
	if s.newest {
		s.remove(s.bySubject[m.Subject])
	}
	s.last++
	n := &stored{Stored: messages.Stored{Message: copied(m), Sequence: s.last, Time: now}}
	if ttl > 0 {
		ttl = (ttl + time.Second - 1) / time.Second * time.Second
	}
	if keep := shorter(ttl, s.age); keep > 0 && ttl != messages.Forever {
		n.expires = now.Add(keep)
	}
	s.log = append(s.log, n)
	s.bySubject[m.Subject] = n
	s.notify()
	return n
}

// shorter is the smaller of two lives, of which zero is unbounded.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func (s *stream) remove(m *stored) {
	if m == nil || m.gone {
		return
	}
	m.gone = true
	if m.timer != nil {
		m.timer.Stop()
	}
	if s.bySubject[m.Subject] == m {
		delete(s.bySubject, m.Subject)
	}
	if s.gone++; s.gone > 64 && s.gone > len(s.log)/2 {
		s.log = slices.DeleteFunc(s.log, func(m *stored) bool { return m.gone })
		s.gone = 0
	}
}

func (s *stream) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// from lists the live messages with a sequence of at least seq that match one
// of filters (none: all), at most limit (0: all).
func (s *stream) from(seq uint64, filters []string, limit int) []*stored {
	i := sort.Search(len(s.log), func(i int) bool { return s.log[i].Sequence >= seq })
	now := time.Now()
	var out []*stored
	for _, m := range s.log[i:] {
		if m.live(now) && matchesOne(filters, m.Subject) {
			out = append(out, m)
			if limit > 0 && len(out) == limit {
				break
			}
		}
	}
	return out
}

func matchesOne(filters []string, subj string) bool {
	return len(filters) == 0 || slices.ContainsFunc(filters, func(f string) bool { return subject.Covers(f, subj) })
}
