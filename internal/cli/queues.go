package cli

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/catalogue"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

func (a *app) queuesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "queues",
		Short: "List the queues of the pool; pause them and limit them",
		Long: `Queues lists the queues that tools are in: how many calls wait in each, how many
workers have in hand, and what operators said of it. A paused queue takes calls in
and hands none to a worker; what workers have goes on to its end.`,
		Example: `  mulligan queues
  mulligan queues pause mail --reason "the mail server moves"
  mulligan queues limit mail --in-flight 20`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listQueues(cmd.Context()) },
	}
	a.conn.flags(c.PersistentFlags())
	list := &cobra.Command{
		Use: "list", Short: "List the queues of the pool", Example: "  mulligan queues list", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listQueues(cmd.Context()) },
	}
	c.AddCommand(list, a.pauseCommand("pause", "Let workers take no more calls of a queue", true),
		a.pauseCommand("resume", "Let workers take calls of a queue again", false), a.limitCommand())
	return c
}

func (a *app) pauseCommand(verb, short string, paused bool) *cobra.Command {
	var reason string
	long := "Pause keeps the broker from handing calls of the queue to any worker, until `mulligan\nqueues resume`. Calls are accepted and wait; those that workers have end as usual, and\ntheir leases are kept. Deadlines and cancellations hold: they end calls that wait. A\nqueue whose pause is answered hands nothing over any more: wait until nothing of it is\nin hand, and it is drained."
	if !paused {
		long = "Resume lets the broker hand over what has waited in a paused queue, in order."
	}
	c := &cobra.Command{
		Use: verb + " QUEUE", Short: short, Long: long, Example: "  mulligan queues " + verb + " mail",
		Args: exactly("the name of the queue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setQueue(cmd.Context(), messages.QueueRequest{Queue: args[0], Pause: &paused, Reason: reason})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for those who see it")
	return c
}

func (a *app) limitCommand() *cobra.Command {
	var inFlight, maxQueued int
	var reason string
	c := &cobra.Command{
		Use:   "limit QUEUE [--in-flight N] [--max-queued N]",
		Short: "Change the limits of a queue while the pool runs",
		Long: `Limit bounds how many calls of a queue workers of the whole pool have in hand at a
time, and how many may wait before submissions are refused. It holds at once; calls
that workers have go on, also above a new limit. The first is divided over the lanes
(high, normal, low, retry), each at its share.`,
		Example: `  mulligan queues limit mail --in-flight 20
  mulligan queues limit mail --in-flight 0 --max-queued 0    # back to what the pool was set up with`,
		Args: exactly("the name of the queue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := messages.QueueRequest{Queue: args[0], Reason: reason}
			if cmd.Flags().Changed("in-flight") {
				r.InFlight = &inFlight
			}
			if cmd.Flags().Changed("max-queued") {
				r.MaxQueued = &maxQueued
			}
			if r.InFlight == nil && r.MaxQueued == nil {
				return usage("give --in-flight or --max-queued, or both")
			}
			if n := inFlight; n != 0 && (n < messages.MinInFlight || n > messages.MaxInFlight) {
				return usage("--in-flight %d: give %d, one for each lane, to %d, or 0 for what the pool was set up with", n, messages.MinInFlight, messages.MaxInFlight)
			}
			if maxQueued < 0 {
				return usage("--max-queued %d is negative; 0 stands for what the coordinators say", maxQueued)
			}
			return a.setQueue(cmd.Context(), r)
		},
	}
	f := c.Flags()
	f.IntVar(&inFlight, "in-flight", 0, "calls in the hands of workers at a time, from 4; 0 for what the pool was set up with")
	f.IntVar(&maxQueued, "max-queued", 0, "calls that may wait; 0 for what the coordinators say")
	f.StringVar(&reason, "reason", "", "why, for those who see it")
	return c
}

func (a *app) setQueue(ctx context.Context, r messages.QueueRequest) (err error) {
	s, err := a.open(ctx, pooling{slots: 1, lease: ownLease}, "")
	if err != nil {
		return err
	}
	defer s.closing(ctx, &err)
	set, err := s.client.SetQueue(ctx, r)
	var refused *client.QueueError
	switch {
	case errors.As(err, &refused) && refused.Code == messages.CodeNotFound:
		return withCode(exitNotFound, err)
	case errors.As(err, &refused):
		return withCode(exitUsage, err)
	case err != nil:
		return err
	case a.json():
		return a.printJSON(set)
	}
	a.say("queue %s: %s", oneLine(set.Queue, 60), queueText(&set))
	return nil
}

func (a *app) listQueues(ctx context.Context) error {
	broker, where, err := a.dial(ctx, "mulligan queues")
	if err != nil {
		return err
	}
	defer broker.Close()
	queues, err := catalogue.Queues(ctx, broker, a.say)
	if err != nil {
		return err
	}
	if a.json() {
		if queues == nil {
			queues = []catalogue.Queue{}
		}
		return a.printJSON(queues)
	}
	if len(queues) == 0 {
		a.say("%s has no queues yet; workers offer tools in them", where)
		return nil
	}
	var rows [][]string
	for _, q := range queues {
		rows = append(rows, []string{oneLine(q.Name, 60), strconv.Itoa(q.Tools), strconv.Itoa(q.Waiting), strconv.Itoa(q.InHand), queueText(q.Settings)})
	}
	return table(a.Out, []string{"QUEUE", "TOOLS", "WAITING", "IN HAND", "STATE"}, rows)
}

// queueText says what operators said of a queue.
func queueText(s *messages.QueueSettings) string {
	if s == nil {
		return "open"
	}
	text := "open"
	if s.Paused {
		text = "paused"
	}
	if s.InFlight > 0 {
		text += ", at most " + strconv.Itoa(s.InFlight) + " in hand"
	}
	if s.MaxQueued > 0 {
		text += ", at most " + strconv.Itoa(s.MaxQueued) + " waiting"
	}
	text += ", by " + oneLine(s.By, 60) + " at " + s.At.UTC().Format(time.RFC3339)
	if s.Reason != "" {
		text += " (" + oneLine(s.Reason, 60) + ")"
	}
	return text
}
