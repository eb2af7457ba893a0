package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/catalogue"
	"mulligan/internal/eval"
	"mulligan/internal/replay"
	"mulligan/internal/story"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

type recordOptions struct {
	selecting
	calls, schemas string
	limit          int
}

func (a *app) evalRecordCommand() *cobra.Command {
	o := &recordOptions{}
	c := &cobra.Command{
		Use:   "record [--out-calls FILE] [--out-schemas FILE]",
		Short: "Write the failures of a pool, and what mended them, for mulligan eval",
		Long: `Record writes the attempts of calls that failed at least once as a recording that
mulligan eval reads, and the tools of the pool with their schemas. An attempt that
failed is followed by the one that came after it, also where that was a replay of the
call: the same input that then succeeded makes a failure transient, and another input
that did is the correction it is judged by. What looks like a secret, or matches
--llm-redact of the configuration, is written as [withheld].

A call is left out where an input is too large to stand in its story, or is not kept
any more. Nothing of the pool is changed.

` + selectingHelp + `

Here, without --status, calls of every end are meant of which an attempt failed.`,
		Example: `  mulligan eval record --out-calls calls.jsonl --out-schemas schemas.jsonl --since 24h
  mulligan eval --calls calls.jsonl --schemas schemas.jsonl`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.recordFailures(cmd.Context(), o) },
	}
	a.conn.flags(c.Flags())
	o.selecting.flags(a, c)
	f := c.Flags()
	f.StringVar(&o.calls, "out-calls", "", "file that the recording is written to; - for standard output")
	f.StringVar(&o.schemas, "out-schemas", "", "file that the tools are written to")
	f.IntVar(&o.limit, "limit", 10000, "how many calls are looked at, those that ended last first; 0 for all")
	return c
}

func (a *app) recordFailures(ctx context.Context, o *recordOptions) (err error) {
	switch {
	case o.calls == "" && o.schemas == "":
		return usage("give --out-calls, or --out-schemas, or both")
	case o.limit < 0:
		return usage("--limit %d is negative; 0 looks at all", o.limit)
	}
	if len(o.statuses) == 0 {
		o.statuses = []string{"all"}
	}
	sel, err := o.selection(nil, time.Now())
	if err != nil {
		return err
	}
	broker, _, err := a.dial(ctx, "mulligan eval record")
	if err != nil {
		return err
	}
	defer broker.Close()
	if o.schemas != "" {
		if err := a.recordTools(ctx, broker, o.schemas); err != nil {
			return err
		}
	}
	if o.calls == "" {
		return nil
	}
	return a.intoFile(o.calls, func(w io.Writer) error { return a.recordCalls(ctx, broker, o, sel, w) })
}

// intoFile writes a file as a whole; - is standard output.
func (a *app) intoFile(path string, write func(io.Writer) error) (err error) {
	if path == "-" {
		return write(a.Out)
	}
	f, err := os.Create(path)
	if err != nil {
		return withCode(exitNotFound, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	return errors.Join(write(w), w.Flush())
}

func (a *app) recordTools(ctx context.Context, broker *jetstream.Pool, path string) error {
	tools, err := catalogue.Tools(ctx, broker, a.say)
	if err != nil {
		return err
	}
	return a.intoFile(path, func(w io.Writer) error {
		for _, t := range tools {
			if err := encodeJSON(w, eval.RecordTool(t.ToolSpec, broker.Names().Prefix())); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) recordCalls(ctx context.Context, broker *jetstream.Pool, o *recordOptions, sel *replay.Selection, w io.Writer) error {
	hide := func(s string) string {
		var b strings.Builder
		_, _ = a.veil.over(&b).Write([]byte(s)) // a builder takes everything
		return b.String()
	}
	written, left := 0, 0
	err := a.scanner(broker, sel).Newest(ctx, 0, o.limit, func(x *replay.Original) error {
		if x.Status == messages.Succeeded && x.Attempts < 2 || x.Labels.ReplayOf() != "" {
			return nil // nothing failed, or it is told with what it replays
		}
		s, replayed, err := storiesOf(ctx, broker, x.Result.Call)
		if err != nil {
			return err
		}
		lines, ok := eval.Record(s, replayed, broker.Names().Prefix(), hide)
		if !ok {
			left++
			return nil
		}
		written++
		for _, line := range lines {
			if err := encodeJSON(w, line); err != nil {
				return fmt.Errorf("write the recording: %w", err)
			}
		}
		return nil
	})
	a.say("%s recorded, %d left out", plural(written, "call", "calls"), left)
	if err == nil && written+left == 0 {
		a.sayUnknown(ctx, broker, sel)
	}
	return err
}

// storiesOf are that of a call, and of the first call that replayed it and
// succeeded.
func storiesOf(ctx context.Context, src story.Source, call string) (s, replayed story.Story, err error) {
	m, err := story.Gather(ctx, src, call)
	if err != nil {
		return s, replayed, err
	}
	s = story.Build(m, time.Now())
	for _, r := range s.Replays {
		m, err := story.Gather(ctx, src, r.Call)
		if errors.Is(err, messages.ErrNotFound) {
			continue
		}
		if err != nil {
			return s, replayed, err
		}
		if t := story.Build(m, time.Now()); t.End != nil && t.End.Status == messages.Succeeded {
			return s, t, nil
		}
	}
	return s, replayed, nil
}
