package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"mulligan/internal/inbox"
	"mulligan/internal/suggest"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

type answerOptions struct {
	asking
	kind       messages.AnswerKind
	reason, by string
	input      string
	all, yes   bool
}

func answerKinds() []string { return []string{"approve", "edit", "retry", "skip", "fail"} }

func (a *app) answerCommand() *cobra.Command {
	o := &answerOptions{}
	c := &cobra.Command{
		Use:   "answer approve|edit|retry|skip|fail CALL…",
		Short: "Answer calls that wait for a human",
		Long: `Answer gives calls that wait for a human (see mulligan inbox) their answer:

  approve  run the call again with the correction that is proposed
  edit     run it again with another input, that of --input
  retry    run it again as it is
  skip     end it: it is not needed
  fail     end it: it must not be done

The first answer wins; whoever comes second is told who was first. Skip and fail
are a no to the same call in the same named run too: it is not asked again there.
No answer grants a seventh attempt. CALL is an id, the beginning of one, or a ref.

Exit code: 0 every answer counts, 3 some were refused, 6 there is no such call.`,
		Example: `  mulligan answer approve 01890000-0000-7000-8000-000000000001
  mulligan answer edit r42 --input '{"amount":"12.50"}' --reason "the invoice says so"
  mulligan answer fail 01890000 --reason "wrong customer" --by anna
  mulligan answer retry --all --tool get_weather --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("answer: the answer is missing, one of %s; see mulligan answer --help", strings.Join(answerKinds(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.answer(cmd.Context(), o, args[0], args[1:]) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return answerKinds(), cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeParked(math.MaxInt)(cmd, args, prefix)
		},
	}
	f := c.Flags()
	a.conn.flags(f)
	f.StringVar(&o.reason, "reason", "", "why; the caller's model and the story of the call are told")
	f.StringVar(&o.by, "by", "", "who answers (default USER@HOST)")
	f.StringVar(&o.input, "input", "", "for edit: the JSON of the new input; @FILE reads a file, - standard input")
	f.BoolVar(&o.all, "all", false, "answer every call that waits, or those of --tool and --run; it says how many, and needs --yes")
	f.StringVar(&o.tool, "tool", "", "with --all: only calls of this tool")
	f.StringVar(&o.run, "run", "", "with --all: only calls of this run")
	f.BoolVar(&o.yes, "yes", false, "with --all: do it, and do not only count")
	_ = c.RegisterFlagCompletionFunc("tool", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.completeTools(cmd), cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

func (o *answerOptions) check(kind string, calls []string) error {
	if err := o.kind.UnmarshalText([]byte(kind)); err != nil || o.kind == messages.AnswerTimedOut {
		return usage("%q is no answer: give one of %s%s", kind, strings.Join(answerKinds(), ", "), suggest.Meant(kind, answerKinds()))
	}
	switch edit := o.kind == messages.AnswerEdit; {
	case edit && o.input == "":
		return usage("edit needs the new input: --input JSON, @FILE or -")
	case !edit && o.input != "":
		return usage("--input is for edit, and %s takes none", o.kind)
	case edit && (o.all || len(calls) > 1):
		return usage("edit is for one call at a time: each has an input of its own")
	case o.all && len(calls) > 0:
		return usage("--all and %s exclude each other: give calls, or --all with --tool or --run", calls[0])
	case !o.all && (o.tool != "" || o.run != "" || o.yes):
		return usage("--tool, --run and --yes are for --all; calls are named one by one otherwise")
	case !o.all && len(calls) == 0:
		return usage("%s: the call is missing; `mulligan inbox` lists those that wait, --all takes them all", o.kind)
	}
	return nil
}

// edited is the input of --input.
func (a *app) edited(value string) (*messages.Body, error) {
	var in io.Reader
	switch {
	case value == "":
		return nil, nil
	case value == "-":
		in = a.In
	case strings.HasPrefix(value, "@"):
		f, err := os.Open(value[1:])
		if err != nil {
			return nil, usage("--input: %w", err)
		}
		defer f.Close()
		in = f
	default:
		in = strings.NewReader(value)
	}
	b, err := io.ReadAll(io.LimitReader(in, messages.MaxPayload+1))
	if err != nil {
		return nil, usage("--input: %w", err)
	}
	if len(b) > messages.MaxPayload {
		return nil, usage("--input is longer than the limit of %d bytes", messages.MaxPayload)
	}
	return &messages.Body{Inline: b}, nil
}

func (a *app) answer(ctx context.Context, o *answerOptions, kind string, calls []string) (err error) {
	if err := o.check(kind, calls); err != nil {
		return err
	}
	input, err := a.edited(o.input)
	if err != nil {
		return err
	}
	s, err := a.open(ctx, pooling{slots: 1, lease: ownLease}, "")
	if err != nil {
		return err
	}
	defer s.closing(ctx, &err)
	request := messages.AnswerRequest{Kind: o.kind, Input: input, Reason: o.reason, By: o.by}
	if o.all {
		return a.answerAll(ctx, s, o, request)
	}
	answers := make([]given, 0, len(calls))
	for _, word := range calls {
		answers = append(answers, meant(ctx, s.broker, word))
	}
	return a.giveAnswers(ctx, s.client, request, answers)
}

// meant is the question that a word means. A call whose question was answered
// is asked about that one again, so that the coordinators say who was first.
func meant(ctx context.Context, src inbox.Source, word string) given {
	place, err := theOne(ctx, src, word)
	if err == nil {
		return given{place: place}
	}
	var asksNothing *silentError
	if errors.As(err, &asksNothing) && asksNothing.answered != nil {
		return given{place: *asksNothing.answered}
	}
	return given{place: inbox.Place{Call: word}, err: err}
}

// answerAll answers all calls of a kind, once it was said how many they are.
func (a *app) answerAll(ctx context.Context, s *session, o *answerOptions, request messages.AnswerRequest) error {
	places, err := o.places(ctx, s.broker)
	if err != nil {
		return err
	}
	if o.tool != "" {
		asked, err := inbox.Read(ctx, s.broker, places, 0, o.keep, a.leaveOut)
		if err != nil {
			return err
		}
		places = places[:0]
		for _, q := range asked {
			places = append(places, q.Place)
		}
	}
	switch {
	case len(places) == 0:
		a.say("no call%s waits for a human", o.whose())
		return nil
	case !o.yes:
		return usage("%s%s would be answered %s; nothing was answered yet, --yes does it", plural(len(places), "call", "calls"), o.whose(), o.kind)
	}
	answers := make([]given, len(places))
	for i, p := range places {
		answers[i].place = p
	}
	return a.giveAnswers(ctx, s.client, request, answers)
}

// given is an answer on its way, and what became of it.
type given struct {
	place inbox.Place
	err   error
}

// answersAtOnce bounds how many answers are under way at a time.
const answersAtOnce = 16

// giveAnswers tells of each answer as it is known.
func (a *app) giveAnswers(ctx context.Context, c *client.Client, request messages.AnswerRequest, answers []given) error {
	var g errgroup.Group
	g.SetLimit(answersAtOnce)
	var telling sync.Mutex
	var told error
	for i := range answers {
		x := &answers[i]
		g.Go(func() error {
			if x.err == nil {
				r := request
				r.Run, r.Call, r.Dispatch = x.place.Run, x.place.Call, x.place.Dispatch
				x.err = c.Answer(ctx, r)
			}
			telling.Lock()
			defer telling.Unlock()
			told = errors.Join(told, a.tellAnswer(request.Kind, *x))
			return nil
		})
	}
	_ = g.Wait() // each error stands with its answer
	if told != nil {
		return told
	}
	return a.judgeAnswers(ctx, answers)
}

// answerLine is a line of `mulligan answer -o json`.
type answerLine struct {
	Call     string              `json:"call"`
	Answer   messages.AnswerKind `json:"answer"`
	Counts   bool                `json:"counts"` // it was the first, and is durable
	Code     messages.Code       `json:"code,omitempty"`
	Error    string              `json:"error,omitempty"`
	First    *messages.Answer    `json:"first,omitempty"` // the answer that was there before
	Dispatch int                 `json:"dispatch"`
}

func (a *app) tellAnswer(kind messages.AnswerKind, x given) error {
	line := answerLine{Call: x.place.Call, Answer: kind, Counts: x.err == nil, Dispatch: x.place.Dispatch}
	if x.err != nil {
		line.Error = x.err.Error()
	}
	var refused *client.AnswerError
	if errors.As(x.err, &refused) {
		line.Code, line.Error, line.First = refused.Code, refused.Text, refused.First
	}
	switch {
	case a.json():
		return a.printJSON(line)
	case x.err != nil:
		a.say("%s  not answered: %s", line.Call, oneLine(line.Error, 1000))
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s\n", line.Call, kind)
	return err
}

// judgeAnswers gives the exit code of them all.
func (a *app) judgeAnswers(ctx context.Context, answers []given) error {
	refused, missing, mistaken := 0, 0, 0
	for _, x := range answers {
		switch {
		case x.err == nil:
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(x.err, messages.ErrNoResponder):
			return withCode(exitUnreachable, fmt.Errorf("no coordinator answers: %w", x.err))
		case exitCode(x.err) == exitNotFound:
			missing++
		case exitCode(x.err) == exitUsage:
			mistaken++
		}
		refused++
	}
	switch {
	case refused == 0:
		return nil
	case refused < len(answers):
		a.say("%d of %s count, %d do not", len(answers)-refused, plural(len(answers), "answer", "answers"), refused)
	case missing == len(answers):
		return quietly(exitNotFound)
	case mistaken == len(answers):
		return quietly(exitUsage)
	}
	return quietly(exitSome)
}
