package client

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"mulligan/pkg/messages"
)

// prepared is a call as it goes into a chunk: its line is encoded once, however
// often it is sent.
type prepared struct {
	call string
	run  messages.Run
	line []byte
	// uploaded is the size in bytes of an input that the line only refers to.
	uploaded int64
}

// prepare checks what only this side can tell, uploads a large input and
// encodes the line. What it refuses would be altered on the way: JSON cannot
// carry bytes that are not UTF-8, and a request has an upper size.
func (b *Batch) prepare(ctx context.Context, s *messages.Submission) (prepared, *messages.Refusal, error) {
	if s.Call == "" {
		s.Call = messages.NewCallID()
	}
	if f := check(*s); f != nil {
		return prepared{}, refuse(*s, f.code, f.text), nil
	}
	sent := *s
	if s.Payload == nil && !(messages.Body{Inline: s.Input}).FitsInline() {
		ref, err := b.c.upload(ctx, s.Input)
		if errors.Is(err, messages.ErrTooLarge) {
			return prepared{}, refuse(*s, messages.CodeTooLarge, fmt.Sprintf("input of %d bytes: %v", len(s.Input), err)), nil
		}
		if err != nil {
			return prepared{}, nil, fmt.Errorf("upload the input of call %s, %d bytes: %w", s.Call, len(s.Input), err)
		}
		sent.Payload, sent.Input = &ref, nil
	}
	line, err := sent.AppendJSON(make([]byte, 0, len(sent.Input)+256))
	if err != nil {
		return prepared{}, refuse(*s, messages.CodeBadCall, err.Error()), nil
	}
	p := prepared{call: s.Call, run: b.Run(s.Run), line: line}
	if sent.Payload != nil {
		p.uploaded = sent.Payload.Size
	}
	return p, nil, nil
}

type fault struct {
	code messages.Code
	text string
}

func check(s messages.Submission) *fault {
	if err := messages.CheckCallID(s.Call); err != nil {
		return &fault{messages.CodeBadCall, err.Error() + "; leave it empty to get one"}
	}
	if n := len(s.Input); n > messages.MaxPayload {
		return &fault{messages.CodeTooLarge, fmt.Sprintf(
			"input is %d bytes long, the limit is %d; put the data where the tool can fetch it and give its address", n, messages.MaxPayload)}
	}
	if !utf8.Valid(s.Input) {
		return notText("input", string(s.Input))
	}
	for _, f := range []struct{ name, text string }{{"tool", s.Tool}, {"run", s.Run}, {"ref", s.Ref}, {"task", s.Task}, {"traceparent", s.Trace}} {
		if !utf8.ValidString(f.text) {
			return notText(f.name, f.text)
		}
	}
	for k, v := range s.Labels {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return &fault{messages.CodeBadCall, fmt.Sprintf("label %q is not valid UTF-8; labels are text", k)}
		}
	}
	if n := envelopeSize(s); n > maxEnvelope {
		return &fault{messages.CodeTooLarge, fmt.Sprintf("ref, run, tool, task and labels take %d bytes together, the limit is %d; shorten the task", n, maxEnvelope)}
	}
	return nil
}

func notText(field, text string) *fault {
	i := badByte(text)
	return &fault{messages.CodeBadCall, fmt.Sprintf(
		"%s is not valid UTF-8 at byte %d (0x%02x); encode such bytes as text, for instance in base64", field, i, text[i])}
}

func refuse(s messages.Submission, code messages.Code, text string) *messages.Refusal {
	return &messages.Refusal{Call: s.Call, Ref: s.Ref, Code: code, Text: text}
}

// badByte is where s, which is not UTF-8, stops being it.
func badByte(s string) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(s) - 1
}

// maxEnvelope bounds what is not the input, in bytes, so that a line stays below
// the broker's usual limit of a message however much of it must be escaped.
const maxEnvelope = messages.MaxChunkBytes / 4

func envelopeSize(s messages.Submission) int {
	n := len(s.Ref) + len(s.Run) + len(s.Tool) + len(s.Task) + len(s.Trace)
	for k, v := range s.Labels {
		n += len(k) + len(v)
	}
	return n
}

// upload stores an input until it is stored: the digest is its name, so that
// doing it again does no harm, and a broker that is away for a moment shall not
// leave a whole submission in doubt.
func (c *Client) upload(ctx context.Context, input []byte) (ref messages.PayloadRef, err error) {
	err = c.insist(ctx, func(ctx context.Context) error {
		ref, err = c.broker.PutPayload(ctx, input)
		if errors.Is(err, messages.ErrTooLarge) {
			return final(err)
		}
		return err
	})
	return ref, err
}
