package recovery

import (
	"fmt"
	"strconv"
	"strings"

	"mulligan/internal/excerpt"
	"mulligan/pkg/messages"
)

// DefaultPrompt is the template of a policy that has none.
const DefaultPrompt = `The call of tool {tool_name} failed: {error}
{guidance}
It was attempt {attempt}, after which no further one is made by machine; the policy allows {max_retries} retries. The arguments were: {args}
Find out what was wrong before calling the tool again, and do not repeat the same call unchanged.`

// Bounds of what is rendered, in bytes; the failure itself is kept whole.
const (
	maxPromptError = 8 << 10
	maxPromptArgs  = 2 << 10
	maxPrompt      = 64 << 10 // of all: a template may name a value many times, and a decision has to fit a message
)

// PromptValues fill the placeholders of a template (S5.6).
type PromptValues struct {
	Tool       string
	Error      string
	Args       string
	Attempt    int // from 0; rendered from 1 (S4.5)
	MaxRetries int // within the ceiling
	Guidance   string
}

// Render fills {tool_name}, {error}, {args}, {attempt}, {max_retries} and
// {guidance} in a single pass: what looks like a placeholder within a value
// stays as it is, and so does any other brace (S5.6). Long values are cut. A
// line that a placeholder left empty is left out.
func Render(template string, v PromptValues) string {
	guidance := v.Guidance
	if guidance == "" {
		template = strings.ReplaceAll(template, "\n{guidance}\n", "\n")
	}
	return excerpt.Of(strings.NewReplacer(
		"{tool_name}", v.Tool,
		"{error}", excerpt.Of(v.Error, maxPromptError),
		"{args}", excerpt.Of(v.Args, maxPromptArgs),
		"{attempt}", strconv.Itoa(v.Attempt+1),
		"{max_retries}", strconv.Itoa(min(v.MaxRetries, messages.MaxRetries)),
		"{guidance}", excerpt.Of(guidance, maxPromptError),
	).Replace(template), maxPrompt)
}

// AttemptLine writes how far a call has come, for people and models: it counts
// from 1, and m is the number of attempts that there may be (S4.5).
func AttemptLine(attempt, maxRetries int) string {
	return fmt.Sprintf("Attempt: %d of %d", attempt+1, min(maxRetries, messages.MaxRetries)+1)
}
