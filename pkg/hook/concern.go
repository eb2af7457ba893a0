package hook

import (
	"cmp"
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

const maxWhen = 2000 // bytes of an expression that is read

// MayConcern says whether the rule can be for calls of a tool. It only sees what
// stands at the top of the expression, joined by and: a tool that is named, one
// of a list, or one that is left out. In doubt it is for all.
func (r Rule) MayConcern(tool string) bool {
	if len(r.When) > maxWhen {
		return true
	}
	tree, err := parser.Parse(r.When)
	return err != nil || mayBe(tree.Node, tool)
}

// Concerning are the rules that can be for calls of a tool, in the order in which
// they are asked.
func Concerning(rules []Rule, tool string) []Rule {
	var out []Rule
	for _, r := range rules {
		if r.MayConcern(tool) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Rule) int { return cmp.Compare(a.Priority, b.Priority) })
	return out
}

func mayBe(n ast.Node, tool string) bool {
	b, ok := n.(*ast.BinaryNode)
	if !ok {
		return true
	}
	switch b.Operator {
	case "and", "&&":
		return mayBe(b.Left, tool) && mayBe(b.Right, tool)
	case "==":
		name, ok := comparedWith(b)
		return !ok || name == tool
	case "!=":
		name, ok := comparedWith(b)
		return !ok || name != tool
	case "in":
		names, ok := listed(b)
		return !ok || slices.Contains(names, tool)
	}
	return true
}

// comparedWith is the text that the tool is compared with.
func comparedWith(b *ast.BinaryNode) (string, bool) {
	for _, pair := range [][2]ast.Node{{b.Left, b.Right}, {b.Right, b.Left}} {
		if text, ok := pair[1].(*ast.StringNode); ok && isTool(pair[0]) {
			return text.Value, true
		}
	}
	return "", false
}

// listed are the texts of a list that the tool is looked for in.
func listed(b *ast.BinaryNode) (names []string, ok bool) {
	list, ok := b.Right.(*ast.ArrayNode)
	if !ok || !isTool(b.Left) {
		return nil, false
	}
	for _, n := range list.Nodes {
		text, ok := n.(*ast.StringNode)
		if !ok {
			return nil, false
		}
		names = append(names, text.Value)
	}
	return names, true
}

func isTool(n ast.Node) bool {
	id, ok := n.(*ast.IdentifierNode)
	return ok && id.Value == "tool"
}
