package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/catalogue"
	"mulligan/internal/replay"
	"mulligan/internal/replay/scan"
	"mulligan/internal/suggest"
	"mulligan/pkg/messages"
)

// selecting are the flags that say which calls that ended are meant.
type selecting struct {
	statuses, tools, codes, queues, runs, by []string
	labels                                   map[string]string
	text, since, until, where                string
}

// selectingHelp tells of them, for the help of a command.
const selectingHelp = `Which calls are meant: those that failed, were exhausted or are unknown, or those of
--status (all for every end), of which all of the other flags hold. Each flag may be
given several times, and then means any of its values.

A condition (--where) is an expression over call, run, ref, tool, original_tool,
status, code, attempts, text, reason, recovered_by, duration_ms, labels, and, read from
the stories of the calls, queue, effect, by, rule, ambiguous and input.`

func (s *selecting) flags(a *app, c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&s.statuses, "status", nil, "how they ended: "+strings.Join(endNames(), ", ")+", or all (default failed, exhausted, unknown)")
	f.StringSliceVar(&s.tools, "tool", nil, "tool that they asked for, or that ran last")
	f.StringSliceVar(&s.codes, "code", nil, "why they ended, such as timeout or recovery_gave_up")
	f.StringSliceVar(&s.queues, "queue", nil, "queue of the tool; read from the story")
	f.StringSliceVar(&s.runs, "run", nil, "run that they belong to; only its results are read")
	f.StringSliceVar(&s.by, "by", nil, "reflector that decided last, such as rules, or one of its rules, such as rules/json-type; read from the story")
	f.StringToStringVar(&s.labels, "label", nil, "label that they carry, as name=value")
	f.StringVar(&s.text, "text", "", "regular expression that is found in what the tool said, or in the reason")
	f.StringVar(&s.since, "since", "", "ended at this time or later: of RFC 3339, or as long ago as 2h30m")
	f.StringVar(&s.until, "until", "", "ended before this time, written in the same way")
	f.StringVar(&s.where, "where", "", "condition that holds for them, such as 'attempts > 1 && labels.team == \"a\"'")
	_ = c.RegisterFlagCompletionFunc("status", words(append(endNames(), "all")...))
	_ = c.RegisterFlagCompletionFunc("tool", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.completeTools(cmd), cobra.ShellCompDirectiveNoFileComp
	})
}

func endNames() []string {
	var out []string
	for _, s := range messages.Ends() {
		out = append(out, string(s))
	}
	return out
}

// selection reads the flags; calls are ids that were given beside them.
func (s *selecting) selection(calls []string, now time.Time) (*replay.Selection, error) {
	sel := &replay.Selection{Calls: calls, Tools: s.tools, Queues: s.queues, By: s.by, Labels: s.labels}
	for _, id := range calls {
		if err := messages.CheckCallID(id); err != nil {
			return nil, withCode(exitUsage, fmt.Errorf("%w; results hold the id of a call in the field call", err))
		}
	}
	for _, name := range s.statuses {
		if name == "all" {
			sel.Statuses = messages.Ends()
			break
		}
		if !slices.Contains(endNames(), name) {
			return nil, usage("--status %q is none of %s, and all", name, strings.Join(endNames(), ", "))
		}
		sel.Statuses = append(sel.Statuses, messages.Status(name))
	}
	for _, name := range s.codes {
		var code messages.Code
		if err := code.UnmarshalText([]byte(name)); err != nil {
			return nil, usage("--code: %w", err)
		}
		sel.Codes = append(sel.Codes, code)
	}
	for _, name := range s.runs {
		if err := messages.CheckName("run", name, messages.MaxName); err != nil {
			return nil, usage("--run: %w", err)
		}
		sel.Runs = append(sel.Runs, messages.NamedRun(name))
	}
	var err error
	if s.text != "" {
		if sel.Text, err = regexp.Compile(s.text); err != nil {
			return nil, usage("--text: %w", err)
		}
	}
	if sel.Since, err = moment("since", s.since, now); err != nil {
		return nil, err
	}
	if sel.Until, err = moment("until", s.until, now); err != nil {
		return nil, err
	}
	if s.where != "" {
		if err := sel.Where(s.where); err != nil {
			return nil, usage("--where: %w", err)
		}
	}
	return sel, nil
}

// moment reads a time, or how long ago one was.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usage("--%s %q is no time such as 2026-03-01T03:00:00Z, and no duration such as 2h30m", flag, text)
	}
	return t, nil
}

// sequences reads a range such as 1000-2000, 1000- or -2000.
func sequences(flag, text string) (r scan.Range, err error) {
	if text == "" {
		return r, nil
	}
	from, to, both := strings.Cut(text, "-")
	if !both {
		to = from
	}
	for _, part := range []struct {
		text string
		n    *uint64
	}{{from, &r.From}, {to, &r.To}} {
		if part.text == "" {
			continue
		}
		if *part.n, err = strconv.ParseUint(part.text, 10, 64); err != nil {
			return r, usage("--%s %q is no range of sequences such as 1000-2000, 1000- or -2000", flag, text)
		}
	}
	if r.To > 0 && r.To < r.From || text == "-" {
		return r, usage("--%s %q holds nothing; give the first and the last sequence, such as 1000-2000", flag, text)
	}
	return r, nil
}

// scanner reads what is meant, and says so when it takes long.
func (a *app) scanner(src scan.Source, sel *replay.Selection) *scan.Scanner {
	s := &scan.Scanner{Source: src, Selection: sel}
	said := time.Now()
	s.Progress = func(stream messages.Stream, read, found int) {
		if time.Since(said) < scanQuiet {
			return
		}
		said = time.Now()
		how := ""
		if !s.Narrow() {
			how = "; all of it has to be read, --run and --since make it less"
		}
		a.say("reading %s: %s messages read, %s found%s", stream, thousands(read), plural(found, "call", "calls"), how)
	}
	return s
}

// scanQuiet is how long a scan takes until it says how far it is, and between
// two such lines.
const scanQuiet = 2 * time.Second

// failuresEntry is a call as it is listed; text and reason may be cut.
type failuresEntry struct {
	Call     string          `json:"call"`
	Ref      string          `json:"ref,omitempty"`
	Run      string          `json:"run,omitempty"`
	Tool     string          `json:"tool"`
	Status   messages.Status `json:"status"`
	Code     messages.Code   `json:"code,omitempty"`
	Attempts int             `json:"attempts"`
	Ended    time.Time       `json:"ended"`
	Text     string          `json:"text,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Labels   messages.Labels `json:"labels,omitempty"`
	Position uint64          `json:"position"` // in RESULTS, for --before
}

type failuresOptions struct {
	selecting
	limit  int
	before uint64
	group  bool
}

func (a *app) failuresCommand() *cobra.Command {
	o := &failuresOptions{limit: 50}
	c := &cobra.Command{
		Use:   "failures",
		Short: "List the calls that failed, or count them by tool, code and text",
		Long: `Failures lists calls that failed, those that ended last first, a page at a time. With
--group it counts them: by status, code, tool, and by what they said, without ids and
numbers. It knows what RESULTS keeps (3 days by default) and changes nothing.

` + selectingHelp + `

Only --run and --since spare reading all results; hits are printed as they are found,
and Ctrl-C ends it at any time. To run such calls again: mulligan replay.`,
		Example: `  mulligan failures --since 1h --group
  mulligan failures --tool book_flight --text 'seat.*taken'
  mulligan failures --status unknown -o json | jq -r .call
  mulligan failures --where 'attempts > 1 && code != "timeout"' --limit 0`,
		Args:              noArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.failures(cmd.Context(), o) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.conn.flags(c.Flags())
	o.selecting.flags(a, c)
	f := c.Flags()
	f.IntVar(&o.limit, "limit", o.limit, "how many are shown; 0 shows all")
	f.Uint64Var(&o.before, "before", 0, "only those before this position, for the next page; 0 from the end")
	f.BoolVar(&o.group, "group", false, "count all of them instead of listing some")
	return c
}

func (a *app) failures(ctx context.Context, o *failuresOptions) error {
	if o.limit < 0 {
		return usage("--limit %d is negative; 0 shows all", o.limit)
	}
	sel, err := o.selection(nil, time.Now())
	if err != nil {
		return err
	}
	broker, where, err := a.dial(ctx, "mulligan failures")
	if err != nil {
		return err
	}
	defer broker.Close()
	s := a.scanner(broker, sel)
	if o.group {
		return a.groupFailures(ctx, s, o.before)
	}
	n, last := 0, uint64(0)
	err = s.Newest(ctx, o.before, o.limit, func(x *replay.Original) error {
		if n == 0 && !a.json() {
			if _, err := fmt.Fprintf(a.Out, failureRow, "ENDED", "STATUS", "CODE", "TOOL", "CALL", "SAID"); err != nil {
				return err
			}
		}
		n, last = n+1, x.Position
		return a.printFailure(x)
	})
	switch {
	case err != nil:
		return err
	case n == 0:
		a.say("no such call ended in the pool of %s", where)
		a.sayUnknown(ctx, broker, sel)
	case n == o.limit:
		a.say("for the next page: --before %d; --limit 0 shows all, --group counts them", last)
	}
	return nil
}

const failureRow = "%-19s  %-9s  %-17s  %-20s  %-36s  %s\n"

func (a *app) printFailure(x *replay.Original) error {
	if !a.json() {
		text := x.Text
		if text == "" {
			text = x.Reason
		}
		_, err := fmt.Fprintf(a.veil.over(a.Out), failureRow, x.Ended.Local().Format(time.DateTime), x.Status, x.Code, oneLine(x.Asked(), 20), x.Result.Call, oneLine(text, 80))
		return err
	}
	return encodeJSON(a.veil.over(a.Out), failuresEntry{
		Call: x.Result.Call, Ref: x.Ref, Run: x.Run.Name(), Tool: x.Asked(), Status: x.Status, Code: x.Code, Attempts: x.Attempts, Ended: x.Ended,
		Text: x.Text, Reason: x.Reason, Labels: x.Labels, Position: x.Position,
	})
}

// groups are the counts of a tally, as they are printed.
type groups struct {
	Total    int            `json:"total"`
	Statuses []replay.Group `json:"by_status"`
	Codes    []replay.Group `json:"by_code"`
	Tools    []replay.Group `json:"by_tool"`
	Texts    []replay.Group `json:"by_text,omitempty"`
}

func groupsOf(t *replay.Tally) groups {
	return groups{t.Total, t.Statuses.Groups(), t.Codes.Groups(), t.Tools.Groups(), t.Texts.Groups()}
}

func (a *app) groupFailures(ctx context.Context, s *scan.Scanner, before uint64) error {
	var t replay.Tally
	if err := s.Newest(ctx, before, 0, func(x *replay.Original) error { t.Add(x); return nil }); err != nil {
		return err
	}
	g := groupsOf(&t)
	if a.json() {
		return encodeJSON(a.veil.over(a.Out), g)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", plural(g.Total, "call", "calls"))
	g.write(&b)
	_, err := fmt.Fprint(a.veil.over(a.Out), b.String())
	return err
}

// mostShown is how many groups of a kind are printed; -o json has all.
const mostShown = 20

func (g groups) write(b *strings.Builder) {
	for _, part := range []struct {
		name string
		of   []replay.Group
	}{{"by status", g.Statuses}, {"by code", g.Codes}, {"by tool", g.Tools}, {"by what they said", g.Texts}} {
		if len(part.of) == 0 {
			continue
		}
		fmt.Fprintf(b, "%s\n", part.name)
		for i, x := range part.of {
			if i == mostShown {
				fmt.Fprintf(b, "  and %s more\n", plural(len(part.of)-i, "group", "groups"))
				break
			}
			name := oneLine(x.Name, 120)
			if name == "" {
				name = "(none)"
			}
			fmt.Fprintf(b, "  %8s  %s\n", thousands(x.Count), name)
		}
	}
}

// sayUnknown says which names of a selection, that found nothing, the pool does
// not know, and which were meant. What is not there any more may have been.
func (a *app) sayUnknown(ctx context.Context, src catalogue.Entries, sel *replay.Selection) {
	tools, err := catalogue.Tools(ctx, src, func(string, ...any) {})
	if err != nil {
		return // it says no more, and the answer stands
	}
	var names, queues, codes []string
	for _, t := range tools {
		names, queues = append(names, t.Name), append(queues, t.Queue)
	}
	for _, c := range messages.Codes() {
		codes = append(codes, string(c))
	}
	for _, of := range []struct {
		what         string
		given, known []string
	}{{"tool", sel.Tools, names}, {"queue", sel.Queues, queues}, {"code", texts(sel.Codes), codes}} {
		for _, name := range of.given {
			if !slices.Contains(of.known, name) {
				a.say("no %s %q is known now%s", of.what, oneLine(name, 60), suggest.Meant(name, of.known))
			}
		}
	}
}

func texts(codes []messages.Code) []string {
	var out []string
	for _, c := range codes {
		out = append(out, string(c))
	}
	return out
}
