package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"mulligan/internal/calls"
	"mulligan/internal/demo"
	"mulligan/internal/pool"
	"mulligan/internal/story"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show on sample calls what is recovered, and how",
		Long: `Demo starts a pool in this process with a few sample tools, runs about forty calls
of which some go wrong as they do in life, and shows what became of them. It keeps
nothing and needs nothing.

Exit code: 0 when every call ended as it should, failures included, else 1.`,
		Example: "  mulligan demo\n  mulligan demo -o json | tail -1",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context()) },
	}
}

// played is a case of the demo and how it ended.
type played struct {
	demo.Case
	calls.Result
	helped string // for people: what made a later attempt succeed
}

func (p played) recovered() bool {
	return p.Status == messages.Succeeded && (p.Attempts > 1 || p.RecoveredBy != "")
}

// help finds in the story of a recovered call what helped it.
func (p *played) help(ctx context.Context, src story.Source) error {
	m, err := story.Gather(ctx, src, p.Result.Call)
	if err != nil {
		return err
	}
	p.helped = p.RecoveredBy
	ds := story.Build(m, time.Now()).Dispatches
	if len(ds) < 2 {
		return nil
	}
	last, before := ds[len(ds)-1], ds[len(ds)-2]
	switch c := last.Changes; {
	case len(c) == 0:
		p.helped = "tried again after " + before.Waited.Duration().Round(10*time.Millisecond).String()
	case len(c) == 1 && c[0].Path == "input":
		p.helped = "the JSON was mended"
	case len(c) == 1 && c[0].From != "" && c[0].To != "":
		p.helped = fmt.Sprintf("%s: %s became %s", strings.TrimPrefix(c[0].Path, "input."), c[0].From, c[0].To)
	case len(c) == 2 && c[0].To == "" && c[1].From == "":
		p.helped = fmt.Sprintf("%s became %s", strings.TrimPrefix(c[0].Path, "input."), strings.TrimPrefix(c[1].Path, "input."))
	case len(c) == 2 && c[1].To == "" && c[0].From == "":
		p.helped = fmt.Sprintf("%s became %s", strings.TrimPrefix(c[1].Path, "input."), strings.TrimPrefix(c[0].Path, "input."))
	}
	return nil
}

func (a *app) demo(ctx context.Context) (err error) {
	begun := time.Now()
	own, err := pool.Start(ctx, pool.Config{Tools: demo.Tools(), Slots: 16, Log: a.logger(slogError)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Stop(context.WithoutCancel(ctx))) }()
	broker, err := own.Connect(ctx, "mulligan demo")
	if err != nil {
		return err
	}
	defer broker.Close()
	c, err := client.New(broker, client.Config{By: a.by()})
	if err != nil {
		return err
	}
	defer c.Close()
	if !a.json() {
		a.say("a pool of its own is up after %s; %d calls go in", time.Since(begun).Round(time.Millisecond), len(demo.Cases()))
	}
	all, err := play(ctx, c, demo.Cases())
	if err != nil {
		return err
	}
	var s calls.Summary
	for _, p := range all {
		s.Count(p.Result)
	}
	if a.json() {
		err = a.demoJSON(all, s)
	} else {
		err = a.demoText(ctx, broker, all, s, time.Since(begun))
	}
	if err != nil {
		return err
	}
	return asMeant(all)
}

// play runs the cases and gives them in their order with their results.
func play(ctx context.Context, c *client.Client, cases []demo.Case) ([]played, error) {
	batch, err := c.OpenBatch(uuid.NewString(), 0)
	if err != nil {
		return nil, err
	}
	from, err := c.Position(ctx)
	if err != nil {
		return nil, err
	}
	subs := make([]messages.Submission, len(cases))
	for i := range cases {
		subs[i] = cases[i].Call
	}
	refused, err := batch.Submit(ctx, subs)
	if err != nil {
		return nil, err
	}
	all := make([]played, len(cases))
	at, open := make(map[string]int), make(map[string]messages.Run)
	for i, s := range subs {
		all[i].Case = cases[i]
		at[s.Call], open[s.Call] = i, batch.Run(s.Run)
	}
	for _, r := range refused {
		i := at[r.Call]
		all[i].Result = calls.NotAccepted(subs[i], r.Code, r.Text)
		delete(open, r.Call)
	}
	err = c.Wait(ctx, from, open, func(r messages.Result) error {
		out, err := c.Output(ctx, r)
		all[at[r.Call]].Result = calls.Ended(r, out)
		return err
	})
	return all, err
}

// asMeant compares each end with the one that the case is there to show.
func asMeant(all []played) error {
	var errs []error
	for _, p := range all {
		if p.Status != p.Expect || p.recovered() != p.Recovered {
			errs = append(errs, fmt.Errorf("%s (%s of %s) ended %s after %d attempts, recovered: %t; it should have ended %s, recovered: %t",
				p.Ref, orElse(p.Wrong, "a good call"), p.Case.Call.Tool, p.Status, p.Attempts, p.recovered(), p.Expect, p.Recovered))
		}
	}
	return errors.Join(errs...)
}

func (a *app) demoJSON(all []played, s calls.Summary) error {
	for _, p := range all {
		line, err := p.Line()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.Out, "%s\n", line); err != nil {
			return err
		}
	}
	return a.printJSON(s)
}

func (a *app) demoText(ctx context.Context, src story.Source, all []played, s calls.Summary, took time.Duration) error {
	sections := []struct {
		title   string
		heading []string
		wanted  func(played) bool
		row     func(played) []string
	}{
		{
			"RECOVERED: these failed at first and succeeded in the end",
			[]string{"WHAT WAS WRONG", "TOOL", "WHAT HELPED", "ATTEMPTS", "RESULT"},
			played.recovered,
			func(p played) []string {
				return []string{p.Wrong, p.Case.Call.Tool, oneLine(p.helped, 52), strconv.Itoa(p.Attempts), oneLine(text(p.Result), 40)}
			},
		},
		{
			"ENDED SOFT: nobody could mend these; the caller gets the tool's own words, and why",
			[]string{"WHAT WAS WRONG", "TOOL", "THE TOOL SAID", "WHY NO OTHER TRY"},
			func(p played) bool { return p.Status == messages.Failed },
			func(p played) []string {
				return []string{p.Wrong, p.Case.Call.Tool, oneLine(text(p.Result), 48), oneLine(p.Reason, 60)}
			},
		},
		{
			"UNKNOWN: the effect may have happened, so no machine tries again",
			[]string{"WHAT WAS WRONG", "TOOL", "THE TOOL SAID"},
			func(p played) bool { return p.Status == messages.StatusUnknown },
			func(p played) []string { return []string{p.Wrong, p.Case.Call.Tool, oneLine(text(p.Result), 80)} },
		},
		{
			"REFUSED: never accepted, and answered all the same",
			[]string{"WHAT WAS WRONG", "TOOL", "THE ANSWER"},
			func(p played) bool { return p.Status == messages.Refused },
			func(p played) []string { return []string{p.Wrong, p.Case.Call.Tool, oneLine(p.Reason, 80)} },
		},
	}
	for i := range all {
		if all[i].recovered() {
			if err := all[i].help(ctx, src); err != nil {
				return err
			}
		}
	}
	w := &failing{w: a.Out}
	w.printf("%s: %d succeeded at once, %d recovered, %d ended soft, %d unknown, %d refused; %s\n", plural(len(all), "call", "calls"),
		s.Succeeded-s.Recovered, s.Recovered, s.Failed, s.Unknown, s.Refused, took.Round(100*time.Millisecond))
	for _, sec := range sections {
		var rows [][]string
		for _, p := range all {
			if sec.wanted(p) {
				rows = append(rows, sec.row(p))
			}
		}
		if len(rows) == 0 {
			continue
		}
		w.printf("\n%s\n", sec.title)
		if w.err == nil {
			w.err = table(a.Out, sec.heading, rows)
		}
	}
	for _, p := range all {
		if p.Status == messages.Succeeded && p.Attempts > 1 {
			w.printf("\nThe story of one of them, as `mulligan explain %s` tells it:\n\n", p.Result.Call)
			return errors.Join(w.err, a.tell(ctx, src, p.Result.Call))
		}
	}
	return w.err
}

// failing is a writer that remembers its first error.
type failing struct {
	w   interface{ Write([]byte) (int, error) }
	err error
}

func (f *failing) printf(format string, args ...any) {
	if f.err == nil {
		_, f.err = fmt.Fprintf(f.w, format, args...)
	}
}

func text(r calls.Result) string {
	if r.Output == nil {
		return fmt.Sprintf("%d bytes", len(r.OutputBase64))
	}
	return *r.Output
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
