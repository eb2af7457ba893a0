package eval_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"mulligan/examples/shop/corpus"
	"mulligan/internal/eval"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reflector is one that a function stands for.
type reflector func(c recovery.Case) (recovery.Reflection, error)

func (r reflector) Analyse(_ context.Context, c recovery.Case) (recovery.Reflection, error) {
	return r(c)
}

func retry(recovery.Case) (recovery.Reflection, error) {
	return recovery.Reflection{FailureAnalysis: messages.FailureAnalysis{IsRecoverable: true, RootCause: "a cause", Severity: messages.Low}, By: "fake"}, nil
}

// fix proposes an input, or with a tool that tool.
func fix(c recovery.Case, tool, input string) (recovery.Reflection, error) {
	got, err := retry(c)
	got.Rule = "fix"
	got.Usage = &messages.Usage{Requests: 1, InputTokens: 90, OutputTokens: 10, CostMicros: 50_000}
	got.Correction = &messages.Correction{Type: messages.InputFix, Description: "a fix", ModifiedInput: []byte(input)}
	if tool != "" {
		got.Correction.Type, got.Correction.AlternativeTool = messages.ToolChange, &tool
	}
	return got, err
}

// scripted does something of each kind.
func scripted(c recovery.Case) (recovery.Reflection, error) {
	input := string(c.Input)
	switch c.Error {
	case "Error: order not found", "Error: no such order":
		return fix(c, "", strings.Replace(input, `"W1`, `"#W1`, 1))
	case "Error: 503 Service Unavailable", "the gnu is asleep":
		return retry(c)
	case "grams must be a number":
		return fix(c, "", `{"animal":"yak","grams":500}`)
	case `animal is not known, did you mean "yak" or "yeti crab"?`:
		return fix(c, "", `{"animal":"yak","grams":500}`)
	case "grams must be positive":
		return fix(c, "", `{"animal":"gnu","grams":77}`)
	case "Unknown tool feeed":
		return fix(c, "feed", "")
	case "animal is missing":
		return fix(c, "", `{"animal":"gnu"}`)
	case "one text only":
		return fix(c, "", `{"texts":["b"]}`)
	case "it broke":
		return recovery.Reflection{By: "fake"}, errors.New("no idea")
	}
	return recovery.NoOp{}.Analyse(context.Background(), c)
}

// config reads the invented corpus, whose shop is the one of the examples.
func config(t *testing.T, r recovery.Reflector) eval.Config {
	t.Helper()
	runs, err := corpus.OpenFile(filepath.Join("testdata", "calls.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := eval.OpenSchemas(filepath.Join("testdata", "schemas.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	shop, err := eval.OpenShop(filepath.Join("..", "..", "examples", "shop", "data"))
	if err != nil {
		t.Fatal(err)
	}
	return eval.Config{Runs: runs, Schemas: schemas, Shop: shop, Reflector: r, Parallel: 2}
}

func run(t *testing.T, c eval.Config) []eval.Outcome {
	t.Helper()
	outcomes, err := eval.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is now\n%s", path, got)
	}
}

// What is printed of an invented corpus, to the last figure. Each line of it
// was worked out by hand before it was kept.
func TestGolden(t *testing.T) {
	c := config(t, reflector(scripted))
	outcomes := run(t, c)
	report := eval.NewReport(c, "scripted", outcomes, 1500*1e6)
	var text, lines bytes.Buffer
	if err := eval.WriteText(&text, eval.Listed(outcomes, eval.Marks()), report); err != nil {
		t.Fatal(err)
	}
	if err := eval.WriteJSON(&lines, eval.Listed(outcomes, eval.Marks()), report); err != nil {
		t.Fatal(err)
	}
	golden(t, "golden.txt", text.Bytes())
	golden(t, "golden.jsonl", lines.Bytes())
}

// A reflector that repeats everything loses nothing that is transient, and
// wastes all the rest.
func TestRetryingEverything(t *testing.T) {
	s := eval.ScoreOf(run(t, config(t, reflector(retry))))
	if s.TransientRetried != 1 || s.WastedRetries != 1 || s.Proposed != 0 || s.RecallAlone != 0 || s.Transient != 2 || s.NotTransient != 11 {
		t.Errorf("score is %+v", s)
	}
	s = eval.ScoreOf(run(t, config(t, recovery.NoOp{})))
	if s.TransientRetried != 0 || s.WastedRetries != 0 || s.Proposed != 0 || s.Errors != 0 {
		t.Errorf("without recovery the score is %+v", s)
	}
}

// A reflector that makes up values is caught at each of them, whoever would
// have to agree to it.
func TestInventingIsHarmful(t *testing.T) {
	s := eval.ScoreOf(run(t, config(t, reflector(func(c recovery.Case) (recovery.Reflection, error) {
		return fix(c, "", strings.NewReplacer("W1000", "W9999", "yak", "lion", "gnu", "emu", `"auk"`, `"owl"`, `["a", "b"]`, `["c"]`).Replace(string(c.Input)))
	}))))
	if s.Proposed != 11 || s.Harmful != s.Proposed || s.Right != 0 {
		t.Errorf("score is %+v", s)
	}
}

// One that proposes what the agent did has every correction right.
func TestProposingTheRecord(t *testing.T) {
	c := config(t, nil)
	later := make(map[string]*corpus.Later)
	for _, call := range corpus.Calls(c.Runs) {
		if call.Did == corpus.CorrectedAlone {
			later[call.Want()] = call.Next
		}
	}
	c.Reflector = reflector(func(c recovery.Case) (recovery.Reflection, error) {
		if l := later[c.Error]; l != nil {
			return fix(c, "", string(l.Input))
		}
		return recovery.NoOp{}.Analyse(context.Background(), c)
	})
	s := eval.ScoreOf(run(t, c))
	if s.RecallAlone != 1 || s.Alone != 3 || s.Right != 3 || s.Judged != 3 || s.RightShare() != 1 {
		t.Errorf("score is %+v", s)
	}
}

// Without a database nothing is judged by execution; the record stays.
func TestWithoutShop(t *testing.T) {
	c := config(t, reflector(scripted))
	c.Shop = nil
	s := eval.ScoreOf(run(t, c))
	if s.Proposed != 9 || s.Judged != 3 || s.Right != 2 {
		t.Errorf("score is %+v", s)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	c := config(t, reflector(func(c recovery.Case) (recovery.Reflection, error) {
		asked++
		cancel()
		return retry(c)
	}))
	c.Parallel = 1
	if _, err := eval.Run(ctx, c); !errors.Is(err, context.Canceled) || asked > 2 {
		t.Errorf("%d failures were shown, then %v", asked, err)
	}
}

func TestRunRefusesAPolicy(t *testing.T) {
	c := config(t, nil)
	c.Policies.Tools = map[string]recovery.Values{"feed": {"multiplier": []byte("0.5")}}
	if _, err := eval.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "multiplier") {
		t.Errorf("got %v", err)
	}
}

// What a pool says of its tools holds here, too.
func TestPolicies(t *testing.T) {
	c := config(t, reflector(func(c recovery.Case) (recovery.Reflection, error) {
		if c.Tool == "feed" && c.Error == "grams must be positive" {
			return fix(c, "", `{"animal":"gnu","grams":77}`)
		}
		return retry(c)
	}))
	before := eval.ScoreOf(run(t, c))
	c.Policies = recovery.Document{
		Pool:  recovery.Values{"exclude_tools": []byte(`["get_order_details"]`)},
		Tools: map[string]recovery.Values{"note": {"max_retries": []byte("0")}, "feed": {"effect": []byte(`"read_only"`)}},
	}
	outcomes := run(t, c)
	after := eval.ScoreOf(outcomes)
	if before.Retried != 2 || after.Retried != 1 || before.Wasted != 10 || after.Wasted != 7 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	for _, o := range outcomes {
		if o.Proposal != nil && o.Does != eval.Corrects {
			t.Errorf("a tool that is said to be read-only has its correction go elsewhere: %s", o.Does)
		}
	}
}

func TestSchemasNameWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"{":                     "line 1",
		"\n" + `{"server":"s"}`: "line 2: name is missing",
		`{"name":1}`:            "name",
		`{"name":"a","annotations":{"readOnlyHint":"yes"}}`: "annotations.readOnlyHint",
		strings.Repeat("x", corpus.MaxLine+1):               "line 1 is longer than 16 MiB",
	} {
		if _, err := eval.ReadSchemas(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s gives %v", text, err)
		}
	}
	if _, err := eval.OpenShop(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder without tables gives %v", err)
	}
}
