package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// load lists the packages of the module with what their own files, not their
// tests, import on any of our platforms.
func load(t *testing.T) []Package {
	t.Helper()
	var pkgs []Package
	seen := map[string]int{}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", "./...")
		cmd.Dir, cmd.Env = root, append(os.Environ(), "GOOS="+goos)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		dec := json.NewDecoder(bytes.NewReader(out))
		for {
			var p struct {
				ImportPath string   `json:"ImportPath"`
				Imports    []string `json:"Imports"`
			}
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			path := strings.TrimPrefix(p.ImportPath, Module+"/")
			if i, ok := seen[path]; ok {
				pkgs[i].Imports = union(pkgs[i].Imports, p.Imports)
				continue
			}
			seen[path] = len(pkgs)
			pkgs = append(pkgs, Package{Path: path, Imports: p.Imports})
		}
	}
	if len(pkgs) < 5 {
		t.Fatalf("go list found %d packages", len(pkgs))
	}
	return pkgs
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// sources parses every Go file of the repository, nested modules included.
func sources(t *testing.T) []File {
	t.Helper()
	var files []File
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f, err := parse(filepath.ToSlash(rel), b)
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found %d files of Go", len(files))
	}
	return files
}

func parse(path string, b []byte) (File, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, b, parser.SkipObjectResolution)
	return File{Path: path, Lines: bytes.Count(b, []byte("\n")), Fset: fset, AST: f}, err
}

func TestImportsGoOneWay(t *testing.T) {
	for _, fault := range Imports(load(t)) {
		t.Error(fault)
	}
}

func TestSource(t *testing.T) {
	files := sources(t)
	for _, f := range files {
		for _, fault := range Source(f) {
			t.Error(fault)
		}
	}
	for _, fault := range Commands(files) {
		t.Error(fault)
	}
}

// TestImportRulesBite: each rule finds what it is there for.
func TestImportRulesBite(t *testing.T) {
	for _, tc := range []struct{ path, imports, want string }{
		{"pkg/messages", "github.com/google/uuid", ""},
		{"pkg/messages", "encoding/json", ""},
		{"pkg/messages", "github.com/google/go-cmp/cmp", "standard library and google/uuid only"},
		{"pkg/messages", "mulligan/internal/schema", "no other package of ours"},
		{"pkg/messages", "net/http", "pure"},
		{"pkg/recovery", "mulligan/pkg/messages", ""},
		{"pkg/recovery", "net/url", ""},
		{"pkg/recovery", "log/slog", "pure"},
		{"pkg/recovery", "os", "pure"},
		{"pkg/recovery", "mulligan/jetstream", "of adapter"},
		{"pkg/recovery/rules", "mulligan/pkg/recovery", ""},
		{"internal/dispatch", "mulligan/pkg/recovery", ""},
		{"internal/dispatch", "mulligan/internal/coordination", "of coordinator"},
		{"internal/dispatch", "net/http", "pure"},
		{"pkg/worker", "mulligan/pkg/tool", ""},
		{"pkg/worker", "mulligan/jetstream", "of adapter"},
		{"pkg/worker", "mulligan/internal/coordination", "of coordinator"},
		{"pkg/worker", "github.com/nats-io/nats.go", "only jetstream, jetstream/raw may"},
		{"internal/coordination", "mulligan/internal/reflection", "of reflector"},
		{"jetstream", "github.com/nats-io/nats.go/jetstream", ""},
		{"jetstream", "github.com/nats-io/nats-server/v2/server", "only jetstream/embedded may"},
		{"jetstream/embedded", "github.com/nats-io/nats-server/v2/server", ""},
		{"jetstream", "mulligan/pkg/worker", "of worker"},
		{"internal/cli", "mulligan/jetstream", ""},
		{"internal/cli", "mulligan/internal/natstest", "for tests"},
		{"cmd/worker", "mulligan/internal/memory", ""},
		{"cmd/worker", "mulligan/internal/porttest", "for tests"},
		{"pkg/helpful", "fmt", "has no layer"},
	} {
		got := strings.Join(Imports([]Package{{Path: tc.path, Imports: []string{tc.imports}}}), "\n")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s imports %s: %q, want %q", tc.path, tc.imports, got, tc.want)
		}
	}
}

// TestSourceRulesBite: each rule finds what it is there for.
func TestSourceRulesBite(t *testing.T) {
	for _, tc := range []struct{ path, src, want string }{
		{"pkg/worker/a.go", "package worker\nfunc f() { go f(); time.Sleep(1) }", ""},
		{"pkg/worker/a.go", "package worker\nfunc init() {}", "func init"},
		{"pkg/worker/a.go", "package worker\nfunc (x) init() {}", ""},
		{"pkg/worker/a_test.go", "package worker\nfunc f() { time.Sleep(1) }", "time.Sleep in a test"},
		{"pkg/worker/a_test.go", "package worker\nfunc f() { synctest.Test(t, func() { time.Sleep(1) }) }", ""},
		{"pkg/recovery/a.go", "package recovery\nfunc f() { go f() }", "a goroutine"},
		{"pkg/recovery/a_test.go", "package recovery\nfunc f() { go f() }", ""},
		{"internal/dispatch/a.go", "package dispatch\nvar x = time.Now()", "time.Now in a pure package"},
		{"internal/dispatch/a.go", "package dispatch\nvar x = time.Second", ""},
		{"internal/util/a.go", "package util", "says nothing"},
		{"internal/helpers/a.go", "package x", "says nothing"},
		{"internal/x/a.go", "package x" + strings.Repeat("\n", 801), "801 lines"},
		{"internal/x/a.go", "package x" + strings.Repeat("\n", 800), ""},
	} {
		f, err := parse(tc.path, []byte(tc.src))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(Source(f), "\n")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s %q: %q, want %q", tc.path, tc.src, got, tc.want)
		}
	}
	long, err := parse("cmd/x/main.go", []byte("package main"+strings.Repeat("\n", 301)))
	if err != nil {
		t.Fatal(err)
	}
	if len(Commands([]File{long})) != 1 {
		t.Error("a long command is not found")
	}
}

// The race detector finds nothing in a package that starts nothing.
func TestOnlyPurePackagesAreLeftOutOfTheRaceRun(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(makefile), "\nPURE = ")
	list, _, end := strings.Cut(strings.ReplaceAll(list, "\\\n", ""), "\n")
	if !ok || !end {
		t.Fatal("the Makefile has no PURE")
	}
	for p := range strings.FieldsSeq(list) {
		if l, ok := layerOf(p); !ok || !l.pure {
			t.Errorf("make race leaves out %s, which no rule here holds to be pure: take it out of PURE", p)
		}
	}
}
