package rules

import (
	"fmt"
	"strconv"
	"strings"

	"mulligan/internal/form"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Rules that go by what the worker states, not by what a text says.

// ambiguousUnsafe hands the question to a human: an effect may have happened,
// and no machine may cause a second one (S7.3). The coordinator holds to that
// whatever is said here.
func ambiguousUnsafe(s *sight) *verdict {
	if !s.Ambiguous || s.Effect != messages.Unsafe && s.Effect != "" {
		return nil
	}
	guidance := "The call may have had its effect. Find out whether it did before calling the tool again."
	return &verdict{cause: "the outcome of an unsafe tool is not known", retry: true, severity: messages.High, fault: messages.FaultTool,
		fix:     &messages.Correction{Type: messages.Escalate, Description: "find out whether the effect happened, then retry or give up", Guidance: &guidance},
		context: "an unsafe tool is never repeated by a machine after an ambiguous failure"}
}

func panicked(s *sight) *verdict {
	if s.Code != messages.CodePanic {
		return nil
	}
	return critical("the tool crashed", "The tool has a fault that this input meets. Use another tool or another input; do not repeat the call.")
}

func outputTooLarge(s *sight) *verdict {
	if s.Code != messages.CodeOutputTooLarge {
		return nil
	}
	return hopeless("the output is larger than what is kept", "Ask for less: a smaller range, a limit, a page.")
}

func lost(s *sight) *verdict {
	switch s.Code {
	case messages.CodeWorkerLost, messages.CodeConnectionLost, messages.CodeDrained:
		return transient("the answer was lost with its worker or connection")
	}
	return nil
}

func timedOut(s *sight) *verdict {
	if s.Code != messages.CodeTimeout {
		return nil
	}
	return transient("the tool did not answer in time")
}

func refusedForNow(s *sight) *verdict {
	if s.Code != messages.CodeRateLimited && s.Code != messages.CodeUnavailable && s.RetryAfter == 0 {
		return nil
	}
	return transient("the tool is not available for the moment")
}

// decodeError is a parser's complaint about a place in a document: Python's,
// and those of JavaScript and Go.
var decodeError = says(`(?:Expecting (?:value|property name enclosed in double quotes|',' delimiter|':' delimiter)|Extra data|Unterminated string starting at|Invalid control character at|Invalid \\escape)[^\n]{0,40}\(char (\d+)\)|in JSON at position (\d+)|invalid character [^\n]{1,60} at (?:offset|byte) (\d+)`)

// storeRace recognises a tool that could not read its own data: the place of
// the complaint lies beyond anything in the arguments. It looks like malformed
// arguments and is the opposite, a tool that read while another wrote; the same
// call succeeds a moment later.
func storeRace(s *sight) *verdict {
	m := decodeError.find(s.said)
	if m == nil || !s.Executed {
		return nil
	}
	at, err := strconv.Atoi(m[1] + m[2] + m[3])
	if err != nil || at <= len(s.Input) || s.InputCut {
		return nil
	}
	return transient("the tool could not read its own data")
}

var unknownTool = says(`(?i)\bunknown (?:tool|function|action)\b|\bno such (?:tool|function)\b|\btool not found\b|\b(?:tool|function|server) '[^']{1,80}' is not (?:available|defined|registered)`)

// priorStep names what may have to come first: tools that make or open
// something, of those that can be called.
func priorStep(s *sight) *verdict {
	if !stepBefore.in(s.text) {
		return nil
	}
	v := hopeless("a step that must come first was not made", "Make that step first, then repeat the call.")
	var makers []string
	for _, t := range s.Tools {
		if t.Name != s.Tool && makes(base(t.Name)) && server(t.Name) == server(s.Tool) && len(makers) < 3 {
			makers = append(makers, t.Name)
		}
	}
	if len(makers) > 0 {
		v.guidance = "Make that step first, perhaps with " + strings.Join(makers, ", ") + "; then repeat the call."
	}
	v.first = true
	return v
}

// makes says whether a tool's name says that it makes or opens something.
func makes(name string) bool {
	verb := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	if len(verb) == 0 {
		return false
	}
	switch strings.ToLower(verb[0]) {
	case "create", "open", "new", "init", "initialize", "start", "load", "login", "connect", "select":
		return true
	}
	return false
}

// server is what stands before a tool's own name.
func server(tool string) string { return strings.TrimSuffix(tool, base(tool)) }

// toolName proposes the one tool that was probably meant, if the input fits it.
func toolName(s *sight) *verdict {
	if s.Code != messages.CodeToolNotFound && !unknownTool.in(s.said) {
		return nil
	}
	to, ok := nearestTool(s.Case)
	if ok && s.value != nil {
		spec, _ := s.Lookup(to)
		if fit, err := s.schemas.Compile(spec.Schema); err == nil && fit.Validate(s.Input) == nil {
			guidance := fmt.Sprintf("The tool is called %q.", to)
			return &verdict{cause: "there is no such tool", severity: messages.Medium, fault: messages.FaultCall,
				fix: &messages.Correction{Type: messages.ToolChange, Description: fmt.Sprintf("%s is called %s", s.Tool, to), AlternativeTool: &to, Guidance: &guidance}}
		}
	}
	guidance := "Use one of the tools that exist."
	if ok {
		guidance = fmt.Sprintf("Did you mean %q? Its arguments differ from those given.", to)
	} else if len(s.Tools) > 0 {
		guidance = "Use one of the tools that exist: " + toolNames(s.Tools) + "."
	}
	return hopeless("there is no such tool", guidance)
}

func nearestTool(c recovery.Case) (string, bool) {
	var names []string
	var sameBase []string
	for _, t := range c.Tools {
		if t.Name == c.Tool {
			continue
		}
		names = append(names, t.Name)
		if form.Fold(base(t.Name)) == form.Fold(base(c.Tool)) {
			sameBase = append(sameBase, t.Name)
		}
	}
	if len(sameBase) == 1 {
		return sameBase[0], true
	}
	if len(sameBase) > 1 {
		return "", false
	}
	best, _, ok := form.Nearest(c.Tool, names)
	return best, ok
}

func base(tool string) string {
	for _, sep := range []string{"/", "__", ":"} {
		if i := strings.LastIndex(tool, sep); i >= 0 {
			tool = tool[i+len(sep):]
		}
	}
	return tool
}

func toolNames(tools []messages.ToolSpec) string {
	var b strings.Builder
	for i, t := range tools {
		if i == 10 {
			fmt.Fprintf(&b, "... (and %d more)", len(tools)-10)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(t.Name)
	}
	return b.String()
}
