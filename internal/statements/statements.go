// Package statements connects what the documents promise with the tests that
// hold it: every numbered statement of docs/semantics.md and every row of
// section 7 of docs/protocol.md has at least one test that carries its number.
package statements

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Statement is something that a test has to show.
type Statement struct {
	ID      string // as people say it: "4.2", "6.T3", "P7.3"
	Prefix  string // of its tests, such as "TestS4_2_"
	Planned bool   // promised for later; needs no test yet
}

var (
	numbered = regexp.MustCompile(`(?m)^\*\*(\d+)\.(\d+)\*\*( \*planned\.\*)?`)
	row      = regexp.MustCompile(`(?m)^\| T(\d+) \|( \*planned\.\*)?`)
	protocol = regexp.MustCompile(`(?m)^\| (\d+) \|`)
)

// Semantics reads the statements and the rows of section 6 from the text of
// docs/semantics.md.
func Semantics(text string) []Statement {
	var out []Statement
	for _, m := range numbered.FindAllStringSubmatch(text, -1) {
		out = append(out, Statement{ID: m[1] + "." + m[2], Prefix: "TestS" + m[1] + "_" + m[2] + "_", Planned: m[3] != ""})
	}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		out = append(out, Statement{ID: "6.T" + m[1], Prefix: "TestS6_T" + m[1] + "_", Planned: m[2] != ""})
	}
	return out
}

// Protocol reads the rows of section 7 from the text of docs/protocol.md.
func Protocol(text string) ([]Statement, error) {
	_, section, ok := strings.Cut(text, "\n## 7. ")
	if !ok {
		return nil, fmt.Errorf("docs/protocol.md has no section 7")
	}
	section, _, _ = strings.Cut(section, "\n## 8. ")
	var out []Statement
	for _, m := range protocol.FindAllStringSubmatch(section, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		out = append(out, Statement{ID: "P7." + m[1], Prefix: fmt.Sprintf("TestP7_%02d_", n)})
	}
	return out, nil
}

// Test is a test function and where it stands.
type Test struct {
	Name    string
	Package string // folder, from the root of the module
}

// Tests finds the test functions of all packages below root, in every file of
// tests whatever its build constraints, except in testdata and in nested
// modules. A function of another form than func TestX(t *testing.T) is none.
func Tests(root string) ([]Test, error) {
	var out []Test
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || d.Name() == "tools") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && isTest(fn) {
				out = append(out, Test{Name: fn.Name.Name, Package: filepath.ToSlash(dir)})
			}
		}
		return nil
	})
	return out, err
}

func isTest(fn *ast.FuncDecl) bool {
	if fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") || len(fn.Type.Params.List) != 1 || fn.Body == nil || len(fn.Body.List) == 0 {
		return false
	}
	star, ok := fn.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "T"
}

// Of gives the tests of a statement.
func (s Statement) Of(tests []Test) []Test {
	var out []Test
	for _, t := range tests {
		if strings.HasPrefix(t.Name, s.Prefix) {
			out = append(out, t)
		}
	}
	return out
}

// Numbered says whether the name claims to be the test of a statement or row.
func (t Test) Numbered() bool {
	return regexp.MustCompile(`^Test(S\d+_T?\d+|P7_\d+)`).MatchString(t.Name)
}
