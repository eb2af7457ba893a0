package rules_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

// corpus reads a file of the recorded data that is kept beside the repository
// and is no part of it.
func corpus[T any](t *testing.T, name string) []T {
	t.Helper()
	dir := os.Getenv("MULLIGAN_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("no recorded data: set MULLIGAN_CORPUS to the folder that holds %s", name)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 32<<20)
	var out []T
	for sc.Scan() {
		var v T
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	if err := sc.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%s: %d lines, %v", name, len(out), err)
	}
	return out
}

type recorded struct {
	Tool           string          `json:"tool"`
	Domain         string          `json:"domain"`
	RunID          string          `json:"run_id"`
	Seq            int             `json:"seq"`
	Input          json.RawMessage `json:"input"`
	InputTruncated bool            `json:"input_truncated"`
	IsError        bool            `json:"is_error"`
	ErrorText      string          `json:"error_text"`
	Kind           string          `json:"error_kind"`
	Class          string          `json:"recovery_class"`
	Did            string          `json:"what_the_model_did"`
	FixedBy        *struct {
		Tool      string          `json:"tool"`
		Input     json.RawMessage `json:"input"`
		SameInput bool            `json:"same_input"`
	} `json:"fixed_by"`
}

type recordedSchema struct {
	Name       string          `json:"name"`
	Server     string          `json:"server"`
	Parameters json.RawMessage `json:"parameters"`
}

// schemasOf finds the schema of a tool: of its server, else of its domain.
func schemasOf(t *testing.T) func(recorded) json.RawMessage {
	byName := map[string]json.RawMessage{}
	for _, s := range corpus[recordedSchema](t, "tool_schemas.jsonl") {
		byName[s.Server+"/"+s.Name] = s.Parameters
	}
	return func(r recorded) json.RawMessage {
		if s, ok := byName[r.Tool]; ok {
			return s
		}
		return byName[r.Domain+"/"+r.Tool]
	}
}

func TestRecordedFailures(t *testing.T) {
	schemaOf := schemasOf(t)
	r := rules.New()
	var transient, retried, others, wasted, withSchema int
	byRule, proposals := map[string]int{}, map[string]int{}
	var equal int
	var missed, wastedOn, proposed []string
	for _, f := range corpus[recorded](t, "tool_calls.jsonl") {
		if !f.IsError {
			continue
		}
		c := recovery.Case{Tool: f.Tool, Schema: schemaOf(f), Effect: messages.Unsafe, Input: f.Input, InputCut: f.InputTruncated, Code: messages.CodeToolError,
			Error: f.ErrorText, Executed: true, Context: messages.ReflectionContext{MaxAttempts: messages.MaxRetries}}
		if c.Schema != nil {
			withSchema++
		}
		got, err := r.Analyse(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		byRule[got.Rule]++
		line := f.Class + "/" + f.Kind + " " + f.RunID + " " + f.Tool + " [" + got.Rule + "] " + clip(f.ErrorText)
		bare := got.IsRecoverable && (got.Correction == nil || got.Correction.Type != messages.InputFix && got.Correction.Type != messages.ToolChange)
		if f.Class == "transient" {
			transient++
			if bare {
				retried++
			} else {
				missed = append(missed, line)
			}
		} else {
			others++
			if bare {
				wasted++
				wastedOn = append(wastedOn, line)
			}
		}
		if got.IsRecoverable && !bare {
			proposals[got.Rule]++
			note := "not seen later"
			if f.FixedBy != nil && f.FixedBy.Tool == f.Tool {
				note = "later success differs"
				if recovery.Digest("", f.FixedBy.Input) == recovery.Digest("", got.Correction.ModifiedInput) {
					equal++
					note = "as later done"
				}
			}
			class, _ := recovery.Classify(c, *got.Correction)
			proposed = append(proposed, got.Rule+" ("+string(class)+", "+note+", "+f.Did+"): "+got.Correction.Description+" <- "+clip(f.ErrorText))
			checkFits(t, c.Schema, got.Correction.ModifiedInput)
		}
	}
	sort.Strings(proposed)
	t.Logf("%d failures, %d of tools with a schema", transient+others, withSchema)
	t.Logf("transient: %d of %d retried (%.3f)", retried, transient, share(retried, transient))
	t.Logf("others: %d of %d retried in vain (%.3f)", wasted, others, share(wasted, others))
	t.Logf("proposals: %v, %d as the model did later", proposals, equal)
	t.Logf("rules: %v", byRule)
	t.Logf("proposed:\n%s", strings.Join(proposed, "\n"))
	t.Logf("transient by their label, not retried (labels to doubt, or rules):\n%s", strings.Join(missed, "\n"))
	t.Logf("not transient by their label, retried:\n%s", strings.Join(wastedOn, "\n"))
	if share(retried, transient) < 0.90 {
		t.Errorf("only %.3f of the transient failures are retried", share(retried, transient))
	}
	if len(proposed) < 20 || equal < 8 {
		t.Errorf("only %d proposals, %d as done later", len(proposed), equal)
	}
	if share(wasted, others) > 0.03 {
		t.Errorf("%.3f of the other failures are retried in vain", share(wasted, others))
	}
}

func checkFits(t *testing.T, raw json.RawMessage, input []byte) {
	t.Helper()
	s, err := schema.Compile(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(input); err != nil {
		t.Errorf("proposed, and does not fit: %v", err)
	}
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return s[:min(len(s), 130)]
}
