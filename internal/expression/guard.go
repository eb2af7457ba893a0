package expression

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/expr-lang/expr/ast"
)

// Bounds of a regular expression.
const (
	maxPattern = 500  // bytes
	maxProgram = 2000 // instructions of a compiled one
)

type pattern struct {
	re   *regexp.Regexp
	cost int // instructions
}

// guard refuses what could take long, compiles the regular expressions, and
// notes which names are used.
type guard struct {
	patterns map[string]pattern
	names    map[string]bool
	err      error
}

// Visit implements [ast.Visitor].
func (g *guard) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		g.names[n.Value] = true
	case *ast.VariableDeclaratorNode:
		g.refuse(errors.New("let is not available; write the value where it is used"))
	case *ast.PredicateNode:
		g.refuse(errors.New("loops are not available; name the element, such as input.items[0]"))
	case *ast.BinaryNode:
		switch n.Operator {
		case "matches":
			g.pattern(n.Right)
		case "..":
			g.refuse(errors.New("ranges are not available; compare with >= and <="))
		}
	case *ast.CallNode:
		name, _ := n.Callee.(*ast.IdentifierNode)
		if name != nil && (name.Value == "match" || name.Value == "has_match") && len(n.Arguments) == 2 {
			g.pattern(n.Arguments[1])
		}
	}
}

func (g *guard) refuse(err error) {
	if g.err == nil {
		g.err = err
	}
}

func (g *guard) pattern(node ast.Node) {
	text, ok := node.(*ast.StringNode)
	if !ok {
		g.refuse(errors.New("a regular expression must be written out as a text"))
		return
	}
	if _, known := g.patterns[text.Value]; known {
		return
	}
	p, err := compilePattern(text.Value)
	if err != nil {
		g.refuse(fmt.Errorf("regular expression %q: %w", clip(text.Value), err))
		return
	}
	g.patterns[text.Value] = p
}

func compilePattern(text string) (pattern, error) {
	if len(text) > maxPattern {
		return pattern{}, fmt.Errorf("is %d bytes long; at most %d are read", len(text), maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return pattern{}, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return pattern{}, err
	}
	if len(prog.Inst) > maxProgram {
		return pattern{}, fmt.Errorf("compiles to %d instructions; at most %d are run, so repeat less", len(prog.Inst), maxProgram)
	}
	re, err := regexp.Compile(text)
	return pattern{re, len(prog.Inst)}, err
}
