package readmetest

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mulligan/internal/cli"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}

// pages are those that say where things are: all that people write, but for
// the pages that other tests hold to what they are about.
func pages(t *testing.T) []string {
	t.Helper()
	out := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/shop/README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) < 5 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		for _, f := range found {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, filepath.ToSlash(rel))
		}
	}
	return out
}

func TestLinksLeadSomewhere(t *testing.T) {
	total := 0
	for _, page := range pages(t) {
		text := read(t, page)
		for _, l := range Links(text) {
			total++
			to := page
			if l.Path != "" {
				to = path.Join(path.Dir(page), l.Path)
			}
			switch {
			case !exists(to):
				t.Errorf("%s: [%s] leads to %s, which is not there", page, l.Text, to)
			case l.Anchor != "" && !Anchors(read(t, to))[l.Anchor]:
				t.Errorf("%s: [%s] leads to #%s, which is no heading of %s", page, l.Text, l.Anchor, to)
			}
		}
	}
	if total < 50 {
		t.Errorf("found %d links only", total)
	}
}

// inTree is a path from the root of the repository, perhaps with a name that is
// declared there.
var inTree = regexp.MustCompile(`^((?:cmd|deploy|docs|examples|internal|jetstream|pkg|tools)(?:/[\w.-]+)*|\.ci/run|Makefile)(?::([\w.]+))?$`)

// TestPathsAndNamesExist: every path in a code span is there, and every
// `file.go:Name` is declared in that file.
func TestPathsAndNamesExist(t *testing.T) {
	paths, names := 0, 0
	for _, page := range pages(t) {
		for _, s := range Spans(read(t, page)) {
			m := inTree.FindStringSubmatch(s)
			if m == nil || !strings.Contains(m[0], "/") {
				continue
			}
			paths++
			if !exists(m[1]) {
				t.Errorf("%s: `%s` is not there", page, s)
				continue
			}
			if m[2] == "" {
				continue
			}
			names++
			declared, err := Declared([]byte(read(t, m[1])))
			if err != nil {
				t.Fatalf("%s: %v", m[1], err)
			}
			if !declared[m[2]] {
				t.Errorf("%s: %s declares no %s; a method is named Type.Method", page, m[1], m[2])
			}
		}
	}
	if paths < 100 || names < 60 {
		t.Errorf("found %d paths and %d names only", paths, names)
	}
}

// TestSnippetsAreFromTheirFiles: a block marked "from FILE" stands in FILE.
func TestSnippetsAreFromTheirFiles(t *testing.T) {
	found := 0
	for _, page := range pages(t) {
		for _, b := range Blocks(read(t, page)) {
			file, ok := strings.CutPrefix(b.Mark, "from ")
			if !ok {
				continue
			}
			found++
			if !strings.Contains(read(t, file), b.Text) {
				t.Errorf("%s:%d: this does not stand in %s:\n%s", page, b.Line, file, b.Text)
			}
		}
	}
	if found < 4 {
		t.Errorf("found %d snippets only", found)
	}
}

// ours are the pages whose commands, flags, metrics and messages are looked up.
func ours() []string {
	return []string{"README.md", "ARCHITECTURE.md", "docs/life-of-a-call.md", "docs/runbook.md", "docs/llm.md", "docs/rough-edges.md", "docs/eval.md", "docs/humans.md", "docs/security.md", "docs/replay.md"}
}

// commandLine is one of our programs, and what follows on its line or in its span.
var commandLine = regexp.MustCompile(`(?:^|[\s/(])(mulligan|coordinator|worker|reflector)((?: +[^\s|;&>` + "`" + `]+)*)`)

// commandLines are those in blocks of shell and in code spans.
func commandLines(page string) [][]string {
	var lines []string
	for _, b := range Blocks(page) {
		if b.Lang == "sh" {
			lines = append(lines, strings.Split(b.Text, "\n")...)
		}
	}
	for _, s := range Spans(page) {
		if word, _, _ := strings.Cut(s, " "); programs()[word] != nil && strings.Contains(s, " ") {
			lines = append(lines, s)
		}
	}
	var out [][]string
	for _, l := range lines {
		l, _, _ = strings.Cut(l, " #")
		for _, m := range commandLine.FindAllStringSubmatch(l, -1) {
			out = append(out, append([]string{m[1]}, strings.Fields(m[2])...))
		}
	}
	return out
}

func programs() map[string]cli.Program {
	return map[string]cli.Program{"mulligan": cli.Mulligan, "coordinator": cli.Coordinator, "worker": cli.Worker, "reflector": cli.Reflector}
}

// help is what a command says about itself, empty when there is none.
func help(t *testing.T, program string, words ...string) string {
	t.Helper()
	var out bytes.Buffer
	env := cli.IO{In: strings.NewReader(""), Out: &out, Err: &out, Dir: t.TempDir(), Env: []string{"HOME=" + t.TempDir()}}
	if programs()[program](t.Context(), env, slices.Concat(words, []string{"--help"})) != 0 {
		return ""
	}
	return out.String()
}

var (
	flagName = regexp.MustCompile(`^--[a-z-]+`)
)

// TestCommandsAndFlagsExist: every command line of these pages names a command
// of that program, and flags that its help lists.
func TestCommandsAndFlagsExist(t *testing.T) {
	found := 0
	for _, page := range ours() {
		text := read(t, page)
		for _, words := range commandLines(text) {
			found++
			sub := subcommand(words)
			says := help(t, words[0], sub...)
			if says == "" || len(sub) > 0 && !strings.Contains(says, "\n  "+words[0]+" "+strings.Join(sub, " ")) {
				t.Errorf("%s: %s: there is no such command", page, strings.Join(words, " "))
				continue
			}
			for _, w := range words[1:] {
				if f := flagName.FindString(w); f != "" && !strings.Contains(says, " "+f+" ") {
					t.Errorf("%s: %s: %s has no flag %s", page, strings.Join(words, " "), words[0], f)
				}
			}
		}
		bareFlags(t, page, text)
	}
	if found < 30 {
		t.Errorf("found %d command lines only", found)
	}
}

var word = regexp.MustCompile(`^[a-z]+$`)

// subcommand is what a line names of mulligan's commands; the services have none.
func subcommand(words []string) []string {
	if words[0] != "mulligan" || len(words) == 1 || !word.MatchString(words[1]) {
		return nil
	}
	sub := words[1:2]
	if len(words) > 2 && (words[1] == "bench" || words[1] == "tools" || words[1] == "admin" || words[1] == "replay") && word.MatchString(words[2]) {
		sub = words[1:3]
	}
	return sub
}

// bareFlags: a flag that stands in a span of its own is one of some command.
func bareFlags(t *testing.T, page, text string) {
	t.Helper()
	var all strings.Builder
	for name := range programs() {
		all.WriteString(help(t, name))
	}
	for _, c := range []string{"up", "run", "call", "cancel", "explain", "tools", "eval", "inbox", "answer", "failures", "replay"} {
		all.WriteString(help(t, "mulligan", c))
	}
	for _, s := range Spans(text) {
		if f := flagName.FindString(s); f != "" && !strings.Contains(all.String(), " "+f+" ") {
			t.Errorf("%s: no command has the flag %s", page, f)
		}
	}
}

var target = regexp.MustCompile(`^make ([a-z-]+)`)

func TestMakeTargetsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	found := 0
	for _, page := range pages(t) {
		text := read(t, page)
		spans := Spans(text)
		for _, b := range Blocks(text) {
			spans = append(spans, strings.Split(b.Text, "\n")...)
		}
		for _, s := range spans {
			m := target.FindStringSubmatch(strings.TrimSpace(s))
			if m == nil {
				continue
			}
			found++
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: make has no target %s", page, m[1])
			}
		}
	}
	if found < 8 {
		t.Errorf("found %d targets only", found)
	}
}

var metric = regexp.MustCompile(`mulligan_([a-z]+_[a-z_]+)`)

// TestMetricsExist: a metric's name is written in one place, whole or, those
// of the coordinator, without what they all begin with.
func TestMetricsExist(t *testing.T) {
	source := read(t, "internal/metrics/metrics.go") + read(t, "internal/pool/metrics.go")
	found := 0
	for _, page := range pages(t) {
		for _, s := range Spans(read(t, page)) {
			for _, m := range metric.FindAllStringSubmatch(s, -1) {
				found++
				whole := strings.Contains(source, `"mulligan_`+m[1]+`"`)
				name, coordinators := strings.CutPrefix(m[1], "coordinator_")
				if !whole && (!coordinators || !strings.Contains(source, `"`+name+`"`)) {
					t.Errorf("%s: no metric mulligan_%s", page, m[1])
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("found %d metrics only", found)
	}
}

// TestMessagesOfTheRunbookAreLogged: what the runbook tells to look for in a log,
// in a span and in quotes, is what the code writes.
func TestMessagesOfTheRunbookAreLogged(t *testing.T) {
	logged := make(map[string]bool)
	for _, dir := range []string{"internal", "pkg", "jetstream"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
				return err
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			texts, err := Literals(b)
			for text := range texts {
				logged[text] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	found := 0
	for _, s := range Spans(read(t, "docs/runbook.md")) {
		text, ok := strings.CutPrefix(s, `"`)
		if !ok {
			continue
		}
		found++
		if text = strings.TrimSuffix(text, `"`); !logged[text] {
			t.Errorf("docs/runbook.md: nothing logs %q", text)
		}
	}
	if found < 8 {
		t.Errorf("found %d messages only", found)
	}
}
