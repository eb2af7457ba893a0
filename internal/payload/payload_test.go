package payload

import (
	"context"
	"errors"
	"testing"

	"mulligan/pkg/messages"
)

var errBroken = errors.New("broken by the test")

// store is a map that fails at one subject.
type store struct {
	m     map[string][]byte
	fails string
	puts  int
}

func (s *store) PutOnce(_ context.Context, m messages.Message) (*messages.Stored, error) {
	s.puts++
	if m.Subject == s.fails {
		return nil, errBroken
	}
	if b, ok := s.m[m.Subject]; ok {
		return &messages.Stored{Message: messages.Message{Subject: m.Subject, Body: b}}, nil
	}
	s.m[m.Subject] = m.Body
	return nil, nil
}

func (s *store) Get(_ context.Context, subject string) (messages.Stored, error) {
	b, ok := s.m[subject]
	if !ok {
		return messages.Stored{}, messages.ErrNotFound
	}
	return messages.Stored{Message: messages.Message{Subject: subject, Body: b}}, nil
}

// An upload that broke off is completed by repeating it.
func TestPutIsRepeatable(t *testing.T) {
	s := &store{m: map[string][]byte{}}
	var names messages.Pool
	b := make([]byte, 2*messages.PayloadChunk+7)
	b[0], b[len(b)-1] = 1, 2
	ref, err := Put(t.Context(), s, names, b)
	if err != nil || ref.Chunks != 3 || s.puts != 3 {
		t.Fatalf("%+v with %d writes, %v", ref, s.puts, err)
	}
	last := names.PayloadSubject(ref.Digest, 2)
	delete(s.m, last)
	s.fails = last
	if _, err := Put(t.Context(), s, names, b); !errors.Is(err, errBroken) {
		t.Fatalf("it hid a chunk that was not stored: %v", err)
	}
	if _, err := Get(t.Context(), s, names, ref); !errors.Is(err, messages.ErrNotFound) {
		t.Fatalf("it read what is not there: %v", err)
	}
	s.fails = ""
	if again, err := Put(t.Context(), s, names, b); err != nil || again != ref {
		t.Fatalf("%+v, %v", again, err)
	}
	if got, err := Get(t.Context(), s, names, ref); err != nil || string(got) != string(b) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

// Chunks that were changed, cut or swapped are no payload.
func TestGetVerifies(t *testing.T) {
	var names messages.Pool
	b := make([]byte, messages.PayloadChunk+5)
	b[0] = 1
	for name, spoil := range map[string]func(m map[string][]byte, first, second string){
		"changed": func(m map[string][]byte, _, second string) { m[second] = []byte{1, 0, 0, 0, 0} },
		"cut":     func(m map[string][]byte, _, second string) { m[second] = m[second][:4] },
		"longer":  func(m map[string][]byte, _, second string) { m[second] = make([]byte, 6) },
		"swapped": func(m map[string][]byte, first, second string) { m[first], m[second] = m[second], m[first] },
	} {
		s := &store{m: map[string][]byte{}}
		ref, err := Put(t.Context(), s, names, b)
		if err != nil {
			t.Fatal(err)
		}
		spoil(s.m, names.PayloadSubject(ref.Digest, 0), names.PayloadSubject(ref.Digest, 1))
		if _, err := Get(t.Context(), s, names, ref); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
