package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/catalogue"
	"mulligan/internal/policies"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Show and set the policies of the pool",
		Long: `Policy is about what a pool does with calls that fail: how often and when they are
tried again, which reflectors look at them, what is left to a human. One document
holds for the whole pool, with values for the pool, for queues and for tools;
docs/policies.md lists them. A change takes effect at once, without a restart.`,
		Example: "  mulligan policy show\n  mulligan policy set policies.yaml",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.policyShowCommand(), a.policySetCommand(), a.policyCheckCommand(), a.policyClearCommand())
	return c
}

func (a *app) policyShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the policies of the pool",
		Long: `Show prints the document of the pool as YAML, which policy set reads, with who set
it and when; -o json prints all of that as one object. What holds for one tool in
the end is told by mulligan tools show.`,
		Example:     "  mulligan policy show > policies.yaml\n  mulligan policy show -o json | jq .document.tools",
		Args:        noArgs,
		Annotations: map[string]string{printsYAML: "yes"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.showPolicies(cmd.Context()) },
	}
	a.conn.flags(c.Flags())
	return c
}

func (a *app) policySetCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "set FILE",
		Short: "Replace the policies of the pool",
		Long: `Set replaces the document of the pool by that of FILE, in YAML or JSON; - reads
standard input. It prints what changes. A document of which any value cannot be used
is refused as a whole, and one that somebody else has changed meanwhile is not
replaced.`,
		Example: "  mulligan policy set policies.yaml\n  mulligan policy set policies.yaml --dry-run\n  mulligan policy show | sed 's/max_retries: 3/max_retries: 1/' | mulligan policy set -",
		Args:    exactly("the file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, _, err := a.readPolicies(args[0])
			if err != nil {
				return err
			}
			return a.setPolicies(cmd.Context(), raw, dry)
		},
		ValidArgsFunction: yamlFiles,
	}
	a.conn.flags(c.Flags())
	c.Flags().BoolVar(&dry, "dry-run", false, "only print what would change")
	return c
}

func (a *app) policyCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say whether a document can be used",
		Long: `Check reads a document as policy set does, hooks and rules included, and says what is
wrong with it. It connects to nobody, so that it can run where a document is kept.`,
		Example: "  mulligan policy check policies.yaml",
		Args:    exactly("the file"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, d, err := a.readPolicies(args[0])
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(d)
			}
			_, err = fmt.Fprintf(a.Out, "%s can be used: it speaks of %s, %s, %s and %s\n", args[0],
				plural(len(d.Queues), "queue", "queues"), plural(len(d.Tools), "tool", "tools"),
				plural(len(d.Rules), "rule", "rules"), plural(len(d.Hooks), "hook", "hooks"))
			return err
		},
		ValidArgsFunction: yamlFiles,
	}
}

func (a *app) policyClearCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "clear",
		Short:   "Take the policies of the pool away",
		Long:    "Clear takes the document of the pool away, so that the policy holds that Mulligan is\nshipped with. It prints what changes.",
		Example: "  mulligan policy clear",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.setPolicies(cmd.Context(), json.RawMessage("null"), false)
		},
	}
	a.conn.flags(c.Flags())
	return c
}

// policyFlag is that of the processes that bring the policies of their pool.
func policyFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "policy", "", "file of the policies of the pool (mulligan policy set), put there at the start in place of others; empty leaves what is there")
	_ = c.RegisterFlagCompletionFunc("policy", yamlFiles)
}

// policyDocument is what such a process puts there; nil for nothing.
func (a *app) policyDocument(file string) (json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	raw, _, err := a.readPolicies(file)
	return raw, err
}

// readPolicies reads and checks a file; - is standard input.
func (a *app) readPolicies(path string) (json.RawMessage, recovery.Document, error) {
	text, err := a.readText(path)
	if err != nil {
		return nil, recovery.Document{}, err
	}
	raw, d, err := policies.Parse(text)
	if err != nil {
		return nil, d, usage("%s: %w", path, err)
	}
	return raw, d, nil
}

func (a *app) readText(path string) ([]byte, error) {
	if path == "-" {
		text, err := io.ReadAll(io.LimitReader(a.In, 2<<20)) // more than is ever used
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return text, nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, withCode(exitNotFound, err)
	}
	return text, withCode(exitUsage, err)
}

func (a *app) showPolicies(ctx context.Context) error {
	broker, where, err := a.dial(ctx, "mulligan policy")
	if err != nil {
		return err
	}
	defer broker.Close()
	h, err := catalogue.Policies(ctx, broker)
	if err != nil {
		if h.Document == nil {
			return err
		}
		a.say("%v", err)
	}
	if a.json() {
		return a.printJSON(h)
	}
	text, err := policies.YAML(h.Document)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "# %s\n%s", headOf(h, where), text)
	return err
}

// head says where a document is from.
func headOf(h catalogue.Held, where string) string {
	switch {
	case h.Revision == 0:
		return where + " has no policies of its own: the shipped ones hold"
	case h.Document == nil:
		return fmt.Sprintf("revision %d: taken away by %s at %s, the shipped policies hold", h.Revision, h.By, h.At.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("revision %d, set by %s at %s", h.Revision, h.By, h.At.UTC().Format(time.RFC3339))
}

// setPolicies replaces what it has compared with, and nothing else.
func (a *app) setPolicies(ctx context.Context, raw json.RawMessage, dry bool) (err error) {
	next, err := policies.Check(raw)
	if err != nil {
		return withCode(exitUsage, err)
	}
	s, err := a.open(ctx, pooling{slots: 1, lease: ownLease}, "")
	if err != nil {
		return err
	}
	defer s.closing(ctx, &err)
	h, err := catalogue.Policies(ctx, s.broker)
	if err != nil {
		a.say("%v; it is replaced as a whole", err)
	}
	changes := policies.Diff(h.Read, next)
	if !dry && !policies.Same(h.Document, raw) {
		if h.Revision, err = s.client.SetPolicies(ctx, messages.PolicyRequest{Document: raw, Expect: h.Revision}); err != nil {
			return err
		}
	}
	a.warnOfNames(ctx, s.broker, next)
	return a.printChanges(h.Revision, changes, dry)
}

func (a *app) printChanges(revision uint64, changes []policies.Change, dry bool) error {
	if a.json() {
		if changes == nil {
			changes = []policies.Change{}
		}
		return a.printJSON(map[string]any{"revision": revision, "changes": changes, "dry_run": dry})
	}
	for _, c := range changes {
		if _, err := fmt.Fprintln(a.Out, c); err != nil {
			return err
		}
	}
	switch {
	case len(changes) == 0:
		a.say("nothing changes (revision %d)", revision)
	case dry:
		a.say("not set: --dry-run")
	default:
		a.say("set: revision %d", revision)
	}
	return nil
}

// warnOfNames tells of tools and queues that the pool does not have: they may
// come yet, or be misspelt.
func (a *app) warnOfNames(ctx context.Context, src catalogue.Entries, d recovery.Document) {
	tools, err := catalogue.Tools(ctx, src, func(string, ...any) {})
	if err != nil {
		return // it is a service to the reader only
	}
	var names, queues []string
	for _, t := range tools {
		names, queues = append(names, t.Name), append(queues, t.Queue)
	}
	for _, text := range append(policies.Unknown("tool", d.Tools, names), policies.Unknown("queue", d.Queues, queues)...) {
		a.say("%s", text)
	}
}
