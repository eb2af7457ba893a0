package eval_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mulligan/examples/shop/corpus"
	"mulligan/examples/shop/corpus/corpustest"
	"mulligan/internal/eval"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

// recorded is the real corpus.
func recorded(t *testing.T) eval.Config {
	t.Helper()
	runs, err := corpus.OpenFile(corpustest.File(t, corpus.File))
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := eval.OpenSchemas(corpustest.File(t, "tool_schemas.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	shop, err := eval.OpenShop(filepath.Join(corpustest.Folder(t), corpus.Data))
	if err != nil {
		t.Fatal(err)
	}
	return eval.Config{Runs: runs, Schemas: schemas, Shop: shop, Parallel: 2}
}

// What the rules must reach on the recorded failures.
func TestRulesOnRecordedFailures(t *testing.T) {
	c := recorded(t)
	c.Reflector = rules.New()
	begun := time.Now()
	outcomes := run(t, c)
	s := eval.ScoreOf(outcomes)
	var text strings.Builder
	if err := eval.WriteText(&text, eval.Listed(outcomes, []eval.Mark{eval.MarkWrong, eval.MarkHarmful}), eval.NewReport(c, "rules", outcomes, time.Since(begun))); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	if s.Failures < 500 || s.Judged == 0 {
		t.Errorf("the corpus has %d failures, and %d corrections were judged", s.Failures, s.Judged)
	}
	if s.TransientRetried < 0.9 || s.WastedRetries > 0.03 || s.RightShare() < 0.95 || s.Harmful > 0 || s.Errors > 0 {
		t.Errorf("transient retried %.3f, wasted %.3f, right %.3f, harmful %d, errors %d", s.TransientRetried, s.WastedRetries, s.RightShare(), s.Harmful, s.Errors)
	}
}

// What the agents did by themselves is right, and little of it is named by
// anything that a reflector sees: they had looked it up. A share of recall of 1
// is therefore out of reach, and the proposals of this test count as harmful.
func TestAgentsOnRecordedFailures(t *testing.T) {
	c := recorded(t)
	c.Parallel = 1 // so that failures are shown in their order
	var failures []corpus.Call
	for _, call := range corpus.Calls(c.Runs) {
		if call.IsError {
			failures = append(failures, call)
		}
	}
	c.Reflector = reflector(func(c recovery.Case) (recovery.Reflection, error) {
		call := failures[0]
		failures = failures[1:]
		if call.Did == corpus.CorrectedAlone {
			return fix(c, "", string(call.Next.Input))
		}
		return recovery.NoOp{}.Analyse(context.Background(), c)
	})
	s := eval.ScoreOf(run(t, c))
	t.Logf("score is %+v", s)
	if s.Alone < 50 || s.RecallAlone != 1 || s.Right != s.Alone || s.Judged != s.Alone || s.Harmful < s.Proposed/2 || s.Harmful == s.Proposed {
		t.Errorf("score is %+v", s)
	}
}
