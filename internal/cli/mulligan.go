package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// Mulligan is the command that a person types.
func Mulligan(ctx context.Context, env IO, args []string) int {
	a := newApp("mulligan", env)
	return a.run(ctx, mulliganTree(a), args)
}

func mulliganTree(a *app) *cobra.Command {
	root := a.root("mulligan", "Run the tool calls of LLM agents, with a second, better-informed try for those that fail",
		`Mulligan runs tool calls on workers over NATS JetStream. A call that fails is looked
at, corrected where that is possible, tried again within bounds, and explained.

Commands connect to: --server, else MULLIGAN_SERVER or mulligan.yaml, else the
selected NATS context, else a running `+"`mulligan up`"+` in the state folder. Every flag
can be set by an environment variable (MULLIGAN_STORE_LIMIT for --store-limit) or a
key of that name in mulligan.yaml, in this folder or the user's configuration folder.

Exit codes: 0 all well, 1 internal, 2 usage, 3 some calls did not succeed,
4 not finished in time or waiting for a human, 5 the pool cannot be reached,
6 not found, 130 interrupted.`)
	root.Example = "  mulligan demo\n  mulligan up &\n  mulligan call echo '{\"text\":\"hello\"}'"
	root.AddCommand(
		a.upCommand(), a.demoCommand(), a.runCommand(), a.callCommand(), a.cancelCommand(), a.inboxCommand(), a.answerCommand(),
		a.explainCommand(), a.failuresCommand(), a.replayCommand(), a.runsCommand(), a.toolsCommand(), a.queuesCommand(),
		a.policyCommand(), a.mcpCommand(), a.benchCommand(), a.evalCommand(), a.adminCommand(), a.versionCommand(),
	)
	return root
}

// trees are the commands of all programs; they share a configuration file.
func trees() []func(*app) *cobra.Command {
	return []func(*app) *cobra.Command{mulliganTree, coordinatorTree, workerTree, reflectorTree}
}
