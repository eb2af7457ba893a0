package readmetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// Declared are the names that a file of Go declares at its top: functions,
// types, values, and methods as Type.Method.
func Declared(src []byte) (map[string]bool, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	out := make(map[string]bool)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			out[receiver(d)+d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				declare(s, out)
			}
		}
	}
	return out, nil
}

func declare(s ast.Spec, out map[string]bool) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		out[s.Name.Name] = true
	case *ast.ValueSpec:
		for _, n := range s.Names {
			out[n.Name] = true
		}
	}
}

// receiver is the type of a method with a dot behind it, empty for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

// Literals are the texts that stand in a file of Go.
func Literals(src []byte) (map[string]bool, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	out := make(map[string]bool)
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			out[strings.Trim(l.Value, "\"`")] = true
		}
		return true
	})
	return out, nil
}
