package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/pkg/messages"
)

// A key that may not submit, cancel or answer is told so at once, and that nothing happened.
func TestWhatIsForbiddenIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden := fmt.Errorf("request: %w", messages.ErrForbidden)
		f := newFake()
		f.submit = func(context.Context, messages.Chunk) (messages.ChunkReply, error) {
			return messages.ChunkReply{}, forbidden
		}
		f.cancel = func(messages.CancelRequest) (messages.CancelReply, error) { return messages.CancelReply{}, forbidden }
		f.answer = func(messages.AnswerRequest) (messages.AnswerReply, error) { return messages.AnswerReply{}, forbidden }
		c := newClient(t, f, Config{})
		call := messages.NewCallID()
		for name, try := range map[string]func() error{
			"submit": func() error { _, err := c.Submit(t.Context(), echoes(1)); return err },
			"cancel": func() error {
				_, err := c.Cancel(t.Context(), messages.CancelRequest{Run: "r-x", Call: call})
				return err
			},
			"answer": func() error {
				return c.Answer(t.Context(), messages.AnswerRequest{Run: "r-x", Call: call, Kind: messages.AnswerSkip, By: "ann"})
			},
		} {
			began, before := time.Now(), len(f.sent())
			err := try()
			var uncertain *UncertainError
			if !errors.Is(err, messages.ErrForbidden) || errors.As(err, &uncertain) {
				t.Errorf("%s: %v", name, err)
			}
			if n := len(f.sent()) - before; n != 1 || time.Since(began) > 0 {
				t.Errorf("%s: %d requests in %s", name, n, time.Since(began))
			}
		}
	})
}
