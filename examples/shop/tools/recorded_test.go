package tools_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/examples/shop/corpus"
	"mulligan/examples/shop/corpus/corpustest"
	"mulligan/examples/shop/store"
	"mulligan/examples/shop/tools"
)

func corpusShop(t *testing.T) *tools.Shop {
	t.Helper()
	db, err := store.Load(os.DirFS(filepath.Join(corpustest.Folder(t), corpus.Data)))
	if err != nil {
		t.Fatal(err)
	}
	return tools.New(store.NewRuns(db, 10_000), nil)
}

// Of the runs that hold a failing call which fails the same way on fresh data,
// every such failure must be answered byte for byte.
func TestRecordedFailures(t *testing.T) {
	runs := corpustest.Runs(t, corpus.Call.Replays)
	shop := corpusShop(t)
	calls, failures, differences := 0, 0, 0
	for _, run := range runs {
		for _, r := range run {
			calls++
			got, isError := shop.Call(r.Run, r.FullTool(), r.Input)
			if !r.Replays() {
				continue
			}
			failures++
			if got != r.ErrorText || !isError {
				differences++
				t.Errorf("%s call %d, %s: got %q (error %t), recorded %q", r.Run, r.Seq, r.Tool, got, isError, r.ErrorText)
			}
		}
	}
	t.Logf("%d runs, %d calls, %d failures, %d differences", len(runs), calls, failures, differences)
	if len(runs) != 72 || calls != 733 || failures != 130 {
		t.Errorf("the corpus has %d runs, %d calls and %d failures, not 72, 733 and 130", len(runs), calls, failures)
	}
}

// All calls that were made on this data are compared, as far as their answers
// were kept: 1275 calls of 159 runs. The 58 that differ are explained.
func TestRecordedAnswers(t *testing.T) {
	runs := corpustest.Runs(t, func(r corpus.Call) bool {
		return r.Domain == "tau-airline" || strings.HasPrefix(r.Run, "tau1-retail-l0-")
	})
	shop := corpusShop(t)
	calls := 0
	explained := make(map[string]int)
	for _, run := range runs {
		for _, r := range run {
			calls++
			got, isError := shop.Call(r.Run, r.FullTool(), r.Input)
			want := r.Want()
			if corpus.SameText(got, want) && isError == r.IsError {
				continue
			}
			why := whyDifferent(r, got)
			explained[why]++
			if why == "" {
				t.Errorf("%s call %d, %s: got %q (error %t), recorded %q (error %t)",
					r.Run, r.Seq, r.Tool, got, isError, want, r.IsError)
			}
		}
	}
	t.Logf("%d runs, %d calls, different: %v", len(runs), calls, explained)
	if explained[editedProfile] != 46 || explained[sharedStore] != 12 {
		t.Errorf("different answers by reason: %v, not 46 and 12", explained)
	}
}

const (
	editedProfile = "the profiles of the airline's users were edited after the recording"
	sharedStore   = "another run wrote to the same store during the recording"
)

// whyDifferent explains a difference that is not the shop's doing.
func whyDifferent(r corpus.Call, got string) string {
	if r.Domain == "tau-airline" && r.Tool == "get_user_details" && !r.IsError {
		if beginning, cut := corpus.IsCut(r.Output); cut && strings.HasPrefix(got, beginning) {
			return editedProfile
		}
	}
	for _, run := range []string{
		"tau1-retail-l0-gpt4.1/task11/", "tau1-retail-l0-gpt4.1/task20/", "tau1-retail-l0-gpt4.1/task28/",
		"tau1-retail-l0-gpt4.1/task42/", "tau1-retail-l0-gpt4.1/task101/",
	} {
		if strings.HasPrefix(r.Run, run) {
			return sharedStore
		}
	}
	return ""
}
