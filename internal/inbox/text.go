package inbox

import (
	"fmt"
	"io"
	"strings"
	"time"

	"mulligan/internal/story"
	"mulligan/pkg/messages"
)

// WriteText prints a question for people, nothing cut: whoever answers has to
// see all that is approved. The error is that of w.
func (q *Question) WriteText(w io.Writer, now time.Time) error {
	var b strings.Builder
	line := func(title, text string) {
		for l := range strings.SplitSeq(strings.TrimRight(story.Visible(text), "\n"), "\n") {
			fmt.Fprintf(&b, "  %-10s %s\n", title, l)
			title = ""
		}
	}
	fmt.Fprintf(&b, "call %s   tool %s%s%s\n", q.Call, story.Visible(q.Tool), about("run", q.Run), about("ref", q.Ref))
	line("asks", q.Prompt)
	if q.Task != "" {
		line("task", q.Task)
	}
	if q.Input != nil {
		line("input", *q.Input)
	} else {
		line("input", fmt.Sprintf("%d bytes, kept apart", q.Size))
	}
	if q.Error != "" {
		line("said", q.Error)
	}
	if c := q.Proposed; c != nil {
		line("proposed", string(c.Type)+": "+c.Description)
	}
	for _, c := range q.Changes {
		line("", change(c))
	}
	line("attempts", q.attempts())
	line("answer by", q.answerBy(now))
	line("answers", words(q.Answers))
	_, err := io.WriteString(w, b.String())
	return err
}

func about(name, value string) string {
	if value == "" {
		return ""
	}
	return "   " + name + " " + story.Visible(value)
}

func change(c story.Change) string {
	switch {
	case c.To == "":
		return c.Path + ": " + c.From + " goes"
	case c.From == "":
		return c.Path + ": " + c.To + " is new"
	}
	return c.Path + ": " + c.From + " becomes " + c.To
}

func (q *Question) attempts() string {
	text := fmt.Sprintf("%d of %d spent", q.Attempts, messages.MaxAttempts)
	if len(q.Doubt) > 0 {
		text += "; an effect may have happened"
	}
	return text
}

// answerBy says what happens if nobody answers (S5.3, S7.7).
func (q *Question) answerBy(now time.Time) string {
	end := messages.Failed
	if len(q.Doubt) > 0 {
		end = messages.StatusUnknown
	}
	return fmt.Sprintf("%s, in %s; then it ends %s", q.AnswerBy.Local().Format(time.DateTime), max(0, q.AnswerBy.Sub(now)).Round(time.Second), end)
}

func words(kinds []messages.AnswerKind) string {
	var out []string
	for _, k := range kinds {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}
