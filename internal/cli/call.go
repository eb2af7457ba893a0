package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"mulligan/internal/calls"
	"mulligan/internal/inbox"
	"mulligan/internal/story"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

type callOptions struct {
	pooling
	run, ref, lane, task, deadline, notBefore string
	timeout, wait                             time.Duration
	labels                                    map[string]string
	park                                      bool
	retries                                   int
}

func (a *app) callCommand() *cobra.Command {
	o := &callOptions{}
	c := &cobra.Command{
		Use:   "call TOOL JSON",
		Short: "Run one call and print its result",
		Long: `Call submits one call, waits for its end and prints the tool's output as it is.
JSON goes to the tool byte for byte, also where it is malformed; - reads it from
standard input. Ctrl-C leaves the call running.

Exit code: 0 it succeeded, 3 it did not, 4 --wait was over or it waits for a human
(--park, or by a policy), 130 interrupted.`,
		Example: `  mulligan call echo '{"text":"hello"}' --embedded
  mulligan call get_weather '{"city":"Oslo"}' -o json | jq .attempts
  mulligan call import_file - < arguments.json
  mulligan call remind '{"of":"tea"}' --not-before 5m --deadline 1h`,
		Args: exactly("the tool", "the JSON of its arguments (such as '{}')"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.call(cmd.Context(), o, args[0], args[1]) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeTools(cmd), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := c.Flags()
	a.conn.flags(f)
	o.pooling.flags(f)
	f.StringVar(&o.run, "run", "", "name of the run that the call belongs to; a hard end of one of its calls ends the run")
	f.StringVar(&o.ref, "ref", "", "your own id of the call, which is echoed")
	f.StringVar(&o.lane, "lane", "normal", "priority within the queue: high, normal or low")
	f.StringVar(&o.task, "task", "", "what the call is for, which reflectors read")
	f.DurationVar(&o.timeout, "timeout", 0, "time-out of one execution, such as 30s; 0 for the tool's own")
	f.StringVar(&o.deadline, "deadline", "", "when the call expires: a time of RFC 3339, or a duration from now such as 10m")
	f.StringVar(&o.notBefore, "not-before", "", "when the call may start: a time of RFC 3339, or a duration from now such as 10m; until then it waits and holds nothing")
	f.StringToStringVar(&o.labels, "label", nil, "key=value that is echoed; may be given several times")
	f.DurationVar(&o.wait, "wait", 0, "how long to wait for the result; 0 for as long as it takes")
	f.BoolVar(&o.park, "park", false, parkHelp)
	retriesFlag(f, &o.retries)
	f.DurationVar(&o.patience, "patience", 30*time.Second, "how long to keep trying while the queue is full or the pool does not answer")
	_ = c.RegisterFlagCompletionFunc("lane", words("high", "normal", "low"))
	_ = c.RegisterFlagCompletionFunc("tools", yamlFiles)
	return c
}

func (o *callOptions) submission(tool string, input []byte, now time.Time) (messages.Submission, error) {
	s := messages.Submission{
		Call: messages.NewCallID(), Tool: tool, Input: input, Run: o.run, Ref: o.ref, Task: o.task, Labels: o.labels, Timeout: messages.Millis(o.timeout),
		Policy: callPolicy(o.park, o.retries),
	}
	switch lane := messages.Lane(o.lane); lane {
	case messages.LaneHigh, messages.LaneNormal, messages.LaneLow:
		s.Lane = lane
	default:
		return s, usage("--lane %q is none of high, normal, low", o.lane)
	}
	if o.timeout < 0 {
		return s, usage("--timeout %s is negative", o.timeout)
	}
	if o.wait < 0 {
		return s, usage("--wait %s is negative; 0 waits for as long as it takes", o.wait)
	}
	var err error
	if s.Deadline, err = when("--deadline", o.deadline, now); err != nil {
		return s, err
	}
	s.NotBefore, err = when("--not-before", o.notBefore, now)
	return s, err
}

func (a *app) call(ctx context.Context, o *callOptions, tool, input string) (err error) {
	raw := []byte(input)
	if input == "-" {
		if raw, err = io.ReadAll(io.LimitReader(a.In, messages.MaxPayload+1)); err != nil {
			return fmt.Errorf("read the arguments: %w", err)
		}
	}
	sub, err := o.submission(tool, raw, time.Now())
	if err = errors.Join(err, checkPark(o.park, o.embedded), checkRetries(o.retries)); err != nil {
		return err
	}
	s, err := a.open(ctx, o.pooling, "")
	if err != nil {
		return err
	}
	defer s.closing(ctx, &err)
	if o.wait > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, o.wait, errWaitOver)
		defer stop()
	}
	question := func() *inbox.Question { return nil }
	if s.own == nil && o.wait == 0 { // a policy of the pool may park it without --park
		var end func()
		ctx, question, end = untilParked(ctx, s.broker, sub.Call)
		defer end()
	}
	end := a.notice(ctx, noticeAfter, s.broker, sub.Call)
	line, accepted, err := one(ctx, s.client, sub)
	end()
	if err != nil && errors.Is(context.Cause(ctx), errParked) {
		a.tellQuestion(question())
		return quietly(exitUnfinished)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		a.tellLeft(cause, sub.Call, accepted, s.own != nil)
		if accepted && s.own == nil {
			if err := a.tellWhere(context.WithoutCancel(ctx), s.broker, sub); err != nil {
				return err
			}
		}
		return quietly(exitCode(cause))
	}
	if err != nil {
		return err
	}
	return a.printResult(line)
}

// tellLeft says what becomes of a call that nobody waits for any more.
func (a *app) tellLeft(cause error, call string, accepted, own bool) {
	switch {
	case own:
		a.say("%v: call %s is given up with the pool of this process; what its tool did stays done", cause, call)
	case accepted:
		a.say("%v: call %s goes on; `mulligan explain %s` tells where it is", cause, call, call)
	default:
		a.say("%v before it was known whether call %s is accepted; `mulligan explain %s` tells", cause, call, call)
	}
}

// unended is a call that nobody waits for any more, as -o json prints it.
type unended struct {
	Ref   string      `json:"ref"`
	Call  string      `json:"call"`
	Run   string      `json:"run"`
	State story.State `json:"state"` // queued, running, reflecting, waiting, parked; ended by now
	Now   string      `json:"now"`   // where it is, for people
}

// tellWhere says where a call is that goes on.
func (a *app) tellWhere(ctx context.Context, src story.Source, sub messages.Submission) error {
	ctx, stop := context.WithTimeout(ctx, whereFor)
	defer stop()
	u := unended{Ref: sub.Ref, Call: sub.Call, Run: sub.Run, State: story.Queued, Now: "where it is cannot be read"}
	if m, err := story.Gather(ctx, src, sub.Call); err == nil {
		s := story.Build(m, time.Now())
		u.State, u.Now = s.State, s.Now
		if s.State == story.Queued {
			u.Now += pausedText(ctx, src, s.Queue)
		}
	}
	if a.json() {
		return a.printJSON(u)
	}
	a.say("it is %s: %s", u.State, u.Now)
	return nil
}

// whereFor bounds the look at a call that was waited for in vain.
const whereFor = 5 * time.Second

// pausedText says that a queue is paused, and by whom; empty where it is not.
func pausedText(ctx context.Context, src story.Source, queue string) string {
	entries, err := src.Entries(ctx, messages.BucketControl, messages.QueueKey(queue))
	if err != nil || len(entries) == 0 {
		return ""
	}
	q, err := messages.DecodeQueueSettings(entries[0].Value)
	if err != nil || !q.Paused {
		return ""
	}
	return "; the queue is " + queueText(&q) + ", and `mulligan queues resume " + queue + "` lets it go on"
}

// one submits a call and waits for its line.
func one(ctx context.Context, c *client.Client, s messages.Submission) (line calls.Result, accepted bool, err error) {
	batch, err := c.OpenBatch(uuid.NewString(), 0)
	if err != nil {
		return line, false, err
	}
	from, err := c.Position(ctx)
	if err != nil {
		return line, false, err
	}
	refused, err := batch.Submit(ctx, []messages.Submission{s})
	if err != nil {
		return line, false, err
	}
	if len(refused) > 0 {
		return calls.NotAccepted(s, refused[0].Code, refused[0].Text), false, nil
	}
	err = c.Wait(ctx, from, map[string]messages.Run{s.Call: batch.Run(s.Run)}, func(r messages.Result) error {
		output, err := c.Output(ctx, r)
		line = calls.Ended(r, output)
		return err
	})
	return line, true, err
}

func (a *app) printResult(r calls.Result) error {
	if a.json() {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else if err := a.printOutput(r); err != nil {
		return err
	}
	if r.Status != messages.Succeeded {
		return quietly(exitSome)
	}
	return nil
}

func (a *app) printOutput(r calls.Result) error {
	output := r.OutputBase64
	if r.Output != nil {
		output = []byte(*r.Output)
	}
	if r.Status != messages.Refused { // a refusal's output is its reason, told below
		if _, err := a.Out.Write(endLine(output)); err != nil {
			return fmt.Errorf("write the output: %w", err)
		}
	}
	switch {
	case r.Status == messages.Refused:
		a.say("refused: %s", oneLine(r.Reason, 1000))
	case r.Status != messages.Succeeded:
		after := "" // a tool that did nothing spends no attempt
		if r.Attempts > 0 {
			after = " after " + plural(r.Attempts, "attempt", "attempts")
		}
		a.say("%s%s: %s", r.Status, after, oneLine(r.Reason, 300))
		a.say("`mulligan explain %s` tells the story", r.Call)
	case r.RecoveredBy != "" || r.Attempts > 1:
		a.say("recovered after %s: %s", plural(r.Attempts, "attempt", "attempts"), r.RecoveredBy)
	}
	return nil
}

func endLine(b []byte) []byte {
	if len(b) == 0 || strings.HasSuffix(string(b[len(b)-1:]), "\n") {
		return b
	}
	return append(b[:len(b):len(b)], '\n')
}
