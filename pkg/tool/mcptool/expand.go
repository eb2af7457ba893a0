package mcptool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// variable is ${NAME}, ${NAME:-default}, ${env:NAME} or ${env:NAME:-default}.
var variable = regexp.MustCompile(`\$\{(env:)?([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([^}]*))?\}`)

// placeholder is what the configurations of others hold beside variables.
var placeholder = regexp.MustCompile(`\$\{[^}]*\}`)

// plainVariables are seldom secrets, and withholding them would tear logs apart.
var plainVariables = []string{"HOME", "USER", "LOGNAME", "PATH", "PWD", "SHELL", "LANG", "TMPDIR"}

// expander fills variables in, and remembers what it filled in.
type expander struct {
	look func(name string) (string, bool)
	used []string
}

// expand gives a text with its variables filled in. One that is not set and has
// no default is an error: what would be sent in its place is nothing anybody
// meant.
func (e *expander) expand(text string) (string, error) {
	for _, p := range placeholder.FindAllString(text, -1) {
		if !variable.MatchString(p) || strings.Contains(p[2:], "${") { // a default is taken as it stands
			return "", fmt.Errorf("%s cannot be filled in: there are ${NAME}, ${NAME:-default} and ${env:NAME}, and none of them within another", p)
		}
	}
	var missing string
	out := variable.ReplaceAllStringFunc(text, func(s string) string {
		m := variable.FindStringSubmatch(s)
		name, hasDefault := m[2], m[3] != ""
		value, ok := e.look(name)
		if hasDefault && value == "" {
			return m[4]
		}
		if !ok {
			missing = name
		}
		if !slices.Contains(plainVariables, name) {
			e.used = append(e.used, value)
		}
		return value
	})
	if missing != "" {
		return "", fmt.Errorf("the variable %s is not set: set it, or write ${%s:-default}", missing, missing)
	}
	return out, nil
}

func (e *expander) all(texts []string) ([]string, error) {
	out := make([]string, len(texts))
	for i, t := range texts {
		var err error
		if out[i], err = e.expand(t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *expander) values(texts map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(texts))
	for name, t := range texts {
		var err error
		if out[name], err = e.expand(t); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

// secretLine is the least length in bytes of a line of a secret that logs do not
// show: a brace or a word says nothing, and withholding it would tear logs apart.
const secretLine = 12

// withheld are the values that logs do not show: all that was filled in, all
// of the environment and all of the headers, of which a scheme such as Bearer is
// no part. Each line of them counts, since logs are made of lines.
func withheld(c Config, used []string) []string {
	out := slices.Clone(used)
	for _, v := range c.Env {
		out = append(out, v)
	}
	for _, v := range c.Headers {
		_, after, _ := strings.Cut(v, " ")
		out = append(out, v, after)
	}
	for _, v := range slices.Clone(out) {
		for line := range strings.Lines(v) {
			if line = strings.TrimSpace(line); len(line) >= secretLine {
				out = append(out, line)
			}
		}
	}
	return out
}
