package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"mulligan/internal/calls"
	"mulligan/internal/runstate"
	"mulligan/pkg/messages"
)

// then runs the command that stands behind --, without a shell: with told as
// JSON on its standard input, and the run's name in its environment. The variable
// is none that stands for --run, or a mulligan in it would submit to that run.
func (a *app) then(ctx context.Context, command []string, run messages.Run, told any) error {
	if len(command) == 0 {
		return nil
	}
	text, err := marshalLine(told)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Env = slices.Concat(a.Env, []string{"MULLIGAN_ENDED_RUN=" + runstate.NameOf(run)})
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(text+"\n"), a.Err, a.Err // standard output holds results
	if err := c.Run(); err != nil {
		return fmt.Errorf("command %q, after the end of run %s: %w", command[0], runstate.NameOf(run), err)
	}
	return nil
}

// lineWriter writes results a line each.
type lineWriter struct{ w *bufio.Writer }

func newLineWriter(w io.Writer) lineWriter { return lineWriter{bufio.NewWriterSize(w, 64<<10)} }

func (l lineWriter) print(r calls.Result) error {
	b, err := r.Line()
	if err == nil {
		_, err = l.w.Write(append(b, '\n'))
	}
	return err
}

func (l lineWriter) flush() error { return l.w.Flush() }
