//go:build unix && !race

package readmetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheExampleOfHumans(t *testing.T) { typeExample(t, "docs/humans.md", strings.NewReplacer()) }

func TestTheExampleOfTheGateway(t *testing.T) {
	typeExample(t, "docs/gateway.md", strings.NewReplacer("7070", freePort(t)))
}

// typeExample types the example of a page into an empty folder, with the files that
// the page gives, and looks for the output that stands below. Its blocks are
// typed as one, since the pool of the first serves them all.
func typeExample(t *testing.T, page string, ports *strings.Replacer) {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "mulligan/cmd/mulligan")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var script, want strings.Builder
	blocks := Blocks(read(t, page))
	for i, b := range blocks {
		if name, ok := strings.CutPrefix(b.Mark, "file "); ok {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(b.Text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if b.Mark != "run" {
			continue
		}
		script.WriteString(b.Text)
		if i+1 == len(blocks) || blocks[i+1].Lang != "text" {
			t.Fatalf("%s:%d: no output stands below the commands", page, b.Line)
		}
		want.WriteString(blocks[i+1].Text)
	}
	env := append(surroundings(t), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	got := typeIn(t, dir, env, 0, ports.Replace(script.String()))
	if miss := Missing(want.String(), got); miss != "" || want.Len() == 0 {
		t.Errorf("%s: this line is not printed, or not in its place: %s\nprinted:\n%s", page, miss, got)
	}
}
