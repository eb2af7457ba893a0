package jetstream

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// The answers that a server gives to reads are read without a JSON decoder.
func TestAnswersToReadsAreRead(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown() })
	p, err := Connect(t.Context(), Config{URL: s.ClientURL(), Token: s.Token()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Provision(t.Context(), TopologyConfig{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(t.Context(), p.names.ResultSubject(messages.NamedRun("r"), "c")); !errors.Is(err, messages.ErrNotFound) {
		t.Fatal(err)
	}
	stream := p.names.StreamName(messages.StreamResults)
	for _, m := range []messages.Message{
		{Subject: p.names.ResultSubject(messages.NamedRun("r"), "a"), Header: messages.Header{"A": {"b", "c"}}, Body: []byte("\x00\xff{}")},
		{Subject: p.names.ResultSubject(messages.NamedRun("r"), "b")},
	} {
		if _, err := p.PutOnce(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		body, err := getRequest{LastFor: m.Subject}.encode()
		if err != nil {
			t.Fatal(err)
		}
		answer, err := p.ask(t.Context(), apiPrefix+"STREAM.MSG.GET."+stream, nil, body)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := plainGet(answer.Data); !ok {
			t.Errorf("%s is not of the form that is read by hand", answer.Data)
		}
		got, err := p.Get(t.Context(), m.Subject)
		if err != nil || got.Subject != m.Subject || !bytes.Equal(got.Body, m.Body) || !slices.Equal(got.Header["A"], m.Header["A"]) || got.Sequence == 0 || time.Since(got.Time) > time.Hour {
			t.Errorf("%+v, %v", got, err)
		}
	}
	body, err := getRequest{LastFor: p.names.ResultSubject(messages.NamedRun("r"), "x")}.encode()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := p.ask(t.Context(), apiPrefix+"STREAM.MSG.GET."+stream, nil, body)
	if err != nil || !bytes.Equal(answer.Data, nothingThere) {
		t.Errorf("nothing there is told as %s, %v", answer.Data, err)
	}
}
