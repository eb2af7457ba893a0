package expression

import (
	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// Lazy makes a name of the language out of a function of the env without
// arguments, which is called where an evaluation comes to the name. What costs
// something, or may fail, is so only asked for where it matters.
func Lazy(name, function string) expr.Option { return expr.Patch(lazy{name, function}) }

type lazy struct{ name, function string }

// Visit implements [ast.Visitor].
func (l lazy) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok && id.Value == l.name {
		ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: l.function}})
	}
}
