package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mulligan/internal/calls"
	"mulligan/internal/calls/pooled"
	"mulligan/internal/format"
	"mulligan/internal/pool"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// submit runs the calls as `mulligan run --sequence run` does, and reads what
// the streams hold afterwards.
func (c Config) submit(ctx context.Context, p *pool.Pool) (out Outcome, err error) {
	broker, err := p.Connect(ctx, "shop replay")
	if err != nil {
		return out, err
	}
	defer broker.Close()
	submitter, err := client.New(broker, client.Config{By: "shop replay", Log: c.Log})
	if err != nil {
		return out, err
	}
	defer submitter.Close()
	if err := c.run(ctx, submitter, &out); err != nil {
		return out, err
	}
	return out, out.read(ctx, broker)
}

// run writes the file of calls, which stays beside its results in Dir.
func (c Config) run(ctx context.Context, submitter *client.Client, out *Outcome) (err error) {
	path := filepath.Join(c.Dir, "calls.jsonl")
	if err := writeCalls(path, c.Calls); err != nil {
		return err
	}
	file, err := calls.Open(path, nil, format.Mulligan, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	journal, err := calls.TempJournal(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	var lines bytes.Buffer
	begun := time.Now()
	out.Summary, err = calls.Run(ctx, pooled.New(submitter), file, journal, &lines, calls.Options{Sequence: true, Where: "embedded"})
	if err != nil {
		return err
	}
	out.Took = time.Since(begun)
	if err := os.WriteFile(filepath.Join(c.Dir, "results.jsonl"), lines.Bytes(), 0o600); err != nil {
		return err
	}
	return out.readLines(lines.Bytes(), len(c.Calls))
}

func writeCalls(path string, submissions []messages.Submission) error {
	var text []byte
	for _, s := range submissions {
		var err error
		if text, err = s.AppendJSON(text); err != nil {
			return fmt.Errorf("call %s: %w", s.Ref, err)
		}
		text = append(text, '\n')
	}
	return os.WriteFile(path, text, 0o600)
}

func (out *Outcome) readLines(text []byte, want int) error {
	lines := json.NewDecoder(bytes.NewReader(text))
	for lines.More() {
		var r calls.Result
		if err := lines.Decode(&r); err != nil {
			return fmt.Errorf("result %d: %w", len(out.Lines), err)
		}
		out.Lines = append(out.Lines, r)
	}
	if len(out.Lines) != want {
		return fmt.Errorf("%d lines came back for %d calls", len(out.Lines), want)
	}
	return nil
}

// streams is what is read of the pool.
type streams interface {
	Names() messages.Pool
	List(ctx context.Context, stream messages.Stream, filters []string, fn func(messages.Stored) bool) error
	LastSequence(ctx context.Context, stream messages.Stream) (uint64, error)
}

func (out *Outcome) read(ctx context.Context, s streams) error {
	var broken error
	err := s.List(ctx, messages.StreamResults, nil, func(m messages.Stored) bool {
		r, err := s.Names().DecodeResult(m.Message)
		broken = errors.Join(broken, err)
		out.Results = append(out.Results, r)
		return true
	})
	if err == nil {
		err = s.List(ctx, messages.StreamRecovery, nil, func(m messages.Stored) bool {
			a, err := s.Names().Parse(m.Subject)
			if err != nil || a.Kind != messages.KindFailure {
				return true
			}
			f, err := messages.DecodeFailure(m.Body)
			broken = errors.Join(broken, err)
			out.Failures = append(out.Failures, f)
			return true
		})
	}
	if err == nil {
		out.ResultsWritten, err = s.LastSequence(ctx, messages.StreamResults)
	}
	return errors.Join(err, broken)
}
