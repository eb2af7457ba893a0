package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxLines is how long a file may be; most stay around 200.
const maxLines = 800

// maxCommandLines is how long the program of a command may be: flags, wiring,
// exit codes.
const maxCommandLines = 300

// File is a parsed file of Go source.
type File struct {
	Path  string // from the root of the module
	Lines int
	Fset  *token.FileSet
	AST   *ast.File
}

func (f File) test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// vague are names of packages that say nothing about what is in them.
var vague = regexp.MustCompile(`^(utils?|commons?|helpers?|managers?|misc|shared|base|core|types)$`)

// clock are the parts of package time that read the clock or wait for it.
var clock = map[string]bool{"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "Tick": true, "NewTimer": true, "NewTicker": true}

// Source finds what breaks the rules about the look of one file.
func Source(f File) []string {
	var faults []string
	fault := func(pos token.Pos, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s:%d: ", f.Path, f.Fset.Position(pos).Line)+fmt.Sprintf(format, args...))
	}
	if f.Lines > maxLines {
		fault(f.AST.Package, "%d lines; %d is the most", f.Lines, maxLines)
	}
	if vague.MatchString(strings.TrimSuffix(f.AST.Name.Name, "_test")) || vague.MatchString(path.Base(path.Dir(f.Path))) {
		fault(f.AST.Package, "package %s says nothing about what is in it", f.AST.Name.Name)
	}
	l, _ := layerOf(path.Dir(f.Path))
	var bubbles []ast.Node // bodies whose clock is not the real one
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if is(n.Fun, "synctest", "Test") {
				bubbles = append(bubbles, n)
			}
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				fault(n.Pos(), "func init: what runs at import cannot be configured or tested")
			}
		case *ast.GoStmt:
			if l.pure && !f.test() {
				fault(n.Pos(), "a goroutine in a pure package")
			}
		case *ast.SelectorExpr:
			switch {
			case f.test() && is(n, "time", "Sleep") && !inside(n, bubbles):
				fault(n.Pos(), "time.Sleep in a test: a signal, a fake clock or testing/synctest instead")
			case l.pure && !f.test() && is(n, "time", n.Sel.Name) && clock[n.Sel.Name]:
				fault(n.Pos(), "time.%s in a pure package: time comes in as a value", n.Sel.Name)
			}
		}
		return true
	})
	return faults
}

// is says whether e is name of the package pkg.
func is(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func inside(n ast.Node, outer []ast.Node) bool {
	return slices.ContainsFunc(outer, func(o ast.Node) bool { return o.Pos() <= n.Pos() && n.End() <= o.End() })
}

// Commands finds commands that do more than wire: nothing in cmd is importable
// or testable on its own, so it is kept small.
func Commands(files []File) []string {
	lines := map[string]int{}
	for _, f := range files {
		if dir := path.Dir(f.Path); strings.HasPrefix(dir, "cmd/") && !f.test() {
			lines[dir] += f.Lines
		}
	}
	var faults []string
	for dir, n := range lines {
		if n > maxCommandLines {
			faults = append(faults, fmt.Sprintf("%s has %d lines; a command only wires (%d at the most), the rest belongs into internal", dir, n, maxCommandLines))
		}
	}
	return faults
}
