package policies_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mulligan/internal/policies"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "policies.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// block is the fenced block after a comment of the page.
func block(t *testing.T, page, mark string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "<!-- "+mark+" -->\n```")
	_, rest, _ = strings.Cut(rest, "\n")
	text, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatalf("the page has no example marked %s", mark)
	}
	return text
}

func TestTheDocumentOfThePageCanBeUsed(t *testing.T) {
	_, d, err := policies.Parse([]byte(block(t, page(t), "policies")))
	if err != nil {
		t.Fatal(err)
	}
	effective := func(queue, tool string) recovery.Policy {
		p, _, err := d.Effective(queue, tool, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := effective("mail", "send_mail"); p.Covers("send_mail") || p.Effect != messages.Unsafe {
		t.Errorf("a mail: %+v", p)
	}
	if p := effective("search", "x"); p.Retries() != 2 || p.Breaker != messages.BreakerDefer || p.InitialBackoff.Duration().Seconds() != 5 {
		t.Errorf("a search: %+v", p)
	}
	if p := effective("q", "pay_invoice"); p.AskUser != recovery.AskPark || p.AnswerBy.Duration().Hours() != 2 {
		t.Errorf("a payment: %+v", p)
	}
	if p := effective("q", "search_papers"); p.BudgetTokens != 20000 || !slices.Equal(p.Reflectors, []string{"rules", "llm"}) {
		t.Errorf("a search that a model may look at: %+v", p)
	}
}

func TestTheCallOfThePageIsTaken(t *testing.T) {
	var s messages.Submission
	if err := json.Unmarshal([]byte(block(t, page(t), "call")), &s); err != nil {
		t.Fatal(err)
	}
	s.Call = messages.NewCallID()
	v, err := recovery.CallValues(s.Policy)
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if err != nil || len(v) != 2 {
		t.Errorf("%v, %v", v, err)
	}
}

var row = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]*) \\| (yes)? ?\\|")

// The table of the page names every field, what holds without it, and whether
// a call may set it.
func TestTheTableOfThePageIsThatOfTheCode(t *testing.T) {
	values := recovery.ServicePolicy().Values()
	var named, calls []string
	for _, m := range row.FindAllStringSubmatch(page(t), -1) {
		field, says := m[1], strings.Trim(m[2], "`")
		named = append(named, field)
		if m[3] != "" {
			calls = append(calls, field)
		}
		if want := shipped(values[field]); want != "" && want != says {
			t.Errorf("%s is %s by default, and the page says %s", field, want, says)
		}
	}
	var calling []string
	for _, field := range recovery.PolicyFields() {
		if _, err := recovery.CallValues([]byte(`{"` + field + `":null}`)); !strings.Contains(fmt.Sprint(err), "operator's to set") {
			calling = append(calling, field)
		}
	}
	for _, list := range []struct {
		what       string
		page, code []string
	}{{"fields", named, recovery.PolicyFields()}, {"fields of a call", calls, calling}} {
		slices.Sort(list.page)
		slices.Sort(list.code)
		if !slices.Equal(list.page, list.code) {
			t.Errorf("the %s of the page are\n%q, those of the code\n%q", list.what, list.page, list.code)
		}
	}
}

// shipped is a default as the page writes it; empty for those that it puts into
// words.
func shipped(raw json.RawMessage) string {
	var s string
	switch {
	case raw == nil:
		return ""
	case json.Unmarshal(raw, &s) != nil:
		return strings.NewReplacer(`["`, "", `"]`, "", `","`, "`, `").Replace(string(raw))
	case strings.Contains(s, " "): // the template
		return ""
	}
	return s
}

func TestThePageTellsTheLimits(t *testing.T) {
	for _, n := range []string{"262,144 bytes", "16,384 bytes", "more than 5 means 5"} {
		if !strings.Contains(page(t), n) {
			t.Errorf("it does not say %s", n)
		}
	}
	if messages.MaxPolicyDocument != 262144 || messages.MaxRetries != 5 {
		t.Error("the limits are others")
	}
}
