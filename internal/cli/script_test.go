package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"mulligan":    func() { Main(Mulligan) },
		"coordinator": func() { Main(Coordinator) },
		"worker":      func() { Main(Worker) },
		"reflector":   func() { Main(Reflector) },
		"jsonfield":   jsonField,
		"makecalls":   makeCalls,
		"model":       scriptedModel,
		"mcpserver":   mcpServer,
		"mcpclient":   mcpClient,
		"mcpfixture":  mcpFixture,
		"mcphostile":  mcpHostile,
	})
}

// jsonField FIELD FILE prints the JSON of a field of each line.
func jsonField() {
	f, err := os.Open(os.Args[2])
	if err != nil {
		panic(err)
	}
	d := json.NewDecoder(f)
	for d.More() {
		var line map[string]json.RawMessage
		if err := d.Decode(&line); err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", line[os.Args[1]])
	}
}

// makeCalls N writes calls.jsonl with N calls of the tool effect.
func makeCalls() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"ref":"%d","tool":"effect","input":{}}`+"\n", i)
	}
	if err := os.WriteFile("calls.jsonl", []byte(b.String()), 0o600); err != nil {
		panic(err)
	}
}

// TestScripts runs testdata/script: the commands as a user types them, each in
// a folder and a home of its own. `go test -run Scripts/NAME -v` shows one.
func TestScripts(t *testing.T) { runScripts(t, "script") }

// runScripts runs those of a folder of testdata.
func runScripts(t *testing.T, folder string) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", folder),
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
			e.Setenv("CLIENTS", os.Getenv("MULLIGAN_MCP_CLIENTS"))
			e.Values[processesKey{}] = &processes{byName: make(map[string]*process)}
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"orders": orders,
			"start":  start,
			"end":    end,
			"lines":  lines,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// exits CODE COMMAND… runs a command that must end with this code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ee *exec.ExitError
		if !errors.As(err, &ee) {
			ts.Fatalf("%v", err)
		}
		got = ee.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// lines MIN [MAX] FILE says that a file has this many lines.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: lines MIN [MAX] FILE")
	}
	file := args[len(args)-1]
	least, err := strconv.Atoi(args[0])
	ts.Check(err)
	most, err := strconv.Atoi(args[len(args)-2])
	ts.Check(err)
	if n := strings.Count(ts.ReadFile(file), "\n"); n < least || n > most {
		ts.Fatalf("%s has %d lines, want %d to %d", file, n, least, most)
	}
}

// patience is how long a script waits for what must happen.
const patience = 2 * time.Minute

type processesKey struct{}

type processes struct {
	mu     sync.Mutex
	byName map[string]*process
}

type process struct {
	cmd *exec.Cmd
	out chan struct{} // closed when the output has ended
}

// start NAME REGEXP COMMAND… starts a command and waits until a line of its
// output matches. The output stands in NAME.out as it comes.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: start NAME REGEXP COMMAND…")
	}
	want, err := regexp.Compile(args[1])
	ts.Check(err)
	path, err := lookPath(ts, args[2])
	ts.Check(err)
	cmd := exec.Command(path, args[3:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = environ(ts)
	r, w, err := os.Pipe()
	ts.Check(err)
	cmd.Stdout, cmd.Stderr = w, w
	file, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Check(w.Close())
	p := &process{cmd: cmd, out: make(chan struct{})}
	seen := make(chan bool, 1)
	go copyLines(r, file, want, seen, p.out)
	all := ts.Value(processesKey{}).(*processes)
	all.mu.Lock()
	all.byName[args[0]] = p
	all.mu.Unlock()
	ts.Defer(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.out
		_ = cmd.Wait()
	})
	select {
	case ok := <-seen:
		if !ok {
			ts.Fatalf("%s ended before its output matched %s:\n%s", args[0], args[1], ts.ReadFile(args[0]+".out"))
		}
	case <-time.After(patience):
		ts.Fatalf("the output of %s did not match %s within %s:\n%s", args[0], args[1], patience, ts.ReadFile(args[0]+".out"))
	}
}

func lookPath(ts *testscript.TestScript, name string) (string, error) {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

func environ(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "GOCOVERDIR", "MULLIGAN_STATE", "MULLIGAN_SERVER", "MULLIGAN_TOKEN"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func copyLines(r io.Reader, file *os.File, want *regexp.Regexp, seen chan<- bool, done chan<- struct{}) {
	defer close(done)
	defer file.Close()
	told := false
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		_, _ = file.WriteString(line) // a test that reads it will see
		if !told && want.MatchString(line) {
			told = true
			seen <- true
		}
		if err != nil {
			if !told {
				seen <- false
			}
			return
		}
	}
}

// end NAME SIGNAL CODE sends a signal, TERM, INT or KILL, waits for the end and
// compares the exit code; -1 is that of a killed process. With SIGNAL - it only
// waits.
func end(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: end NAME SIGNAL CODE")
	}
	all := ts.Value(processesKey{}).(*processes)
	all.mu.Lock()
	p := all.byName[args[0]]
	all.mu.Unlock()
	if p == nil {
		ts.Fatalf("there is no process %s", args[0])
	}
	if args[1] != "-" {
		sig := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}[args[1]]
		ts.Check(p.cmd.Process.Signal(sig))
	}
	select {
	case <-p.out:
	case <-time.After(patience):
		ts.Fatalf("%s has not ended after %s:\n%s", args[0], patience, ts.ReadFile(args[0]+".out"))
	}
	_ = p.cmd.Wait() // its state is looked at below
	if got := fmt.Sprint(p.cmd.ProcessState.ExitCode()); got != args[2] {
		ts.Fatalf("%s ended with exit code %s, want %s:\n%s", args[0], got, args[2], ts.ReadFile(args[0]+".out"))
	}
}
