package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"mulligan/internal/dispatch"
	"mulligan/internal/story"
	"mulligan/pkg/messages"
)

// Question is a call that waits for a human; its JSON form is that of
// `mulligan inbox -o json`.
type Question struct {
	Place    Place                 `json:"-"`
	Call     string                `json:"call"`
	Ref      string                `json:"ref,omitempty"`
	Run      string                `json:"run,omitempty"` // as named by the submitter
	Tool     string                `json:"tool"`
	Effect   messages.Effect       `json:"effect"`
	Task     string                `json:"task,omitempty"`
	Labels   messages.Labels       `json:"labels,omitempty"`
	Dispatch int                   `json:"dispatch"` // the one that is asked about
	Attempts int                   `json:"attempts"` // spent, of messages.MaxAttempts
	Asked    time.Time             `json:"asked"`
	AnswerBy time.Time             `json:"answer_by"`
	Deadline time.Time             `json:"deadline,omitzero"`
	Prompt   string                `json:"prompt"`
	Input    *string               `json:"input,omitempty"`       // nil: kept apart
	Size     int64                 `json:"input_bytes,omitempty"` // of one that is kept apart
	Code     messages.Code         `json:"code,omitempty"`        // of the failure
	Error    string                `json:"error,omitempty"`
	Doubt    []int                 `json:"ambiguous,omitempty"` // dispatches whose effect may have happened
	Proposed *messages.Correction  `json:"proposed,omitempty"`
	Changes  []story.Change        `json:"changes,omitempty"` // what approve would change
	Answers  []messages.AnswerKind `json:"answers"`           // that can be given now
}

// UnreadableError says that a question cannot be read: its record is of another
// version, or broken.
type UnreadableError struct {
	Call string
	Err  error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("the record of call %s cannot be read: %v", e.Call, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Ask reads one question; nil when the call does not ask it any more.
func Ask(ctx context.Context, src Source, p Place) (*Question, error) {
	e, err := src.Load(ctx, messages.BucketAttempts, messages.CallKey(p.Run, p.Call))
	if errors.Is(err, messages.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the question of call %s: %w", p.Call, err)
	}
	r, err := messages.DecodeRecord(e.Value)
	if err != nil {
		return nil, &UnreadableError{Call: p.Call, Err: err}
	}
	if r.State != messages.Parked || r.N != p.Dispatch {
		return nil, nil
	}
	q := question(p, r)
	return q, q.addFailure(ctx, src)
}

func question(p Place, r messages.Record) *Question {
	q := &Question{
		Place: p, Call: p.Call, Ref: r.Call.Ref, Run: p.Run.Name(), Tool: r.Call.Tool, Effect: r.Call.Effect, Task: r.Call.Task, Labels: r.Call.Labels,
		Dispatch: r.N, Attempts: r.Spent, Asked: r.Updated, AnswerBy: r.AnswerBy, Deadline: r.Call.Deadline, Prompt: r.Prompt, Doubt: r.Ambiguous,
		Proposed: r.Proposed, Answers: dispatch.Offered(r, time.Now()),
	}
	q.setInput(r.Input)
	return q
}

func (q *Question) setInput(b messages.Body) {
	if b.Ref != nil {
		q.Size = b.Ref.Size
		return
	}
	text := string(b.Inline)
	if !utf8.ValidString(text) {
		text = fmt.Sprintf("%q", text)
	}
	q.Input = &text
	c := q.Proposed
	if c == nil {
		return
	}
	tool, input := q.Tool, text
	if c.Type == messages.ToolChange && c.AlternativeTool != nil {
		tool = *c.AlternativeTool
	}
	if len(c.ModifiedInput) > 0 && (c.Type == messages.InputFix || c.Type == messages.ToolChange) {
		input = string(c.ModifiedInput)
	}
	q.Changes = story.Changes(q.Tool, text, tool, input)
}

// addFailure takes what the tool said from its failure.
func (q *Question) addFailure(ctx context.Context, src Source) error {
	s, err := src.Get(ctx, src.Names().FailureSubject(q.Place.Run, q.Call, q.Dispatch))
	if errors.Is(err, messages.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the failure of call %s: %w", q.Call, err)
	}
	if f, err := messages.DecodeFailure(s.Body); err == nil {
		q.Code, q.Error = f.Code, f.Error
	}
	return nil
}

// AddInput fetches an input that is kept apart, for one who wants to see it.
func (q *Question) AddInput(ctx context.Context, src Source) error {
	if q.Input != nil {
		return nil
	}
	e, err := src.Load(ctx, messages.BucketAttempts, messages.CallKey(q.Place.Run, q.Call))
	if err != nil {
		return fmt.Errorf("read the question of call %s: %w", q.Call, err)
	}
	r, err := messages.DecodeRecord(e.Value)
	if err != nil || r.Input.Ref == nil {
		return err
	}
	b, err := src.GetPayload(ctx, *r.Input.Ref)
	if errors.Is(err, messages.ErrNotFound) {
		return nil
	}
	if err == nil {
		q.setInput(messages.Body{Inline: b})
	}
	return err
}

// Of reading many questions: so many side by side, and so many before it is
// looked whether there are enough.
const (
	readers = 16
	portion = 64
)

// Read reads the questions at these places, in their order, until there are
// limit (0: all) that keep wants; nil wants every one. One that cannot be read
// is told to skip, and left out.
func Read(ctx context.Context, src Source, places []Place, limit int, keep func(*Question) bool, skip func(*UnreadableError)) ([]*Question, error) {
	var out []*Question
	for len(places) > 0 && (limit == 0 || len(out) < limit) {
		n := min(portion, len(places))
		found, unread := make([]*Question, n), make([]*UnreadableError, n)
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(readers)
		for i, p := range places[:n] {
			g.Go(func() (err error) {
				if found[i], err = Ask(gctx, src, p); errors.As(err, &unread[i]) {
					return nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		places = places[n:]
		for i, q := range found {
			if unread[i] != nil {
				skip(unread[i])
			}
			if q != nil && (keep == nil || keep(q)) && (limit == 0 || len(out) < limit) {
				out = append(out, q)
			}
		}
	}
	return out, nil
}
