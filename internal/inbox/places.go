package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mulligan/internal/story"
	"mulligan/pkg/messages"
)

// Source is the pool's broker.
type Source interface {
	story.Source
	Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error)
	GetPayload(ctx context.Context, r messages.PayloadRef) ([]byte, error)
}

// Place is where a question stands, as the schedule of its answer-by says.
type Place struct {
	Run      messages.Run
	Call     string
	Dispatch int
	AnswerBy time.Time
}

// AnyRun stands for all runs.
const AnyRun messages.Run = "*"

// Places lists the calls of a run that wait for a human, those whose time ends
// first in front. Every parked call has a schedule, so no record is looked at.
func Places(ctx context.Context, src Source, run messages.Run) ([]Place, error) {
	var out []Place
	filter := src.Names().ParkedFilter(run, "*")
	err := src.List(ctx, messages.StreamSchedule, []string{filter}, func(s messages.Stored) bool {
		if p, err := place(s); err == nil { // what cannot be read is of another version
			out = append(out, p)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list the calls that wait for a human: %w", err)
	}
	slices.SortStableFunc(out, func(a, b Place) int { return cmp.Or(a.AnswerBy.Compare(b.AnswerBy), cmp.Compare(a.Call, b.Call)) })
	return out, nil
}

// At is where the question of one call stands; ErrNotFound when it asks none.
func At(ctx context.Context, src Source, call string) (Place, error) {
	s, err := src.Get(ctx, src.Names().ParkedFilter(AnyRun, call))
	if errors.Is(err, messages.ErrNotFound) {
		return Place{}, fmt.Errorf("call %s asks nothing: %w", call, messages.ErrNotFound)
	}
	if err != nil {
		return Place{}, fmt.Errorf("look for the question of call %s: %w", call, err)
	}
	return place(s)
}

func place(s messages.Stored) (Place, error) {
	d, err := messages.DecodeStory[messages.Due](s.Body)
	return Place{Run: d.Run, Call: d.Call, Dispatch: d.N, AnswerBy: d.At}, err
}

// LeastPrefix is how much of an id has to be given, in characters, so that a
// ref is not taken for one.
const LeastPrefix = 4

// Find gives the calls that a person may mean by a word: a call's id, the
// beginning of one, or the submitter's own ref. No word means none: calls that
// have no ref are not meant by an empty one.
func Find(ctx context.Context, src Source, word string) ([]Place, error) {
	if word == "" {
		return nil, nil
	}
	if messages.CheckCallID(word) == nil {
		p, err := At(ctx, src, word)
		if errors.Is(err, messages.ErrNotFound) {
			return nil, nil
		}
		return []Place{p}, err
	}
	all, err := Places(ctx, src, AnyRun)
	if err != nil {
		return nil, err
	}
	if len(word) >= LeastPrefix {
		found := slices.DeleteFunc(slices.Clone(all), func(p Place) bool { return !strings.HasPrefix(p.Call, word) })
		if len(found) > 0 {
			return found, nil
		}
	}
	asked, err := Read(ctx, src, all, 0, func(q *Question) bool { return q.Ref == word }, func(*UnreadableError) {}) // it has no ref that could be meant
	found := make([]Place, len(asked))
	for i, q := range asked {
		found[i] = q.Place
	}
	return found, err
}

// Answered gives the calls that a person may mean by a word, as in [Find], among
// those whose questions were answered. A call is given once, with its last answer.
func Answered(ctx context.Context, src Source, word string) ([]Place, error) {
	last := make(map[string]Place)
	err := src.List(ctx, messages.StreamRecovery, []string{src.Names().AnswersFilter()}, func(s messages.Stored) bool {
		if a, err := src.Names().Parse(s.Subject); err == nil && a.N >= last[a.Call].Dispatch {
			last[a.Call] = Place{Run: a.Run, Call: a.Call, Dispatch: a.N}
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list the answers: %w", err)
	}
	var out []Place
	for _, p := range last {
		meant := len(word) >= LeastPrefix && strings.HasPrefix(p.Call, word)
		if !meant && word != "" {
			if meant, err = hasRef(ctx, src, p, word); err != nil {
				return nil, err
			}
		}
		if meant {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return cmp.Compare(a.Call, b.Call) })
	return out, nil
}

// hasRef says whether the submitter called the call so; no, where its record is
// gone or cannot be read.
func hasRef(ctx context.Context, src Source, p Place, ref string) (bool, error) {
	e, err := src.Load(ctx, messages.BucketAttempts, messages.CallKey(p.Run, p.Call))
	if errors.Is(err, messages.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the record of call %s: %w", p.Call, err)
	}
	r, err := messages.DecodeRecord(e.Value)
	return err == nil && r.Call.Ref == ref, nil
}
