package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/catalogue"
	"mulligan/internal/suggest"
	"mulligan/pkg/hook"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func (a *app) toolsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tools",
		Short: "List the tools of the pool",
		Long: `Tools lists what the pool can call: each tool with its queue, its effect, its
time-out, and how many workers offer it. The effect is what the tool declares, or
what a policy says in its place. A tool is live while a worker renews
its offer, late when all offers have lapsed (its calls wait), and withdrawn when
the last worker took it back (its calls fail). Its circuit breaker is closed, open
for a time after too many failures in a row, or half open while one call is tried.`,
		Example: `  mulligan tools
  mulligan tools -o json | jq -r '.[].name'
  mulligan tools show echo`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listTools(cmd.Context()) },
	}
	a.conn.flags(c.PersistentFlags())
	show := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show one tool with its policy and its schema",
		Long:    "Show prints one tool, its schema, and the policy that holds for its calls: every\nfield with its value and where that stands (default, pool, queue, tool).",
		Example: "  mulligan tools show echo\n  mulligan tools show echo -o json | jq .policy.max_retries",
		Args:    exactly("the name of the tool"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.showTool(cmd.Context(), args[0]) },
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.completeTools(cmd), cobra.ShellCompDirectiveNoFileComp
		},
	}
	list := &cobra.Command{
		Use: "list", Short: "List the tools of the pool", Example: "  mulligan tools list", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listTools(cmd.Context()) },
	}
	c.AddCommand(list, show, a.breakerCommand(), a.toolPauseCommand(), a.toolResumeCommand())
	return c
}

// toolEntry is a tool as it is shown.
type toolEntry struct {
	catalogue.Tool
	breaker string // in words
}

func (t toolEntry) effectText() string {
	if t.PolicyEffect == "" {
		return string(t.Effect)
	}
	return fmt.Sprintf("%s (declared %s)", t.PolicyEffect, t.Effect)
}

// poolTools are the tools of a pool, and its policies.
type poolTools struct {
	where    string
	tools    []toolEntry
	policies recovery.Document
}

// readPool reads the tools of the pool. Policies that cannot be read are told
// to warn, and the tools are shown without them.
func (a *app) readPool(ctx context.Context, as string, warn func(string, ...any)) (poolTools, error) {
	broker, where, err := a.dial(ctx, as)
	if err != nil {
		return poolTools{}, err
	}
	defer broker.Close()
	p := poolTools{where: where}
	now := time.Now()
	tools, held, err := catalogue.Read(ctx, broker, now, warn)
	if err != nil {
		return p, err
	}
	p.policies = held
	for _, t := range tools {
		p.tools = append(p.tools, toolEntry{Tool: t, breaker: breakerOf(t, held, now)})
	}
	return p, nil
}

func (a *app) listTools(ctx context.Context) error {
	p, err := a.readPool(ctx, "mulligan tools", a.say)
	if err != nil {
		return err
	}
	if a.json() {
		if p.tools == nil {
			p.tools = []toolEntry{}
		}
		return a.printJSON(p.tools)
	}
	if len(p.tools) == 0 {
		a.say("%s has no tools yet; workers offer them", p.where)
		return nil
	}
	var rows [][]string
	for _, t := range p.tools {
		rows = append(rows, []string{
			oneLine(t.Name, 60), oneLine(t.Queue, 30), t.effectText(), timeoutText(t.Timeout), t.State, strconv.Itoa(len(t.Workers)), t.breaker, oneLine(t.Description, 60),
		})
	}
	return table(a.Out, []string{"NAME", "QUEUE", "EFFECT", "TIME-OUT", "STATE", "WORKERS", "BREAKER", "DESCRIPTION"}, rows)
}

func timeoutText(m messages.Millis) string {
	if m == 0 {
		return "default"
	}
	return m.Duration().Round(time.Millisecond).String()
}

func (a *app) showTool(ctx context.Context, name string) error {
	p, err := a.readPool(ctx, "mulligan tools", a.say)
	if err != nil {
		return err
	}
	var known []string
	for _, t := range p.tools {
		if t.Name == name {
			policy, err := policyOf(p.policies, t.ToolSpec)
			if err != nil {
				return err
			}
			hooks, err := hooksOf(p.policies, name)
			if err != nil {
				return err
			}
			return a.printTool(t, policy, hooks)
		}
		known = append(known, t.Name)
	}
	return withCode(exitNotFound, fmt.Errorf("%s has no tool %q%s", p.where, name, suggest.Meant(name, known)))
}

func (a *app) printTool(t toolEntry, policy []policyValue, hooks []hook.Rule) error {
	if a.json() {
		fields := make(map[string]policyValue, len(policy))
		for _, v := range policy {
			fields[v.Field] = v
		}
		return a.printJSON(struct {
			toolEntry
			Policy map[string]policyValue `json:"policy"`
			Hooks  []hook.Rule            `json:"hooks,omitempty"`
		}{t, fields, hooks})
	}
	rows := [][]string{
		{"queue", t.Queue}, {"effect", t.effectText()}, {"time-out", timeoutText(t.Timeout)}, {"version", t.Version},
		{"state", t.State}, {"workers", strings.Join(t.Workers, ", ")}, {"breaker", t.breaker}, {"about", oneLine(t.Description, 400)},
	}
	if err := table(a.Out, []string{"tool", oneLine(t.Name, 400)}, rows); err != nil {
		return err
	}
	if err := a.printPolicy(policy); err != nil {
		return err
	}
	if err := a.printHooks(hooks); err != nil {
		return err
	}
	schema := "any object"
	if len(t.Schema) > 0 {
		b, err := json.MarshalIndent(t.Schema, "", "  ")
		if err != nil {
			return fmt.Errorf("schema of %s: %w", t.Name, err)
		}
		schema = string(b)
	}
	_, err := fmt.Fprintf(a.Out, "\narguments: %s\n", schema)
	return err
}

// completeTools gives the names of the tools, if the pool answers quickly.
func (a *app) completeTools(cmd *cobra.Command) []string {
	if err := a.configure(cmd); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	p, err := a.readPool(ctx, "mulligan completion", func(string, ...any) {})
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range p.tools {
		names = append(names, t.Name)
	}
	return names
}
