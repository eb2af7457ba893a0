package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mulligan/internal/catalogue"
	"mulligan/internal/replay"
	"mulligan/internal/replay/scan"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

type replayOptions struct {
	selecting
	pacing
	results, recovery         string
	inputs                    []string
	patch, jq, toTool, policy string
	reflect                   bool
	llm                       llmOptions
	lane, dir                 string
	effects, again, dryRun    bool
	most                      int
}

// pacing says how fast a replay goes, at the start and when it goes on.
type pacing struct {
	rate   float64
	canary int
	ratio  float64
	window int
	wait   time.Duration
}

func (p *pacing) flags(f *pflag.FlagSet) {
	f.Float64Var(&p.rate, "rate", 0, "how many calls a second are submitted; 0 for as fast as the pool takes them")
	f.IntVar(&p.canary, "canary", 0, "how many calls go first; the others follow when all of these have ended and enough of them succeeded")
	f.Float64Var(&p.ratio, "canary-ratio", 1, "share of the first calls that has to succeed, from 0 to 1")
	f.IntVar(&p.window, "window", 1000, "how many calls may be under way at a time")
	f.DurationVar(&p.wait, "wait", 0, "how long to go on, such as 10m; 0 for as long as it takes")
}

func (p *pacing) check() error {
	switch {
	case p.rate < 0 || p.rate > 1e6:
		return usage("--rate %g is not from 0 to 1000000 calls a second", p.rate)
	case p.canary < 0:
		return usage("--canary %d is negative; 0 for none", p.canary)
	case p.ratio < 0 || p.ratio > 1:
		return usage("--canary-ratio %g is not from 0 to 1", p.ratio)
	case p.window < 1:
		return usage("--window %d: give 1 or more", p.window)
	case p.wait < 0:
		return usage("--wait %s is negative; 0 goes on for as long as it takes", p.wait)
	}
	return nil
}

func (a *app) replayCommand() *cobra.Command {
	o := &replayOptions{}
	c := &cobra.Command{
		Use:   "replay [CALL...]",
		Short: "Run calls again that failed, as they were or changed",
		Long: `Replay selects calls that ended and submits each again as a new call: in a run of its
own, in lane low, with the input that was submitted first, and linked to its original
(mulligan explain tells both). Originals are never touched. --dry-run shows what would
be submitted, what would be left out, and the difference in each changed input.

` + selectingHelp + `
--results and --recovery take them from a range of one of these streams instead;
RECOVERY keeps failures for 30 days, when results are long gone.

Changes, in this order: what the reflectors of the pool would propose now (--reflect),
another tool (--to-tool), a JSON patch of RFC 6902 (--patch), a jq expression (--jq).
--policy is laid over the policy of each call. A changed input that does not fit the
schema of its tool is listed and not submitted.

Inputs come from the story of a call that failed or was refused at the gate. One that
succeeded at once, or was cancelled before it ran, left its input only in the file that
it came from: give that with --inputs, if its journal is beside it.

Left out are calls that may have had their effect, unless another execution is harmless
(docs/replay.md): name such calls by id, or mean all of them by --repeat-effects. Left
out, too, are calls that were replayed before, unless --again.

The plan stands in a folder: calls.jsonl with its journal, results.jsonl, left-out.jsonl,
replay.json. Ctrl-C or a crash pauses; mulligan replay resume FOLDER goes on, loses no
call and submits none twice.

Exit code: 0 all were replayed and succeeded, 3 some did not, were left out, or the
canary failed, 4 --wait was over or the rest waits for a human, 6 nothing was
selected, 130 interrupted.`,
		Example: `  mulligan replay --since 2h --code timeout --dry-run
  mulligan replay --since 2h --tool book --patch '[{"op":"replace","path":"/region","value":"eu"}]' --canary 20 --canary-ratio 0.9 --rate 200
  mulligan replay --text 'quota' --jq '.limit |= tonumber' --dir quota-again
  mulligan replay --status unknown --tool report --repeat-effects
  mulligan replay 01890000-0000-7000-8000-000000000001
  mulligan replay --recovery 120000-180000 --reflect
  mulligan replay resume quota-again`,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.replay(cmd.Context(), o, args) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.conn.flags(c.PersistentFlags())
	o.selecting.flags(a, c)
	f := c.Flags()
	o.pacing.flags(f)
	f.StringVar(&o.results, "results", "", "range of sequences of RESULTS to select from, such as 1000-2000")
	f.StringVar(&o.recovery, "recovery", "", "range of sequences of RECOVERY: select calls with a failure in it, such as 1000-2000 or 1000-")
	f.StringSliceVar(&o.inputs, "inputs", nil, "file of calls with its journal, for inputs that the pool does not keep; may be given several times")
	f.StringVar(&o.patch, "patch", "", "JSON patch of each input (RFC 6902), or @FILE")
	f.StringVar(&o.jq, "jq", "", "jq expression that makes the new input of each, or @FILE")
	f.StringVar(&o.toTool, "to-tool", "", "tool that is called instead")
	f.StringVar(&o.policy, "policy", "", "policy of the replayed calls, a JSON object such as '{\"max_retries\":0}'")
	f.BoolVar(&o.reflect, "reflect", false, "ask the reflectors of the pool's policies what they would do about each failure now, here in this process; those they would not try again are left out")
	o.llm.flags(c)
	f.StringVar(&o.lane, "lane", string(messages.LaneLow), "lane of the replayed calls: high, normal or low")
	f.StringVar(&o.dir, "dir", "", "new folder for the plan; its name is the name of the run (default replay-TIME)")
	f.BoolVar(&o.effects, "repeat-effects", false, "replay also calls that may have had their effect: it may then happen a second time")
	f.BoolVar(&o.again, "again", false, "replay also calls that were replayed before")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be done, and submit nothing")
	f.IntVar(&o.most, "most", 100_000, "refuse to select more calls than this")
	_ = c.RegisterFlagCompletionFunc("lane", words("high", "normal", "low"))
	_ = c.RegisterFlagCompletionFunc("to-tool", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.completeTools(cmd), cobra.ShellCompDirectiveNoFileComp
	})
	c.AddCommand(a.replayResumeCommand())
	return c
}

func (a *app) replayResumeCommand() *cobra.Command {
	var p pacing
	c := &cobra.Command{
		Use:   "resume FOLDER",
		Short: "Go on with a replay that was paused, stopped or crashed",
		Long: `Resume goes on with the plan in a folder: calls that have ended are not run again, and
those that may have been submitted are submitted again under the same ids, which runs
none of them twice. Pace and canary are those that it began with, unless they are given
anew; --canary 0 goes on after a canary that failed.`,
		Example: `  mulligan replay resume quota-again
  mulligan replay resume quota-again --canary 0 --rate 50`,
		Args: exactly("the folder of the replay"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := readManifest(args[0])
			if err != nil {
				return err
			}
			if err := p.check(); err != nil {
				return err
			}
			for name, set := range map[string]func(){
				"rate": func() { m.Rate = p.rate }, "canary": func() { m.Canary = p.canary }, "canary-ratio": func() { m.Ratio = p.ratio }, "window": func() { m.Window = p.window },
			} {
				if cmd.Flags().Changed(name) {
					set()
				}
			}
			return a.runReplay(cmd.Context(), args[0], m, p.wait)
		},
	}
	p.flags(c.Flags())
	return c
}

// manifest is what stands in replay.json. It is written when the plan is
// complete, before anything is submitted.
type manifest struct {
	Version int                   `json:"mulligan_replay"`
	Run     string                `json:"run"`
	By      string                `json:"by"`
	Created time.Time             `json:"created"`
	Command []string              `json:"command"`
	Calls   int                   `json:"calls"`
	Origin  messages.Run          `json:"origin,omitempty"` // of the originals, where they have one run in common
	Before  groups                `json:"before"`           // how the originals ended
	LeftOut map[replay.Reason]int `json:"left_out,omitempty"`
	Rate    float64               `json:"rate"`
	Canary  int                   `json:"canary"`
	Ratio   float64               `json:"canary_ratio"`
	Window  int                   `json:"window"`
}

// The files of a replay.
const (
	replayManifest = "replay.json"
	replayCalls    = "calls.jsonl"
	replayLeftOut  = "left-out.jsonl"
	replayResults  = "results.jsonl"
)

func readManifest(dir string) (manifest, error) {
	var m manifest
	b, err := os.ReadFile(filepath.Join(dir, replayManifest))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, withCode(exitNotFound, fmt.Errorf("%s holds no plan of a replay: %w; where planning was cut short nothing was submitted, and it can be begun anew", dir, err))
	case err != nil:
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil || m.Version != 1 {
		return m, usage("%s is no plan that this version reads", filepath.Join(dir, replayManifest))
	}
	return m, nil
}

func (o *replayOptions) check(ids []string) error {
	switch {
	case o.results != "" && o.recovery != "":
		return usage("--results and --recovery exclude each other; give the stream that you mean")
	case len(ids) > 0 && (o.results != "" || o.recovery != ""):
		return usage("calls are named, and a range is given; give one of both")
	case o.most < 1:
		return usage("--most %d: give 1 or more", o.most)
	case o.lane != string(messages.LaneHigh) && o.lane != string(messages.LaneNormal) && o.lane != string(messages.LaneLow):
		return usage("--lane %q is none of high, normal and low", o.lane)
	case o.dryRun && o.dir != "":
		return usage("--dry-run writes no plan, so --dir has no use")
	}
	if o.policy != "" {
		if _, err := recovery.CallValues(json.RawMessage(o.policy)); err != nil {
			return usage("--policy: %w", err)
		}
	}
	return o.pacing.check()
}

// change reads what is done to each input.
func (o *replayOptions) change() (replay.Change, error) {
	c := replay.Change{Tool: o.toTool}
	for _, part := range []struct {
		flag, text string
		set        func([]byte) error
	}{{"patch", o.patch, c.Patch}, {"jq", o.jq, func(b []byte) error { return c.JQ(string(b)) }}} {
		if part.text == "" {
			continue
		}
		text := []byte(part.text)
		if path, is := strings.CutPrefix(part.text, "@"); is {
			var err error
			if text, err = os.ReadFile(path); err != nil {
				return c, usage("--%s: %w", part.flag, err)
			}
		}
		if err := part.set(text); err != nil {
			return c, usage("--%s: %w", part.flag, err)
		}
	}
	return c, nil
}

func (a *app) replay(ctx context.Context, o *replayOptions, ids []string) error {
	if err := o.check(ids); err != nil {
		return err
	}
	change, err := o.change()
	if err != nil {
		return err
	}
	sel, err := o.selection(ids, time.Now())
	if err != nil {
		return err
	}
	dir := cmp.Or(o.dir, "replay-"+time.Now().UTC().Format("20060102-150405")+"-"+uuid.NewString()[:4])
	if err := messages.CheckName("run", filepath.Base(dir), messages.MaxName); err != nil {
		return usage("--dir: its name is that of the run: %w", err)
	}
	broker, _, err := a.dial(ctx, "mulligan replay")
	if err != nil {
		return err
	}
	defer broker.Close()
	pl, err := a.planner(ctx, o, broker, change, filepath.Base(dir), ids)
	if err != nil {
		return err
	}
	s := a.scanner(broker, sel)
	list, err := a.selected(ctx, o, s)
	if err != nil {
		return err
	}
	p := &planning{a: a, o: o, planner: pl, left: make(map[replay.Reason]int), runs: make(map[messages.Run]bool)}
	if p.stories, err = s.Stories(ctx, list); err != nil {
		return err
	}
	defer p.stories.Close()
	if sel.NeedsStory() {
		if list, err = p.stories.Meant(ctx, list); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		a.sayUnknown(ctx, broker, sel)
		return withCode(exitNotFound, errors.New("no such call ended; `mulligan failures` lists those that failed"))
	}
	if o.reflect {
		if p.judge, err = a.judge(ctx, o, broker, pl.Tools); err != nil {
			return err
		}
	}
	if o.dryRun {
		return p.show(ctx, list)
	}
	m, err := p.write(ctx, dir, list)
	if err != nil {
		return err
	}
	if m.Calls == 0 {
		return a.tellNothing(p, len(list))
	}
	broker.Close() // what follows has a connection of its own
	return a.runReplay(ctx, dir, m, o.wait)
}

// selected are the calls that are meant, as far as results tell.
func (a *app) selected(ctx context.Context, o *replayOptions, s *scan.Scanner) (list []*replay.Original, err error) {
	over := false
	keep := func(x *replay.Original) bool {
		if len(list) == o.most {
			over = true
			return false
		}
		list = append(list, x)
		return true
	}
	if o.recovery != "" {
		r, err := sequences("recovery", o.recovery)
		if err != nil {
			return nil, err
		}
		open, err := s.Recovery(ctx, r, keep)
		if err != nil {
			return nil, err
		}
		if open > 0 {
			a.say("%s in that range failed and %s not ended, as far as the pool knows: left alone", plural(open, "call", "calls"), map[bool]string{true: "has", false: "have"}[open == 1])
		}
	} else {
		r, err := sequences("results", o.results)
		if err != nil {
			return nil, err
		}
		if err := s.Results(ctx, r, keep); err != nil {
			return nil, err
		}
	}
	if over {
		return nil, usage("more than %s calls are meant; narrow the selection, or raise --most, which costs about a kilobyte of memory for each", thousands(o.most))
	}
	return list, nil
}

// planner knows the pool as it is now.
func (a *app) planner(ctx context.Context, o *replayOptions, broker *jetstream.Pool, change replay.Change, run string, ids []string) (*replay.Planner, error) {
	pl := &replay.Planner{
		Run: run, Lane: messages.Lane(o.lane), Change: change, Effects: o.effects, Tools: make(map[string]messages.ToolSpec), Named: make(map[string]bool),
	}
	if o.policy != "" {
		pl.Policy = json.RawMessage(o.policy)
	}
	for _, id := range ids {
		pl.Named[id] = true
	}
	tools, policies, err := catalogue.Read(ctx, broker, time.Now(), a.say)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		spec := t.ToolSpec
		spec.Effect = cmp.Or(catalogue.Override(policies, spec), spec.Effect)
		pl.Tools[spec.Name] = spec
	}
	if _, known := pl.Tools[change.Tool]; change.Tool != "" && !known {
		return nil, usage("--to-tool %q is not a tool of this pool; `mulligan tools` lists them", change.Tool)
	}
	if o.again {
		return pl, nil
	}
	pl.Replayed = make(map[string]bool)
	entries, err := broker.Entries(ctx, messages.BucketRuns, messages.ReplayKey("*", "*"))
	if err != nil {
		return nil, fmt.Errorf("read which calls were replayed before: %w", err)
	}
	for _, e := range entries {
		if r, err := messages.DecodeReplay(e.Value); err == nil {
			pl.Replayed[r.Original] = true
		}
	}
	return pl, nil
}
