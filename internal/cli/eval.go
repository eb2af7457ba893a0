package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mulligan/examples/shop/corpus"
	"mulligan/internal/eval"
	"mulligan/internal/policies"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/llm"
	"mulligan/pkg/recovery/rules"
)

type evalOptions struct {
	calls, schemas, tau, policy string
	reflectors, list            []string
	require                     map[string]string
	parallel                    int
	llm                         llmOptions
}

func (a *app) evalCommand() *cobra.Command {
	o := &evalOptions{}
	c := &cobra.Command{
		Use:   "eval --calls FILE --schemas FILE",
		Short: "Score a reflector on recorded failures",
		Long: `Eval shows each failing call of a recording to a reflector, as the reflector service
would, and scores what would have been done about it: are transient failures retried
and others not, are proposed corrections right, do they change what nobody named.
No pool is needed, and nothing is sent anywhere but to the model of --llm-url, if one
is asked. docs/eval.md tells what each figure means. With -o json each listed failure
is a line, and the last line holds the figures.

A proposal is right when the agent corrected the call so by itself, or when the real
tool, executed on the database in the folder of --tau, accepts it.

Exit codes: 3 when a figure is not as --require wants it, 6 when a file is not there.`,
		Example: `  mulligan eval --calls data/tool_calls.jsonl --schemas data/tool_schemas.jsonl
  mulligan eval --calls data/tool_calls.jsonl --schemas data/tool_schemas.jsonl --list missed,unjudged
  mulligan eval --calls data/tool_calls.jsonl --schemas data/tool_schemas.jsonl --require transient=0.9,wasted=0.03,right=0.95,harmful=0 -o json | tail -1
  mulligan eval --calls data/tool_calls.jsonl --schemas data/tool_schemas.jsonl --reflector rules,llm --llm-url http://localhost:8080/v1 --llm-model small --parallel 8
  mulligan eval --calls data/tool_calls.jsonl --schemas data/tool_schemas.jsonl --policy pool.yaml`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.eval(cmd.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.calls, "calls", "", "file of recorded calls, one JSON object a line")
	f.StringVar(&o.schemas, "schemas", "", "file of the tools that were called with their schemas, one JSON object a line")
	f.StringVar(&o.tau, "tau", "", "folder of the shop's database, on which proposals are executed; by default the folder tau beside --calls, if there is one")
	f.StringSliceVar(&o.reflectors, "reflector", []string{"rules"}, "what is scored: rules, llm, which asks the model of --llm-url, or noop, which recovers nothing; several are asked in their order")
	f.StringVar(&o.policy, "policy", "", "file with the policies of a pool, as for mulligan policy set; its rules are asked before the built-in ones")
	f.StringSliceVar(&o.list, "list", []string{string(eval.MarkWrong), string(eval.MarkHarmful)}, "failures to list: "+strings.Join(evalMarks(), ", ")+", all or none")
	f.StringToStringVar(&o.require, "require", nil, "figures without which the exit code is 3: least transient, right and recall, most wasted and harmful; such as transient=0.9,harmful=0")
	f.IntVar(&o.parallel, "parallel", runtime.GOMAXPROCS(0), "how many failures are reflected on at a time")
	o.llm.flags(c)
	c.AddCommand(a.evalRecordCommand())
	_ = c.RegisterFlagCompletionFunc("reflector", words("rules", "llm", "noop"))
	_ = c.RegisterFlagCompletionFunc("list", words(append(evalMarks(), "all", "none")...))
	return c
}

func evalMarks() []string {
	var out []string
	for _, m := range eval.Marks() {
		out = append(out, string(m))
	}
	return out
}

func (a *app) eval(ctx context.Context, o *evalOptions) error {
	marks, err := o.marks()
	if err != nil {
		return err
	}
	bounds, err := o.bounds()
	if err != nil {
		return err
	}
	config, err := o.config(a)
	if err != nil {
		return err
	}
	config.Progress = a.evalProgress()
	begun := time.Now()
	outcomes, err := eval.Run(ctx, config)
	if err != nil {
		return err
	}
	report := eval.NewReport(config, strings.Join(o.reflectors, ","), outcomes, time.Since(begun))
	write := eval.WriteText
	if a.json() {
		write = eval.WriteJSON
	}
	if err := write(a.Out, eval.Listed(outcomes, marks), report); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	if err := unmet(bounds, report.Score); err != nil {
		return withCode(exitSome, err)
	}
	return nil
}

func (o *evalOptions) marks() ([]eval.Mark, error) {
	var out []eval.Mark
	for _, m := range o.list {
		switch {
		case m == "all":
			return eval.Marks(), nil
		case m == "none":
		case slices.Contains(evalMarks(), m):
			out = append(out, eval.Mark(m))
		default:
			return nil, usage("--list %q is none of %s, all and none", m, strings.Join(evalMarks(), ", "))
		}
	}
	return out, nil
}

func (o *evalOptions) config(a *app) (c eval.Config, err error) {
	switch {
	case o.calls == "":
		return c, usage("--calls is missing; give the file of recorded calls")
	case o.schemas == "":
		return c, usage("--schemas is missing; give the file of the tools that were called")
	case o.parallel < 1:
		return c, usage("--parallel %d: give 1 or more", o.parallel)
	}
	c.Parallel = o.parallel
	var custom *rules.Custom
	if o.policy != "" {
		if _, c.Policies, err = a.readPolicies(o.policy); err != nil {
			return c, err
		}
		if custom, err = policies.Rules(c.Policies); err != nil {
			return c, withCode(exitUsage, err)
		}
	}
	if c.Reflector, err = o.chain(a, custom); err != nil {
		return c, err
	}
	if c.Runs, err = corpus.OpenFile(o.calls); err != nil {
		return c, notFound(err)
	}
	if c.Schemas, err = eval.OpenSchemas(o.schemas); err != nil {
		return c, notFound(err)
	}
	beside := filepath.Join(filepath.Dir(o.calls), corpus.Data)
	c.Shop, err = eval.OpenShop(cmp.Or(o.tau, beside))
	if o.tau == "" && errors.Is(err, fs.ErrNotExist) {
		a.say("nothing is judged by execution: there is no database of the shop in %s; name another folder with --tau", beside)
		return c, nil
	}
	return c, notFound(err)
}

// chain is what --reflector names, in its order; rules of one's own come before
// the built-in ones.
func (o *evalOptions) chain(a *app, custom *rules.Custom) (recovery.Reflector, error) {
	var ch recovery.Chain
	for _, name := range o.reflectors {
		switch name {
		case rules.Name:
			if custom != nil {
				ch = append(ch, custom)
			}
			ch = append(ch, rules.New())
		case "noop":
			ch = append(ch, recovery.NoOp{})
		case llm.Name:
			model, err := o.llm.reflector(a, a.logger(slogQuiet))
			if err != nil {
				return nil, err
			}
			if model == nil {
				return nil, usage("--reflector llm without --llm-url and --llm-model: say which model is asked")
			}
			ch = append(ch, model)
		default:
			return nil, usage("--reflector %q is none of rules, llm and noop", name)
		}
	}
	return ch, nil
}

// notFound gives the error of a file that is not there its exit code; what a
// file holds is the user's to mend.
func notFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return withCode(exitNotFound, err)
	}
	return withCode(exitUsage, err)
}

// evalQuiet is how long it takes until progress is told, and between two of its
// lines.
const evalQuiet = 5 * time.Second

func (a *app) evalProgress() func(done, of int) {
	var mu sync.Mutex
	told := time.Now()
	return func(done, of int) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(told) >= evalQuiet {
			told = time.Now()
			a.say("%d of %d failures", done, of)
		}
	}
}

// bound is what a figure must be.
type bound struct {
	of   func(eval.Score) float64
	most bool // else at least
	// counts: it is a number of failures; else it is a share, from 0 to 1.
	counts bool
}

func evalBounds() map[string]bound {
	return map[string]bound{
		"transient": {of: func(s eval.Score) float64 { return s.TransientRetried }},
		"right":     {of: eval.Score.RightShare},
		"recall":    {of: func(s eval.Score) float64 { return s.RecallAlone }},
		"wasted":    {of: func(s eval.Score) float64 { return s.WastedRetries }, most: true},
		"harmful":   {of: func(s eval.Score) float64 { return float64(s.Harmful) }, most: true, counts: true},
	}
}

func (o *evalOptions) bounds() (map[string]float64, error) {
	out := make(map[string]float64)
	known := evalBounds()
	for name, text := range o.require {
		if _, ok := known[name]; !ok {
			return nil, usage("--require %s: known are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		value, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil:
			return nil, usage("--require %s=%s is not a number", name, text)
		case known[name].counts && !(value >= 0):
			return nil, usage("--require %s=%s: it counts failures; give 0 or more", name, text)
		case !known[name].counts && !(value >= 0 && value <= 1):
			return nil, usage("--require %s=%s: it is a share; give a number from 0 to 1, such as 0.9", name, text)
		}
		out[name] = value
	}
	return out, nil
}

// unmet names the figures that are not as they must be.
func unmet(bounds map[string]float64, s eval.Score) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		b, want := evalBounds()[name], bounds[name]
		got := b.of(s)
		switch {
		case b.most && got > want:
			errs = append(errs, fmt.Errorf("%s is %.4g, at most %g is required", name, got, want))
		case !b.most && !(got >= want):
			errs = append(errs, fmt.Errorf("%s is %.4g, at least %g is required", name, got, want))
		}
	}
	return errors.Join(errs...)
}
