//go:build unix

package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// TestThePageSaysWhatTheReportsSay: `make evidence` brings the page up to date.
func TestThePageSaysWhatTheReportsSay(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "evidence")
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := sumOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), sumBegins+sum+sumEnds) {
		t.Errorf("docs/evidence/README.md does not say what the reports come to (make evidence):\n%s", sum)
	}
}

func TestReportsAddUp(t *testing.T) {
	reports := []Report{
		{Seed: 1, Nodes: 1, Calls: 1000, Faults: map[Kind]int{Kill: 2}, Struck: 2, Ends: map[messages.Status]int{messages.Succeeded: 990}, Deliveries: 300, Again: 1, Idempotent: 50, Repeated: 1, HealedIn: 3 * time.Second},
		{Seed: 2, Nodes: 1, Calls: 500, Faults: map[Kind]int{Kill: 1, Slow: 4}, Struck: 5, Deliveries: 100, Again: 3, Idempotent: 50, HealedIn: 2 * time.Second, Violations: []string{"one"}},
		{Seed: 1, Nodes: 3, Calls: 7, Queued: 6, Recovery: time.Second / 2},
	}
	got := table(column{"one", with(1, reports)}, column{"three", with(3, reports)}, column{"none", nil})
	for _, line := range []string{
		"| | one | three | none |\n",
		"| trials | 2 | 1 | – |\n",
		"| calls | 1,500 | 7 | – |\n",
		"| queued at the first kill | – | 6 | – |\n",
		"| – kill | 3 | 0 | – |\n",
		"| ended succeeded | 990 | 0 | – |\n",
		"| redeliveries | 4 (1.00 %) | 0 (0.00 %) | – |\n",
		"| repeated executions of idempotent calls | 1 (1.00 %) | 0 (0.00 %) | – |\n",
		"| longest recovery, to the last end | 3.0 s | – | – |\n",
		"| longest recovery, to the next result | – | 0.5 s | – |\n",
		"| violations | 1 | 0 | – |\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
}

func TestASumIsWrittenIntoItsPlace(t *testing.T) {
	page := filepath.Join(t.TempDir(), "README.md")
	write := func(text string) {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# Evidence\n")
	if _, err := Sum(page); err == nil {
		t.Error("a page without a place for it is written")
	}
	write("before\n" + sumBegins + "old\n" + sumEnds + "after\n")
	sum, err := Sum(page)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != "before\n"+sumBegins+sum+sumEnds+"after\n" || !strings.Contains(sum, "| calls |") {
		t.Errorf("%s, %v", got, err)
	}
}
