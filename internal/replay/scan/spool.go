package scan

import (
	"fmt"
	"os"
)

// spool keeps bodies in a temporary file, which goes when it is closed.
type spool struct {
	f    *os.File
	size int64
}

// span is where a body stands in a spool; the zero span is none.
type span struct {
	offset int64
	length int
}

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "mulligan-replay-")
	if err != nil {
		return nil, fmt.Errorf("a temporary file for inputs: %w", err)
	}
	return &spool{f: f}, nil
}

func (s *spool) put(b []byte) (span, error) {
	if _, err := s.f.WriteAt(b, s.size); err != nil {
		return span{}, fmt.Errorf("keep an input for later: %w", err)
	}
	at := span{s.size, len(b)}
	s.size += int64(len(b))
	return at, nil
}

func (s *spool) get(at span) ([]byte, error) {
	b := make([]byte, at.length)
	if _, err := s.f.ReadAt(b, at.offset); err != nil {
		return nil, fmt.Errorf("read back an input: %w", err)
	}
	return b, nil
}

func (s *spool) close() {
	_ = s.f.Close() // nothing in it is wanted
	_ = os.Remove(s.f.Name())
}
