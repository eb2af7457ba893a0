package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/archive"
	"mulligan/internal/runstate"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

func (a *app) runsExportCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "export RUN",
		Short: "Write all that the pool keeps of a run as lines of JSON",
		Long: `Export writes a line that says what the run is, one for each of its calls in the order of
their ids, and one at the end: the call as it was submitted, where that is known, its
result, its story, and, before the first call that has them, large inputs and outputs.
Of a call that succeeded at once no pool keeps what it was given. The same run gives the
same bytes. ` + "`mulligan runs import`" + ` brings them in again.

What has outlived its retention is named in the line of its call, and counted.

Exit code: 0 all is there, 3 something has outlived its retention, 4 calls of the run have
not ended, so that the file cannot be brought in, 6 there is no such run.`,
		Example: "  mulligan runs export nightly --to nightly.jsonl\n  mulligan runs export nightly | gzip > nightly.jsonl.gz\n  mulligan runs export nightly | jq -c 'select(.result.is_error).submission' > again.jsonl",
		Args:    exactly("the run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := runOf(args[0])
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s *session, _ *client.Runs) error {
				return a.exportRun(cmd.Context(), s, run, to)
			})
		},
	}
	c.Flags().StringVar(&to, "to", "-", "file to write, which appears when it is whole; - for standard output")
	return c
}

func (a *app) exportRun(ctx context.Context, s *session, run messages.Run, to string) error {
	sum, err := archive.Summary{}, error(nil)
	write := func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<20)
		sum, err = archive.Export(ctx, s.broker, run, out, a.archiveProgress("written"))
		return errors.Join(err, out.Flush())
	}
	if to == "-" {
		err = write(a.Out)
	} else {
		err = a.writeWhole(to, write)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return withCode(exitCode(cause), err)
		}
		return err
	}
	if a.json() && to != "-" {
		if err := a.printJSON(sum.Tail); err != nil {
			return err
		}
	}
	a.say("exported: run %s, %s with %s, %s", runstate.NameOf(run), plural64(sum.Tail.Calls, "call", "calls"),
		plural64(sum.Head.Results, "result", "results"), plural64(sum.Tail.Payloads, "large input or output", "large inputs and outputs"))
	switch {
	case !sum.Head.Whole:
		a.say("the run is not over: what has not ended is not in it, and it cannot be brought in; `mulligan runs wait` waits for its end")
		return quietly(exitUnfinished)
	case sum.Tail.Missing > 0:
		a.say("%s had outlived their retention, or cannot be read: `jq -c 'select(.missing)'` shows which", plural64(sum.Tail.Missing, "part", "parts"))
		return quietly(exitSome)
	}
	return nil
}

// writeWhole has a file appear when it is whole.
func (a *app) writeWhole(path string, write func(io.Writer) error) (err error) {
	path = a.inDir(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), ignoreGone(os.Remove(f.Name())))
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	return os.Rename(f.Name(), path)
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (a *app) inDir(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(a.Dir, path)
}

// archiveProgress shows how far a file is, on a terminal.
func (a *app) archiveProgress(what string) func(done, of int64) {
	if !a.Terminal {
		return nil
	}
	shown := time.Time{}
	return func(done, of int64) {
		if now := time.Now(); done < of && now.Sub(shown) < 200*time.Millisecond {
			return
		} else {
			shown = now
		}
		fmt.Fprintf(a.Err, "\r\x1b[K%s of %s calls %s", thousands(int(done)), thousands(int(of)), what)
		if done >= of {
			fmt.Fprint(a.Err, "\r\x1b[K")
		}
	}
}

func (a *app) runsImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Bring in a run that was exported",
		Long: `Import reads a file of ` + "`mulligan runs export`" + ` and writes its results and stories into the
pool, another one or the same after a deletion, so that the run can be listed, explained
and replayed there. Nothing of it is executed. The whole file is checked before anything
is written. After a crash the same command goes on.

A run that the pool has is not touched. Ages count from the import on. A call without a
result is left out. It needs the key of an importer (` + "`mulligan admin permissions`" + `).

Exit code: 0 all is there, 2 the file or the run cannot be used, 3 calls without a result
were left out, 6 there is no such file.`,
		Example: "  mulligan runs import nightly.jsonl\n  mulligan runs import nightly.jsonl --pool archive",
		Args:    exactly("the file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.importRun(cmd.Context(), args[0])
		},
	}
}

func (a *app) importRun(ctx context.Context, path string) (err error) {
	f, err := os.Open(a.inDir(path))
	if err != nil {
		return notFound(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if st, err := f.Stat(); err == nil && !st.Mode().IsRegular() {
		return usage("%s is no file: it is read twice, to be checked before anything is written", path)
	}
	pool, err := messages.NewPool(a.conn.pool)
	if err != nil {
		return withCode(exitUsage, err)
	}
	checked, err := archive.Check(ctx, f, pool)
	var le *archive.LineError
	if errors.As(err, &le) {
		return usage("%s: %w; nothing was written", path, err)
	}
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return a.withRuns(ctx, func(s *session, _ *client.Runs) error {
		err := archive.Import(ctx, s.broker, f, checked, a.by(), a.archiveProgress("there"))
		switch cause := context.Cause(ctx); {
		case errors.Is(err, archive.ErrExists):
			return withCode(exitUsage, err)
		case err != nil && cause != nil:
			return withCode(exitCode(cause), fmt.Errorf("%w; the same command goes on", err))
		case err != nil:
			return fmt.Errorf("%w; when its cause is gone, the same command goes on", err)
		}
		a.say("imported: run %s, %s with %s", runstate.NameOf(checked.Head.Run), plural64(checked.Tail.Calls-checked.Left, "call", "calls"),
			plural64(checked.Tail.Payloads, "large input or output", "large inputs and outputs"))
		if a.json() {
			if err := a.printJSON(checked.Tail); err != nil {
				return err
			}
		}
		if checked.Left > 0 {
			a.say("%s had outlived their retention and were left out", plural64(checked.Left, "result", "results"))
			return quietly(exitSome)
		}
		return nil
	})
}
