package recovery_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"mulligan/pkg/recovery"
)

func TestS4_5_CountsFromOne(t *testing.T) {
	for _, c := range []struct {
		attempt, max int
		want         string
	}{
		{0, 3, "Attempt: 1 of 4"}, {3, 3, "Attempt: 4 of 4"}, {5, 5, "Attempt: 6 of 6"}, {0, 99, "Attempt: 1 of 6"}, {0, 0, "Attempt: 1 of 1"},
	} {
		if got := recovery.AttemptLine(c.attempt, c.max); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestS5_6_PlaceholdersInASinglePass(t *testing.T) {
	v := recovery.PromptValues{Tool: "{error}", Error: "bad {args} and {guidance}", Args: `{"tool_name":"{tool_name}"}`, Attempt: 1, MaxRetries: 9, Guidance: "{attempt}"}
	got := recovery.Render("{tool_name}|{error}|{args}|{attempt}|{max_retries}|{guidance}|{unknown}|{|}|{{error}}", v)
	want := `{error}|bad {args} and {guidance}|{"tool_name":"{tool_name}"}|2|5|{attempt}|{unknown}|{|}|{bad {args} and {guidance}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestS5_6_DefaultPrompt(t *testing.T) {
	v := recovery.PromptValues{Tool: "pay", Error: "no such account", Args: `{"a":1}`, MaxRetries: 3}
	got := recovery.Render(recovery.DefaultPrompt, v)
	for _, w := range []string{"pay", "no such account", `{"a":1}`, "attempt 1", "allows 3 retries"} {
		if !strings.Contains(got, w) {
			t.Errorf("no %q in %s", w, got)
		}
	}
	if strings.Contains(got, "\n\n") || strings.Contains(got, "{") != strings.Contains(v.Args, "{") {
		t.Errorf("%s", got)
	}
	v.Guidance = "use an account of the list"
	if got := recovery.Render(recovery.DefaultPrompt, v); !strings.Contains(got, "\nuse an account of the list\n") {
		t.Errorf("%s", got)
	}
	v.Error, v.Args = strings.Repeat("é", 99999), strings.Repeat("é", 99999)
	if got := recovery.Render(recovery.DefaultPrompt, v); len(got) > 12<<10 || !utf8.ValidString(got) {
		t.Errorf("%d bytes", len(got))
	}
	if got := recovery.Render(strings.Repeat("{error}", 2000), v); len(got) > 65<<10 || !utf8.ValidString(got) {
		t.Errorf("%d bytes of a template that names one value often", len(got))
	}
}
