package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commandsOf are the command lines of the program within an example, without
// what the shell makes of the rest: pipes, redirections, comments.
func commandsOf(program, example string) [][]string {
	var out [][]string
	for line := range strings.Lines(example) {
		line, _, _ = strings.Cut(line, " #")
		for _, part := range strings.FieldsFunc(shellSafe(line), func(r rune) bool { return r == '|' || r == '&' }) {
			words := shellWords(part)
			if len(words) > 0 && words[0] == program {
				out = append(out, words[1:])
			}
		}
	}
	return out
}

// shellSafe hides what stands in quotes from the search for pipes.
func shellSafe(line string) string {
	quoted := false
	return strings.Map(func(r rune) rune {
		if r == '\'' {
			quoted = !quoted
		}
		if quoted && (r == '|' || r == '&') {
			return '_'
		}
		return r
	}, line)
}

func shellWords(line string) []string {
	var out []string
	var word strings.Builder
	quoted, any, skip := rune(0), false, false
	end := func() {
		switch w := word.String(); {
		case !any:
		case w == ">" || w == "<":
			skip = true
		case skip:
			skip = false
		default:
			out = append(out, w)
		}
		word.Reset()
		any = false
	}
	for _, r := range strings.TrimSpace(line) + " " {
		switch {
		case quoted == 0 && (r == '\'' || r == '"'):
			quoted, any = r, true
		case r == quoted:
			quoted = 0
		case quoted == 0 && r == ' ':
			end()
		default:
			word.WriteRune(r)
			any = true
		}
	}
	return out
}

// Every example is one that the program takes: the command is there, and so
// are its flags, their values and the arguments.
func TestExamplesAreTaken(t *testing.T) {
	programs := map[string]func(*app) *cobra.Command{}
	for _, tree := range trees() {
		programs[tree(newApp("x", IO{})).Name()] = tree
	}
	examples := 0
	for program, tree := range programs {
		var walk func(c *cobra.Command)
		walk = func(c *cobra.Command) {
			for _, words := range commandsOf(program, c.Example) {
				examples++
				if err := taken(tree(newApp("x", IO{})), words); err != nil {
					t.Errorf("example of %q: %s %q: %v", c.CommandPath(), program, words, err)
				}
			}
			for _, sub := range c.Commands() {
				walk(sub)
			}
		}
		walk(tree(newApp("x", IO{})))
	}
	if examples < 20 {
		t.Errorf("only %d examples were found", examples)
	}
}

func taken(root *cobra.Command, words []string) error {
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil { // by the command itself, which notes where -- stood
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}
