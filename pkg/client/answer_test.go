package client

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"mulligan/pkg/messages"
)

func question() messages.AnswerRequest {
	return messages.AnswerRequest{Run: messages.NamedRun("r"), Call: messages.NewCallID(), Dispatch: 1, Kind: messages.AnswerRetry}
}

// An answer is given until it is known to be stored, always with one token, so
// that it meets itself.
func TestAnswerInsistsWithOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var tokens []string
		f.answer = func(r messages.AnswerRequest) (messages.AnswerReply, error) {
			tokens = append(tokens, r.Token)
			switch {
			case len(tokens) == 1:
				return messages.AnswerReply{}, messages.ErrNoResponder
			case len(tokens) == 2:
				return messages.AnswerReply{Code: messages.CodeNotStored, Error: "the broker is away"}, nil
			case r.By != "me" || r.Dispatch != 1:
				return messages.AnswerReply{Code: messages.CodeBadCall, Error: "bad request"}, nil
			}
			return messages.AnswerReply{}, nil
		}
		c := newClient(t, f, Config{By: "me"})
		if err := c.Answer(t.Context(), question()); err != nil {
			t.Fatal(err)
		}
		if len(tokens) != 3 || tokens[0] == "" || tokens[0] != tokens[1] || tokens[1] != tokens[2] {
			t.Fatalf("tokens %q", tokens)
		}
		if err := c.Answer(t.Context(), question()); err != nil || tokens[3] == tokens[0] {
			t.Fatalf("another answer has the same token: %q, %v", tokens, err)
		}
	})
}

func TestAnswerTellsWhoWasFirst(t *testing.T) {
	f := newFake()
	f.answer = func(messages.AnswerRequest) (messages.AnswerReply, error) {
		return messages.AnswerReply{Code: messages.CodeAnswered, Error: "already answered: skip by ann", First: &messages.Answer{Kind: messages.AnswerSkip, By: "ann"}}, nil
	}
	c := newClient(t, f, Config{By: "me"})
	var refused *AnswerError
	err := c.Answer(t.Context(), question())
	if !errors.As(err, &refused) || refused.First == nil || refused.First.By != "ann" || errors.Is(err, messages.ErrNotFound) {
		t.Fatalf("err %v", err)
	}
	f.answer = func(messages.AnswerRequest) (messages.AnswerReply, error) {
		return messages.AnswerReply{Code: messages.CodeNotFound, Error: "no call is known"}, nil
	}
	if err := c.Answer(t.Context(), question()); !errors.Is(err, messages.ErrNotFound) {
		t.Fatalf("err %v", err)
	}
	bad := question()
	bad.Kind = messages.AnswerEdit // without an input
	if err := c.Answer(t.Context(), bad); !errors.As(err, &refused) || refused.Code != messages.CodeBadCall {
		t.Fatalf("err %v", err)
	}
}

func TestALargeEditIsUploaded(t *testing.T) {
	f := newFake()
	var got *messages.Body
	f.answer = func(r messages.AnswerRequest) (messages.AnswerReply, error) {
		got = r.Input
		return messages.AnswerReply{}, nil
	}
	c := newClient(t, f, Config{By: "me"})
	edit, input := question(), strings.Repeat("x", messages.MaxInline)
	edit.Kind, edit.Input = messages.AnswerEdit, new(messages.Text(input))
	if err := c.Answer(t.Context(), edit); err != nil || got == nil || got.Ref == nil || string(f.payloads[got.Ref.Digest]) != input {
		t.Fatalf("input %+v, err %v", got, err)
	}
}
