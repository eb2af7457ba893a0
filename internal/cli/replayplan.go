package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mulligan/internal/calls"
	"mulligan/internal/reflection"
	"mulligan/internal/replay"
	"mulligan/internal/replay/scan"
	"mulligan/internal/story"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// planning is one plan in the making.
type planning struct {
	a       *app
	o       *replayOptions
	planner *replay.Planner
	stories *scan.Stories
	judge   *reflection.Judge // nil: no reflector is asked
	inputs  []*calls.Inputs

	before replay.Tally // of the originals of what is submitted
	runs   map[messages.Run]bool
	left   map[replay.Reason]int
}

var errSlowChange = errors.New("it takes longer than a second")

// plan plans each call in turn.
func (p *planning) plan(ctx context.Context, list []*replay.Original, fn func(replay.Item) error) (err error) {
	for _, path := range p.o.inputs {
		in, err := calls.OpenInputs(path)
		if err != nil {
			return withCode(exitUsage, fmt.Errorf("--inputs: %w", err))
		}
		defer func() { err = errors.Join(err, in.Close()) }()
		p.inputs = append(p.inputs, in)
	}
	for _, o := range list {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		it, err := p.one(ctx, o)
		if err != nil {
			return err
		}
		if it.Left != nil {
			p.left[it.Left.Reason]++
		} else {
			p.before.Add(o)
			p.runs[o.Run] = true
		}
		o.Forget()
		if err := fn(it); err != nil {
			return err
		}
	}
	return nil
}

func (p *planning) one(ctx context.Context, o *replay.Original) (replay.Item, error) {
	if err := p.stories.Fill(ctx, o); err != nil {
		return replay.Item{}, err
	}
	if !o.HasInput {
		if err := p.fromFiles(o); err != nil {
			return replay.Item{}, err
		}
	}
	var proposal *replay.Proposal
	if p.judge != nil && o.HasInput {
		var err error
		if proposal, err = p.proposal(ctx, o); err != nil {
			return replay.Item{}, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errSlowChange)
	defer cancel()
	if !p.planner.Change.None() {
		var end func()
		ctx, end = withRoom(ctx, changeRoom)
		defer end()
	}
	return p.planner.Plan(ctx, o, proposal), nil
}

// fromFiles looks for the input in the files that were given.
func (p *planning) fromFiles(o *replay.Original) error {
	for _, in := range p.inputs {
		s, ok, err := in.Call(o.Result.Call)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		o.HasInput, o.Input = true, s.Input
		o.Call = messages.Call{ID: s.Call, Key: cmp.Or(s.Key, s.Call), Timeout: s.Timeout, Task: s.Task, Labels: s.Labels, Policy: s.Policy}
		return nil
	}
	return nil
}

// judge is what the reflectors of the pool would say, in this process.
func (a *app) judge(ctx context.Context, o *replayOptions, broker *jetstream.Pool, tools map[string]messages.ToolSpec) (*reflection.Judge, error) {
	log := a.logger(slogQuiet)
	model, err := o.llm.reflector(a, log)
	if err != nil {
		return nil, err
	}
	held, err := broker.Load(ctx, messages.BucketControl, messages.PolicyKey)
	if err != nil && !errors.Is(err, messages.ErrNotFound) {
		return nil, fmt.Errorf("the policies of the pool cannot be read: %w", err)
	}
	var live []messages.ToolSpec
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		live = append(live, tools[name])
	}
	return reflection.NewJudge(reflection.Config{Model: model, Log: log}, held, live)
}

// proposal asks about the failure that the end speaks of.
func (p *planning) proposal(ctx context.Context, o *replay.Original) (*replay.Proposal, error) {
	f, input, err := p.stories.Last(ctx, o)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return &replay.Proposal{Why: "there is no failure that could be reflected on"}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.llm.analyseTimeout())
	defer cancel()
	d, err := p.judge.Decide(ctx, *f, input)
	if err != nil {
		return nil, fmt.Errorf("reflect on call %s: %w", o.Result.Call, err)
	}
	by := d.By
	if d.Rule != "" {
		by += "/" + d.Rule
	}
	if d.Action.Type != messages.ActRetry {
		return &replay.Proposal{By: by, Why: by + ": " + d.Action.String()}, nil
	}
	out := &replay.Proposal{Retry: true, By: by}
	if d.Analysis == nil || d.Analysis.Correction == nil {
		return out, nil
	}
	switch c := d.Analysis.Correction; c.Type {
	case messages.InputFix:
		out.Tool, out.Input = f.Call.Tool, c.ModifiedInput
	case messages.ToolChange:
		if c.AlternativeTool != nil {
			out.Tool, out.Input = *c.AlternativeTool, c.ModifiedInput
			if out.Input == nil { // the input is kept (S3.3)
				out.Input = input
			}
		}
	default:
		return out, nil
	}
	if out.Input != nil && o.Tried(recovery.Digest(out.Tool, out.Input)) {
		return &replay.Proposal{By: by, Why: by + " proposes an input that was tried before"}, nil
	}
	return out, nil
}

// planSummary is the last line of a dry run.
type planSummary struct {
	Replayed groups                `json:"replayed"`
	LeftOut  map[replay.Reason]int `json:"left_out"`
	DryRun   bool                  `json:"dry_run"`
}

// show prints what would be done.
func (p *planning) show(ctx context.Context, list []*replay.Original) error {
	out := bufio.NewWriter(p.a.Out)
	err := p.plan(ctx, list, func(it replay.Item) error {
		if p.a.json() {
			line, err := marshalLine(it)
			if err == nil {
				_, err = io.WriteString(p.a.veil.over(out), line+"\n")
			}
			return err
		}
		if text := describeItem(it); text != "" {
			_, err := io.WriteString(p.a.veil.over(out), text)
			return err
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, out.Flush())
	}
	sum := planSummary{groupsOf(&p.before), p.left, true}
	sum.Replayed.Texts = nil
	if p.a.json() {
		err = encodeJSON(out, sum)
	} else {
		_, err = io.WriteString(out, sum.text(len(list)))
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// describeItem is a call of a dry run, for people; empty for one that is
// replayed as it was.
func describeItem(it replay.Item) string {
	var b strings.Builder
	switch {
	case it.Left != nil:
		fmt.Fprintf(&b, "%s %s  left out: %s\n", it.Call, oneLine(it.Tool, 40), oneLine(it.Left.Text, 300))
	case len(it.Changes) > 0:
		by := ""
		if it.By != "" {
			by = " (" + it.By + ")"
		}
		fmt.Fprintf(&b, "%s %s%s\n", it.Call, oneLine(it.Tool, 40), by)
	default:
		return ""
	}
	for _, c := range it.Changes {
		fmt.Fprintf(&b, "    %s\n", describeChange(c))
	}
	return b.String()
}

func describeChange(c story.Change) string {
	const most = 200
	switch {
	case c.To == "":
		return fmt.Sprintf("%s: %s removed", oneLine(c.Path, most), oneLine(c.From, most))
	case c.From == "":
		return fmt.Sprintf("%s: %s added", oneLine(c.Path, most), oneLine(c.To, most))
	}
	return fmt.Sprintf("%s: %s becomes %s", oneLine(c.Path, most), oneLine(c.From, most), oneLine(c.To, most))
}

func (s planSummary) text(selected int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s would be replayed\n", thousands(s.Replayed.Total), plural(selected, "call", "calls"))
	s.Replayed.write(&b)
	if len(s.LeftOut) > 0 {
		fmt.Fprintf(&b, "left out\n")
		for _, r := range slices.Sorted(maps.Keys(s.LeftOut)) {
			fmt.Fprintf(&b, "  %8s  %s\n", thousands(s.LeftOut[r]), strings.ReplaceAll(string(r), "_", " "))
		}
	}
	return b.String()
}

// write writes the plan into a new folder; the manifest comes last, and with
// nothing to replay there is no folder.
func (p *planning) write(ctx context.Context, dir string, list []*replay.Original) (m manifest, err error) {
	err = os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return m, usage("%s is there already; give another --dir, or go on with it: mulligan replay resume %s", dir, dir)
	case err != nil:
		return m, withCode(exitUsage, fmt.Errorf("--dir: %w", err))
	}
	var callsOut, leftOut *lineFile
	if callsOut, err = newLineFile(filepath.Join(dir, replayCalls)); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, callsOut.close()) }()
	if leftOut, err = newLineFile(filepath.Join(dir, replayLeftOut)); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, leftOut.close()) }()
	err = p.plan(ctx, list, func(it replay.Item) error {
		if it.Left != nil {
			line, err := marshalLine(it)
			if err != nil {
				return err
			}
			return leftOut.line([]byte(line))
		}
		line, err := it.Submission.AppendJSON(nil)
		if err != nil {
			return fmt.Errorf("call %s: %w", it.Call, err)
		}
		return callsOut.line(line)
	})
	if err != nil {
		return m, err
	}
	if p.before.Total == 0 {
		return m, errors.Join(callsOut.close(), leftOut.close(), os.RemoveAll(dir))
	}
	if err := errors.Join(callsOut.sync(), leftOut.sync()); err != nil {
		return m, err
	}
	m = manifest{
		Version: 1, Run: p.planner.Run, By: p.a.by(), Created: time.Now().UTC(), Command: p.a.args, Calls: p.before.Total, Origin: p.origin(), Before: groupsOf(&p.before), LeftOut: p.left,
		Rate: p.o.rate, Canary: p.o.canary, Ratio: p.o.ratio, Window: p.o.window,
	}
	line, err := marshalLine(m)
	if err != nil {
		return m, err
	}
	f, err := newLineFile(filepath.Join(dir, replayManifest+".new"))
	if err != nil {
		return m, err
	}
	if err := errors.Join(f.line([]byte(line)), f.sync(), f.close()); err != nil {
		return m, err
	}
	return m, os.Rename(filepath.Join(dir, replayManifest+".new"), filepath.Join(dir, replayManifest))
}

// origin is the run of all originals, "" where they have several.
func (p *planning) origin() messages.Run {
	if len(p.runs) == 1 {
		for run := range p.runs {
			return run
		}
	}
	return ""
}

// lineFile is a file that is written line by line.
type lineFile struct {
	f *os.File
	w *bufio.Writer
}

func newLineFile(path string) (*lineFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	return &lineFile{f, bufio.NewWriterSize(f, 256<<10)}, nil
}

func (l *lineFile) line(b []byte) error {
	_, err := l.w.Write(append(b, '\n'))
	return err
}

func (l *lineFile) sync() error {
	if err := errors.Join(l.w.Flush(), l.f.Sync()); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

// close may be called again.
func (l *lineFile) close() error {
	if err := l.f.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// tellNothing says why none of the selected calls is replayed.
func (a *app) tellNothing(p *planning, selected int) error {
	sum := planSummary{LeftOut: p.left}
	if a.json() {
		sum.Replayed = groupsOf(&p.before)
		if err := a.printJSON(sum); err != nil {
			return err
		}
	} else if _, err := io.WriteString(a.Out, sum.text(selected)); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	a.say("nothing was submitted; --dry-run says of each call why")
	if leftMatters(p.left) > 0 {
		return quietly(exitSome)
	}
	return nil
}
