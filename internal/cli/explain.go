package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/story"
	"mulligan/pkg/messages"
)

func (a *app) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain CALL",
		Short: "Tell the story of a call",
		Long: `Explain tells what happened to a call: its attempts with what each was given and
what it answered, what was made of each failure and by whom, how inputs were
changed, waits, workers, what came too late, and where the call is now. What looks
like a secret is shown as [withheld].`,
		Example: `  mulligan explain 01890000-0000-7000-8000-000000000001
  mulligan run calls.jsonl | jq -r 'select(.status=="failed").call' | xargs -n1 mulligan explain`,
		Args:              exactly("the id of the call"),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.explain(cmd.Context(), args[0]) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.conn.flags(c.Flags())
	return c
}

func (a *app) explain(ctx context.Context, call string) error {
	if err := messages.CheckCallID(call); err != nil {
		return withCode(exitUsage, fmt.Errorf("%w; results hold the id of a call in the field call", err))
	}
	broker, _, err := a.dial(ctx, "mulligan explain")
	if err != nil {
		return err
	}
	defer broker.Close()
	return a.tell(ctx, broker, call)
}

func (a *app) tell(ctx context.Context, src story.Source, call string) error {
	m, err := story.Gather(ctx, src, call)
	if err != nil {
		return err
	}
	s := story.Build(m, time.Now())
	var text strings.Builder
	if a.json() {
		err = encodeJSON(&text, s)
	} else {
		err = s.WriteText(&text)
	}
	if err == nil {
		_, err = io.WriteString(a.veil.over(a.Out), text.String())
	}
	if err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}
