package statements

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func readDoc(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func all(t *testing.T) []Statement {
	t.Helper()
	rows, err := Protocol(readDoc(t, "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 28 {
		t.Fatalf("section 7 of docs/protocol.md has %d rows, not 28", len(rows))
	}
	sem := Semantics(readDoc(t, "semantics.md"))
	if len(sem) < 60 {
		t.Fatalf("docs/semantics.md has %d statements; has its form changed?", len(sem))
	}
	return append(sem, rows...)
}

// TestEveryStatementHasATest fails with the list of those that have none.
func TestEveryStatementHasATest(t *testing.T) {
	tests, err := Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, s := range all(t) {
		if !s.Planned && len(s.Of(tests)) == 0 {
			missing = append(missing, s.ID+" ("+s.Prefix+"…)")
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d statements have no test:\n\t%s", len(missing), strings.Join(missing, "\n\t"))
	}
}

// TestEveryNumberIsOfAStatement finds tests whose number is a typing error, or
// whose statement has gone.
func TestEveryNumberIsOfAStatement(t *testing.T) {
	tests, err := Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	statements := all(t)
	for _, test := range tests {
		if test.Numbered() && !slices.ContainsFunc(statements, func(s Statement) bool { return strings.HasPrefix(test.Name, s.Prefix) }) {
			t.Errorf("%s in %s: no statement has this number", test.Name, test.Package)
		}
	}
}

// TestNamedTestsExist holds the documents to the tests that they name.
func TestNamedTestsExist(t *testing.T) {
	tests, err := Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	docs = append(docs, filepath.Join(root, "README.md"), filepath.Join(root, "ARCHITECTURE.md"), filepath.Join(root, "CONTRIBUTING.md"))
	for _, path := range docs {
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9_]*[A-Za-z0-9]\b`).FindAllString(string(b), -1) {
			if !slices.ContainsFunc(tests, func(test Test) bool { return test.Name == name }) && !isPrefix(string(b), name) {
				t.Errorf("%s names %s, which does not exist", filepath.Base(path), name)
			}
		}
	}
}

// isPrefix says that the text gives only the beginning of a name.
func isPrefix(text, name string) bool {
	return strings.Contains(text, name+"_…") || strings.Contains(text, name+"_<")
}

// TestIndex prints, with -v, which tests show which statement.
func TestIndex(t *testing.T) {
	tests, err := Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, s := range all(t) {
		for _, test := range s.Of(tests) {
			found++
			t.Logf("%-6s %s (%s)", s.ID, test.Name, test.Package)
		}
	}
	if found == 0 {
		t.Error("no test carries a number")
	}
}

func TestSemanticsReadsItsForms(t *testing.T) {
	got := Semantics("x **9.9** y\n**4.2** Some.\n**5.4** *planned.* Later.\n| T3 | a | b |\n| T7 | *planned.* hook |\n|---|\n")
	want := []Statement{{"4.2", "TestS4_2_", false}, {"5.4", "TestS5_4_", true}, {"6.T3", "TestS6_T3_", false}, {"6.T7", "TestS6_T7_", true}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTestsFindsTestsOnly(t *testing.T) {
	dir := t.TempDir()
	src := "package x\nimport \"testing\"\nfunc TestS1_1_A(t *testing.T) { t.Log() }\nfunc TestS1_2_Empty(t *testing.T) {}\n" +
		"func (x) TestS1_3_Method(t *testing.T) { t.Log() }\nfunc TestS1_4_Bench(b *testing.B) { b.Log() }\nfunc TestMain(m *testing.M) { m.Run() }\n"
	if err := os.MkdirAll(filepath.Join(dir, "a", "testdata"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/a_test.go", "a/a.go", "a/testdata/b_test.go"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Tests(dir)
	if err != nil || !slices.Equal(got, []Test{{"TestS1_1_A", "a"}}) {
		t.Errorf("%+v, %v", got, err)
	}
	s := Statement{Prefix: "TestS1_1_"}
	if len(s.Of(got)) != 1 || len(s.Of([]Test{{Name: "TestS1_11_B"}})) != 0 {
		t.Error("a statement takes the tests of another number, or not its own")
	}
}
