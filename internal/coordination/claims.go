package coordination

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
)

// claimStart puts the tombstone that keeps a dispatch from starting (P7.17,
// P7.19). One that stands there already serves as well as ours.
func (h *handling) claimStart(ctx context.Context, v dispatch.Verdict) error {
	n := 0
	if h.record != nil {
		n = h.record.N
	}
	subject := h.c.names.StartSubject(h.t.run, h.t.call, n)
	if v.Mark > 0 {
		subject = h.c.names.MarkSubject(h.t.run, h.t.call, n, v.Mark)
	}
	won, err := h.c.bury(ctx, subject, h.epitaph())
	if err != nil {
		return err
	}
	h.claim = claim{n: n, mark: v.Mark, outcome: dispatch.ClaimLost}
	if won {
		h.claim.outcome = dispatch.ClaimWon
	}
	return errAgain
}

// epitaph is what a worker reads that finds the tombstone: with which code it
// has to end the call or, for a correction, that the dispatch failed already.
func (h *handling) epitaph() string {
	wish := h.t.event.Cancel
	if h.record != nil && h.record.Cancelling != nil {
		wish = h.record.Cancelling
	}
	if wish == nil {
		return messages.Tombstone(messages.CodeBadCall, "this dispatch failed, and a correction takes its place")
	}
	return messages.Tombstone(wish.Code, wish.Reason)
}

// bury puts a tombstone once and says whether one stands there.
func (c *Coordinator) bury(ctx context.Context, subject, epitaph string) (bool, error) {
	first, err := c.putStart(ctx, subject, messages.Start{Tombstone: epitaph})
	if err != nil {
		return false, err
	}
	return first.Tombstone != "", nil
}

// putStart returns the start that stands at subject, which is s unless another
// was first.
func (c *Coordinator) putStart(ctx context.Context, subject string, s messages.Start) (messages.Start, error) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	s.Token, s.Worker, s.At = hex.EncodeToString(b[:]), c.cfg.Name, time.Now().UTC()
	m, err := messages.EncodeStory(subject, s)
	if err != nil {
		return s, err
	}
	winner, err := c.broker.PutOnce(ctx, m)
	if err != nil {
		return s, fmt.Errorf("claim %s: %w", subject, err)
	}
	if winner == nil {
		return s, nil
	}
	first, err := messages.DecodeStory[messages.Start](winner.Body)
	if err != nil {
		// Written by a version that we cannot read: to be on the safe side, a start.
		return messages.Start{}, nil
	}
	return first, nil
}
