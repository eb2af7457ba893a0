package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mulligan/pkg/tool"
)

// ToolWorker is a worker for tools that are written in Go: the worker service
// with its flags, configuration, health and drain, but for where its tools come
// from.
type ToolWorker struct {
	// Name is how the program is called, such as "shop worker"; Short says what it does in a line,
	// Long and Example as its help shows them.
	Name, Short, Long, Example string
	// Flags adds what the tools need. Nil for nothing.
	Flags func(*pflag.FlagSet)
	// Tools makes the tools, when the flags have their values. An error is one
	// of usage.
	Tools func() ([]*tool.Tool, error)
}

// Run is a [Program].
func (t ToolWorker) Run(ctx context.Context, env IO, args []string) int {
	a := newApp(t.Name, env)
	o := &workerOptions{}
	c := a.root(strings.ReplaceAll(t.Name, " ", "-"), t.Short, t.Long)
	c.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: t.Name}
	c.Example = t.Example
	c.Args = noArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		tools, err := t.Tools()
		if err != nil {
			return withCode(exitUsage, err)
		}
		return a.work(cmd.Context(), o, tools, nil)
	}
	a.workerFlags(c, o)
	if t.Flags != nil {
		t.Flags(c.Flags())
	}
	return a.run(ctx, c, args)
}
