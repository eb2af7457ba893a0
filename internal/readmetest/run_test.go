//go:build unix && !race

// The race detector sees nothing here: what runs are other processes.

package readmetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mulligan/internal/freeport"
)

// TestReadmeCommands types the commands of the README and those of
// docs/cluster.md, of whose three servers one is killed, block by block, into a
// copy of the repository that holds nothing else, and looks for the output that
// stands below each. There is no network: every module has to be in the cache.
func TestReadmeCommands(t *testing.T) {
	dir := fresh(t)
	if ran := typePage(t, dir, "README.md", "deploy/nats/single.conf", "4222", "8222", "9091", "9092", "9093"); ran < 4 {
		t.Errorf("README.md has %d blocks to run; is their mark still <!-- run -->?", ran)
	}
	if ran := typePage(t, dir, "docs/cluster.md", "deploy/nats/cluster.conf", "4241", "4242", "4243", "6241", "6242", "6243"); ran != 1 {
		t.Errorf("docs/cluster.md has %d blocks to run", ran)
	}
}

// typePage types the blocks of a page that are marked to be run, with free ports
// in place of those that it names, and in the configuration that it uses.
func typePage(t *testing.T, dir, name, config string, taken ...string) (ran int) {
	t.Helper()
	var pairs []string
	for _, port := range taken {
		pairs = append(pairs, port, freePort(t))
	}
	ports := strings.NewReplacer(pairs...)
	rewrite(t, filepath.Join(dir, config), ports)
	env := surroundings(t)
	blocks := Blocks(read(t, name))
	for i, b := range blocks {
		if b.Mark != "run" {
			continue
		}
		ran++
		got := typeIn(t, dir, env, b.Line, ports.Replace(b.Text))
		if i+1 == len(blocks) || blocks[i+1].Lang != "text" {
			t.Errorf("%s:%d: no output stands below the commands", name, b.Line)
			continue
		}
		if miss := Missing(blocks[i+1].Text, got); miss != "" {
			t.Errorf("%s:%d: this line is not printed, or not in its place: %s\nprinted:\n%s\n%s", name, b.Line, miss, got, logs(dir))
		}
	}
	return ran
}

// most is how long one block may take. Nearly all of it is compiling.
const most = 8 * time.Minute

// ending ends what a block left in the background, and waits for it, since it
// writes into the folder that the test removes.
const ending = "trap 'code=$?; set +e; kill $(jobs -p) 2> /dev/null; wait; exit $code' EXIT\n"

// typeIn runs a block with bash and gives what it printed.
func typeIn(t *testing.T, dir string, env []string, line int, script string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "output")
	f, err := os.Create(out) // no pipe: what runs in the background would hold it open
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", ending+script)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // the group; most times nobody is left
	late := time.AfterFunc(most, end)
	err = cmd.Wait()
	if !late.Stop() {
		err = fmt.Errorf("not done after %s: %w", most, err)
	}
	end()
	b, rerr := os.ReadFile(out)
	if err = errors.Join(err, rerr, f.Close()); err != nil {
		t.Fatalf("README.md:%d: %v\n%s\n%s", line, err, b, logs(dir))
	}
	t.Logf("README.md:%d ran in %s", line, time.Since(begun).Round(time.Millisecond))
	return string(b)
}

func logs(dir string) string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(dir, "bin", "*.log"))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		fmt.Fprintf(&b, "== %s\n%s", filepath.Base(f), text)
	}
	return b.String()
}

// fresh is a copy of what a build needs.
func fresh(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone while it was looked at
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch base := d.Name(); {
		case d.IsDir() && rel != "." && (strings.HasPrefix(base, ".") || base == "testdata" || rel == "bin" || rel == "dist"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, rel), 0o750)
		case !d.Type().IsRegular() || strings.HasSuffix(base, "_test.go") || strings.HasSuffix(base, ".journal"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// surroundings is an environment without what a user has configured, and with
// the caches of the Go that runs this test.
func surroundings(t *testing.T) []string {
	t.Helper()
	home := t.TempDir()
	env := []string{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false -ldflags=-w"}
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		env = append(env, names[i]+"="+v)
	}
	return append(env, "PATH="+os.Getenv("PATH"), "TMPDIR="+t.TempDir())
}

func freePort(t *testing.T) string { return strconv.Itoa(freeport.Get(t)) }

func rewrite(t *testing.T, path string, r *strings.Replacer) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(r.Replace(string(b))), 0o600); err != nil {
		t.Fatal(err)
	}
}
