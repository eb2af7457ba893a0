package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/inbox"
	"mulligan/internal/story"
	"mulligan/pkg/messages"
)

// asking narrows the questions that a command is about.
type asking struct{ tool, run string }

func (q asking) keep(x *inbox.Question) bool { return q.tool == "" || x.Tool == q.tool }

func (q asking) places(ctx context.Context, src inbox.Source) ([]inbox.Place, error) {
	run := inbox.AnyRun
	if q.run != "" {
		run = messages.NamedRun(q.run)
	}
	return inbox.Places(ctx, src, run)
}

// whose says of which calls, for a message.
func (q asking) whose() string {
	text := ""
	if q.tool != "" {
		text += fmt.Sprintf(" of tool %q", q.tool)
	}
	if q.run != "" {
		text += fmt.Sprintf(" of run %q", q.run)
	}
	return text
}

func (a *app) inboxCommand() *cobra.Command {
	var of asking
	limit := 50
	c := &cobra.Command{
		Use:   "inbox",
		Short: "List the calls that wait for a human",
		Long: `Inbox lists the calls that wait for a human, those first whose time to answer ends
first: what each asks, how many attempts are spent, and which answers it can be
given. Such a call holds no worker. When nobody answers in time it ends failed, or
unknown where an effect may have happened; nothing is ever approved by itself.`,
		Example: `  mulligan inbox
  mulligan inbox --tool refund --limit 0 -o json | jq -r .call
  mulligan inbox show 01890000-0000-7000-8000-000000000001`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.inbox(cmd.Context(), of, limit) },
	}
	a.conn.flags(c.PersistentFlags())
	f := c.Flags()
	f.StringVar(&of.tool, "tool", "", "only calls of this tool")
	f.StringVar(&of.run, "run", "", "only calls of this run")
	f.IntVar(&limit, "limit", limit, "how many are shown; 0 shows all")
	_ = c.RegisterFlagCompletionFunc("tool", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.completeTools(cmd), cobra.ShellCompDirectiveNoFileComp
	})
	c.AddCommand(&cobra.Command{
		Use:   "show CALL",
		Short: "Show the whole question of a call, and its story so far",
		Long: `Show prints all that a call asks, with its whole input and what an approval would
change, and then what happened so far. CALL is the id of a call, the beginning of
one, or the ref that its submitter gave.`,
		Example:           "  mulligan inbox show 01890000-0000-7000-8000-000000000001",
		Args:              exactly("the call"),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.showQuestion(cmd.Context(), args[0]) },
		ValidArgsFunction: a.completeParked(1),
	})
	return c
}

func (a *app) inbox(ctx context.Context, of asking, limit int) error {
	if limit < 0 {
		return usage("--limit %d is negative; 0 shows all", limit)
	}
	broker, where, err := a.dial(ctx, "mulligan inbox")
	if err != nil {
		return err
	}
	defer broker.Close()
	places, err := of.places(ctx, broker)
	if err != nil {
		return err
	}
	asked, err := inbox.Read(ctx, broker, places, limit, of.keep, a.leaveOut)
	if err != nil {
		return err
	}
	if a.json() {
		for _, q := range asked {
			if err := a.printJSON(q); err != nil {
				return err
			}
		}
		return nil
	}
	if len(asked) == 0 {
		a.say("no call%s waits for a human in %s", of.whose(), where)
		return nil
	}
	if err := a.printQuestions(asked); err != nil {
		return err
	}
	if of.tool == "" && len(places) > len(asked) && limit > 0 {
		a.say("%d of %d; --limit 0 shows all", len(asked), len(places))
	}
	a.say("`mulligan inbox show CALL` shows one whole, `mulligan answer` answers")
	return nil
}

// leaveOut tells of a question that cannot be read.
func (a *app) leaveOut(err *inbox.UnreadableError) { a.say("%v; it is left out", err) }

func (a *app) printQuestions(asked []*inbox.Question) error {
	var rows [][]string
	for _, q := range asked {
		rows = append(rows, []string{
			q.Call, oneLine(q.Tool, 30), oneLine(q.Run, 20), fmt.Sprintf("%d/%d", q.Attempts, messages.MaxAttempts), left(q.AnswerBy, time.Now()),
			kinds(q.Answers), oneLine(q.Prompt, 80),
		})
	}
	return table(a.Out, []string{"CALL", "TOOL", "RUN", "ATTEMPTS", "TIME LEFT", "ANSWERS", "ASKS"}, rows)
}

// left is the time until an answer-by, for a table.
func left(by, now time.Time) string {
	d := by.Sub(now)
	switch {
	case d <= 0:
		return "over"
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

func kinds(list []messages.AnswerKind) string {
	var out []string
	for _, k := range list {
		out = append(out, string(k))
	}
	return strings.Join(out, " ")
}

func (a *app) showQuestion(ctx context.Context, word string) error {
	broker, _, err := a.dial(ctx, "mulligan inbox")
	if err != nil {
		return err
	}
	defer broker.Close()
	place, err := theOne(ctx, broker, word)
	if err != nil {
		return err
	}
	q, err := inbox.Ask(ctx, broker, place)
	if err == nil && q == nil {
		err = silent(ctx, broker, place.Call)
	}
	if err != nil {
		return err
	}
	if err := q.AddInput(ctx, broker); err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(q)
	}
	if err := q.WriteText(a.Out, time.Now()); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	if _, err := fmt.Fprintln(a.Out); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return a.tell(ctx, broker, q.Call)
}

// theOne is the question that a word means.
func theOne(ctx context.Context, src inbox.Source, word string) (inbox.Place, error) {
	found, err := inbox.Find(ctx, src, word)
	switch {
	case err != nil:
		return inbox.Place{}, err
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return inbox.Place{}, usage("%q may be any of %d calls that wait for a human, such as %s and %s; give the whole id", word, len(found), found[0].Call, found[1].Call)
	case messages.CheckCallID(word) == nil:
		return inbox.Place{}, silent(ctx, src, word)
	}
	answered, err := inbox.Answered(ctx, src, word)
	switch {
	case err != nil:
		return inbox.Place{}, err
	case len(answered) == 1:
		return inbox.Place{}, silent(ctx, src, answered[0].Call)
	case len(answered) > 1:
		return inbox.Place{}, usage("%q may be any of %d calls, all of them answered, such as %s and %s; give the whole id", word, len(answered), answered[0].Call, answered[1].Call)
	}
	return inbox.Place{}, withCode(exitNotFound, fmt.Errorf("no call that waits for a human has the ref %q, or an id that begins so (%d characters of it at the least); `mulligan inbox` lists them", word, inbox.LeastPrefix))
}

// silentError says that a call asks nothing, and where it is instead.
type silentError struct {
	call, now string
	answered  *inbox.Place // the last question that was answered; nil for none
}

func (e *silentError) Error() string {
	return fmt.Sprintf("call %s does not wait for a human: %s", e.call, e.now)
}

// silent tells what a call does that asks nothing.
func silent(ctx context.Context, src inbox.Source, call string) error {
	m, err := story.Gather(ctx, src, call)
	if err != nil {
		return err
	}
	s := story.Build(m, time.Now())
	e := &silentError{call: call, now: oneLine(string(s.State)+": "+s.Now, 400)}
	for _, d := range s.Dispatches {
		if d.Answer != nil {
			e.answered = &inbox.Place{Run: m.Run, Call: call, Dispatch: d.N}
		}
	}
	return withCode(exitSome, e)
}

// mostCompleted bounds how many ids a shell is given.
const mostCompleted = 200

// completeParked gives the ids of the calls that wait, from argument number
// from on, if the pool answers quickly.
func (a *app) completeParked(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most || a.configure(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
		defer cancel()
		broker, _, err := a.dial(ctx, "mulligan completion")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer broker.Close()
		places, _ := inbox.Places(ctx, broker, inbox.AnyRun) // what was read in time
		var ids []string
		for _, p := range places {
			if strings.HasPrefix(p.Call, prefix) && len(ids) < mostCompleted {
				ids = append(ids, p.Call)
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
