package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"mulligan/pkg/messages"
)

// AnswerError says that an answer was refused. With a First there was another
// answer before, which counts.
type AnswerError struct {
	Call  string
	Code  messages.Code
	Text  string
	First *messages.Answer
}

func (e *AnswerError) Error() string { return fmt.Sprintf("call %s: %s", e.Call, e.Text) }

// Unwrap makes an unknown call [messages.ErrNotFound].
func (e *AnswerError) Unwrap() error {
	if e.Code == messages.CodeNotFound {
		return messages.ErrNotFound
	}
	return nil
}

// Answer answers a parked call. A nil error means that the answer is durable
// and was the first (S5.3); a refusal is an [*AnswerError]. A large edited
// input is uploaded first.
func (c *Client) Answer(ctx context.Context, r messages.AnswerRequest) error {
	if r.By == "" {
		r.By = c.cfg.By
	}
	if r.Token == "" {
		r.Token = uuid.NewString()
	}
	if r.Input != nil && !r.Input.FitsInline() {
		ref, err := c.broker.PutPayload(ctx, r.Input.Inline)
		if errors.Is(err, messages.ErrTooLarge) {
			return &AnswerError{Call: r.Call, Code: messages.CodeTooLarge, Text: err.Error()}
		}
		if err != nil {
			return fmt.Errorf("answer: upload the edited input of %d bytes: %w", len(r.Input.Inline), err)
		}
		r.Input = &messages.Body{Ref: &ref}
	}
	body, err := messages.EncodeService(r)
	if err != nil {
		return &AnswerError{Call: r.Call, Code: messages.CodeBadCall, Text: err.Error()}
	}
	err = c.insist(ctx, func(ctx context.Context) error {
		raw, err := c.broker.Request(ctx, messages.EndpointAnswer, body)
		if err != nil {
			return err
		}
		reply, err := messages.DecodeService[messages.AnswerReply](raw)
		switch {
		case err != nil:
			return final(fmt.Errorf("answer of the coordinator: %w", err))
		case reply.Code == messages.CodeNotStored:
			return errors.New(reply.Error) // the same token finds out
		case reply.Error != "":
			return final(&AnswerError{Call: r.Call, Code: reply.Code, Text: reply.Error, First: reply.First})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}
