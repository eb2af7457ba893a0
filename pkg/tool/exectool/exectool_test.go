//go:build unix

package exectool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/declared"
	"mulligan/pkg/tool/exectool"
)

// TestMain is also the commands that the tests run: the binary calls itself.
func TestMain(m *testing.M) {
	if mode := os.Getenv("HELPER"); mode != "" {
		helper(mode, os.Args[1:])
		return
	}
	goleak.VerifyTestMain(m)
}

func helper(mode string, args []string) {
	switch mode {
	case "cat":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "exit":
		fmt.Fprint(os.Stdout, args[1])
		fmt.Fprint(os.Stderr, args[2])
		code, _ := strconv.Atoi(args[0])
		os.Exit(code)
	case "env":
		for _, v := range os.Environ() {
			fmt.Println(v)
		}
	case "pwd":
		dir, _ := os.Getwd()
		fmt.Print(dir)
	case "args":
		fmt.Printf("%q", args)
	case "endless":
		for {
			if _, err := os.Stdout.Write(make([]byte, 4096)); err != nil {
				os.Exit(9)
			}
		}
	case "noise":
		for i := range 100_000 {
			fmt.Fprintln(os.Stderr, i)
		}
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "forever":
		ready(args[0])
		select {}
	case "deaf", "graceful":
		terms := make(chan os.Signal, 1)
		signal.Notify(terms, syscall.SIGTERM)
		ready(args[0])
		<-terms
		if mode == "deaf" {
			select {}
		}
		fmt.Print("saved")
		code, _ := strconv.Atoi(args[1])
		os.Exit(code)
	case "child": // leaves a child behind that holds the output, and waits
		child := exec.Command(os.Args[0], args[0])
		child.Env = append(os.Environ(), "HELPER=deaf")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			os.Exit(8)
		}
		select {}
	case "leave": // ends beside a child that holds the output
		child := exec.Command("sleep", "600")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			os.Exit(8)
		}
		tell(args[0], child.Process.Pid)
		fmt.Print("left")
	}
}

// ready tells the test that the process is up, and its id.
func ready(fifo string) { tell(fifo, os.Getpid()) }

func tell(fifo string, pid int) {
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		os.Exit(7)
	}
	fmt.Fprint(f, pid)
	_ = f.Close()
}

// fifo gives a path for ready and what is written there.
func fifo(t *testing.T) (string, <-chan int) {
	path := filepath.Join(t.TempDir(), "ready")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	up := make(chan int, 1)
	go func() {
		b, _ := os.ReadFile(path)
		pid, _ := strconv.Atoi(string(b))
		up <- pid
	}()
	return path, up
}

func command(t *testing.T, mode string, args []string, change ...func(*exectool.Declaration)) *tool.Tool {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := exectool.Declaration{Name: "x", Command: append([]string{exe}, args...), SetEnv: map[string]string{"HELPER": mode}}
	for _, f := range change {
		f(&d)
	}
	tl, err := exectool.New(d, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func execute(ctx context.Context, tl *tool.Tool, c tool.Call) tool.Execution {
	return tl.Execute(ctx, c, tool.Limits{Timeout: 5 * time.Minute, Grace: time.Minute})
}

func TestInputAndOutputPassByteForByte(t *testing.T) {
	in := []byte("{\"a\": 9007199254740993}\n\xff\x00" + strings.Repeat("x", 1<<20))
	e := execute(t.Context(), command(t, "cat", nil), tool.Call{Input: in})
	if e.Failure != nil || string(e.Output.Body) != string(in) {
		t.Errorf("%d of %d bytes, %v", len(e.Output.Body), len(in), e.Failure)
	}
}

// A command that does not read its input is not harmed by it.
func TestInputMayBeIgnored(t *testing.T) {
	e := execute(t.Context(), command(t, "exit", []string{"0", "ok", ""}), tool.Call{Input: make([]byte, 4<<20)})
	if e.Failure != nil || string(e.Output.Body) != "ok" {
		t.Errorf("%+v", e)
	}
}

func TestNoShellIsInvolved(t *testing.T) {
	args := []string{"$HOME", "; rm -rf x", "`id`", "*", "a b", ""}
	e := execute(t.Context(), command(t, "args", args), tool.Call{})
	if want := fmt.Sprintf("%q", args); string(e.Output.Body) != want {
		t.Errorf("got %s, want %s", e.Output.Body, want)
	}
}

func TestEnvironmentIsAnAllowList(t *testing.T) {
	t.Setenv("SECRET_OF_THE_WORKER", "s")
	t.Setenv("PASSED_ON", "p")
	t.Setenv("OVERRIDDEN", "worker's")
	tl := command(t, "env", nil, func(d *exectool.Declaration) {
		d.Env = []string{"PASSED_ON", "OVERRIDDEN", "NOT_THERE"}
		d.SetEnv["OVERRIDDEN"], d.SetEnv["EMPTY"] = "set", ""
	})
	deadline := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	e := execute(t.Context(), tl, tool.Call{
		ID: "c1", Key: "k1", Ref: "r1", Run: messages.NamedRun("my run"), Attempt: 2, Dispatch: 3, Deadline: deadline,
	})
	want := []string{
		"EMPTY=", "HELPER=env", "MULLIGAN_ATTEMPT=2", "MULLIGAN_CALL=c1", "MULLIGAN_DEADLINE=2030-01-02T03:04:05.000000006Z", "MULLIGAN_DISPATCH=3",
		"MULLIGAN_KEY=k1", "MULLIGAN_REF=r1", "MULLIGAN_RUN=my run", "MULLIGAN_TOOL=x", "OVERRIDDEN=set", "PASSED_ON=p",
	}
	if got := strings.Split(strings.TrimSpace(string(e.Output.Body)), "\n"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	e = execute(t.Context(), tl, tool.Call{Run: messages.UnnamedRun("x"), Ref: "a\x00b"})
	if s := string(e.Output.Body); e.Failure != nil || strings.Contains(s, "_RUN=") || strings.Contains(s, "_REF=") {
		t.Errorf("got %s, %v", s, e.Failure)
	}
	odd := command(t, "env", nil, func(d *exectool.Declaration) { d.Name = "a\x00b" })
	if e := execute(t.Context(), odd, tool.Call{}); e.Failure != nil || strings.Contains(string(e.Output.Body), "_TOOL=") {
		t.Errorf("a name with a NUL: got %s, %v", e.Output.Body, e.Failure)
	}
}

// What was ended before its process began did nothing, which is no matter of
// doubt even for an unsafe tool.
func TestAnEndBeforeTheStartIsDefinite(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&tool.Stop{Code: messages.CodeTimeout, Reason: "timed out after 0.001s"})
	_, err := command(t, "cat", nil).Run(ctx, tool.Call{})
	var f *tool.Failure
	if !errors.As(err, &f) || f.Ambiguous || f.Code != messages.CodeTimeout || f.Text != "Tool 'x' timed out after 0.001s" {
		t.Errorf("got %+v, %v", f, err)
	}
}

// S6.1: the exit code decides, never what is printed.
func TestS6_1_TheExitCodeDecides(t *testing.T) {
	rules := map[int]declared.Rule{
		2: {Outcome: declared.Definite}, 3: {Outcome: declared.Ambiguous}, 64: {Outcome: declared.Invalid},
		73: {Outcome: declared.RetryAfter, After: time.Second}, 74: {Outcome: declared.RetryAfter, After: time.Second, NothingDone: true},
		75: {Outcome: declared.Unavailable, After: 5 * time.Second}, 76: {Outcome: declared.RateLimited},
	}
	for _, c := range []struct {
		code           int
		stdout, stderr string
		from           string
		want           *tool.Failure // nil: success
		text           string
	}{
		{0, `{"error": "boom"}`, "ERROR", "", nil, `{"error": "boom"}`},
		{0, "", "", "", nil, ""},
		{1, "", "", "", &tool.Failure{Code: messages.CodeToolError}, `Tool "x" exited with code 1 and no output`},
		{1, "", "why", "", &tool.Failure{Code: messages.CodeToolError}, `Tool "x" exited with code 1 and no output`},
		{1, "", "why\n", "stderr", &tool.Failure{Code: messages.CodeToolError}, "why\n"},
		{1, `{"error": null}`, "", "", &tool.Failure{Code: messages.CodeToolError}, `{"error": null}`},
		{2, "said\n", "", "", &tool.Failure{Code: messages.CodeToolError}, "said\n"},
		{3, "said", "", "", &tool.Failure{Code: messages.CodeToolError, Ambiguous: true}, "said"},
		{64, "said", "", "", &tool.Failure{Code: messages.CodeInvalidArguments, NotExecuted: true}, "said"},
		{73, "said", "", "", &tool.Failure{Code: messages.CodeToolError, RetryAfter: time.Second}, "said"},
		{74, "", "", "", &tool.Failure{Code: messages.CodeToolError, RetryAfter: time.Second, NothingDone: true}, `Tool "x" exited with code 74 and no output`},
		{75, "said", "", "", &tool.Failure{Code: messages.CodeUnavailable, RetryAfter: 5 * time.Second, NothingDone: true}, "said"},
		{76, "said", "", "", &tool.Failure{Code: messages.CodeRateLimited, NothingDone: true}, "said"},
		{143, "said", "", "", &tool.Failure{Code: messages.CodeToolError}, "said"},
	} {
		tl := command(t, "exit", []string{strconv.Itoa(c.code), c.stdout, c.stderr}, func(d *exectool.Declaration) { d.ExitCodes, d.ErrorFrom = rules, c.from })
		e := execute(t.Context(), tl, tool.Call{})
		if (e.Failure == nil) != (c.want == nil) || e.Output.Stderr != c.stderr {
			t.Errorf("exit %d: %+v", c.code, e)
			continue
		}
		if c.want == nil {
			if string(e.Output.Body) != c.text {
				t.Errorf("exit %d: %q", c.code, e.Output.Body)
			}
			continue
		}
		f := e.Failure
		if f.Text != c.text || f.Code != c.want.Code || f.Ambiguous != c.want.Ambiguous || f.NotExecuted != c.want.NotExecuted ||
			f.NothingDone != c.want.NothingDone || f.RetryAfter != c.want.RetryAfter {
			t.Errorf("exit %d: %+v", c.code, f)
		}
	}
}

func TestS6_ACrashedProcessIsAPanic(t *testing.T) {
	e := execute(t.Context(), command(t, "die", nil), tool.Call{})
	if f := e.Failure; f == nil || f.Code != messages.CodePanic || !f.Ambiguous || f.Text != `Tool "x" panicked: its process ended by signal: killed` {
		t.Errorf("%+v", f)
	}
}

func TestACommandThatPrintsWithoutEndIsEnded(t *testing.T) {
	tl := command(t, "endless", nil, func(d *exectool.Declaration) { d.MaxOutput = 100_000 })
	e := execute(t.Context(), tl, tool.Call{})
	if f := e.Failure; f == nil || f.Code != messages.CodeOutputTooLarge || !f.Ambiguous || f.Text != `Tool "x" was ended: it printed more than 100000 bytes` {
		t.Errorf("%+v", f)
	}
	tl = command(t, "exit", []string{"0", strings.Repeat("x", 1000), ""}, func(d *exectool.Declaration) { d.MaxOutput = 1000 })
	if e := execute(t.Context(), tl, tool.Call{}); e.Failure != nil || len(e.Output.Body) != 1000 {
		t.Errorf("at the limit: %v", e.Failure)
	}
}

func TestTheEndOfStderrIsKept(t *testing.T) {
	e := execute(t.Context(), command(t, "noise", nil), tool.Call{})
	if n := len(e.Output.Stderr); n != messages.MaxStderr || !strings.HasSuffix(e.Output.Stderr, "99998\n99999\n") || len(e.Output.Body) != 0 {
		t.Errorf("%d bytes, ending in %q", n, e.Output.Stderr[max(0, n-20):])
	}
}

// stop starts tl, ends its context once the process is up, and gives what it said.
func stop(t *testing.T, tl *tool.Tool, up <-chan int) (e tool.Execution, pid int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan tool.Execution, 1)
	go func() { done <- execute(ctx, tl, tool.Call{}) }()
	pid = <-up
	cancel(&tool.Stop{Code: messages.CodeTimeout, Reason: "timed out after 1s"})
	return <-done, pid
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && !zombie(pid) }

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(b), ") Z ")
}

func TestATimeOutEndsTheProcess(t *testing.T) {
	path, up := fifo(t)
	e, pid := stop(t, command(t, "forever", []string{path}), up)
	if f := e.Failure; f == nil || f.Text != "Tool 'x' timed out after 1s" || f.Code != messages.CodeTimeout || !f.Ambiguous || e.Abandoned != nil {
		t.Errorf("%+v", f)
	}
	if alive(pid) {
		t.Error("the process lives on")
	}
}

func TestAProcessThatIgnoresSIGTERMIsKilled(t *testing.T) {
	path, up := fifo(t)
	tl := command(t, "deaf", []string{path}, func(d *exectool.Declaration) { d.KillAfter = declared.Duration(50 * time.Millisecond) })
	e, pid := stop(t, tl, up)
	if e.Failure == nil || e.Failure.Code != messages.CodeTimeout || e.Abandoned != nil || alive(pid) {
		t.Errorf("%+v, alive %v", e.Failure, alive(pid))
	}
}

// The whole group ends, also a child that ignores SIGTERM and holds the output.
func TestTheProcessGroupEnds(t *testing.T) {
	path, up := fifo(t)
	tl := command(t, "child", []string{path}, func(d *exectool.Declaration) { d.KillAfter = declared.Duration(50 * time.Millisecond) })
	e, child := stop(t, tl, up)
	if e.Failure == nil || e.Failure.Code != messages.CodeTimeout || e.Abandoned != nil {
		t.Errorf("%+v", e)
	}
	mustEnd(t, child)
}

func mustEnd(t *testing.T, child int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); alive(child) && time.Now().Before(deadline); {
		<-time.After(time.Millisecond) // it is init's to reap
	}
	if alive(child) {
		t.Error("a child lives on")
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
}

// A child that is left behind and holds the output does not hold up a success,
// and ends with it.
func TestAChildLeftBehindEndsWithTheTool(t *testing.T) {
	path, up := fifo(t)
	tl := command(t, "leave", []string{path}, func(d *exectool.Declaration) {
		d.KillAfter, d.Env = declared.Duration(50*time.Millisecond), []string{"PATH"}
	})
	e := execute(t.Context(), tl, tool.Call{})
	if e.Failure != nil || string(e.Output.Body) != "left" {
		t.Errorf("%+v", e)
	}
	mustEnd(t, <-up)
}

// After SIGTERM a success and a declared exit code are still the tool's own word.
func TestAnAnswerAfterSIGTERMCounts(t *testing.T) {
	for code, want := range map[string]messages.Code{"0": "", "3": messages.CodeUnavailable, "4": messages.CodeTimeout} {
		path, up := fifo(t)
		tl := command(t, "graceful", []string{path, code}, func(d *exectool.Declaration) {
			d.ExitCodes, d.KillAfter = map[int]declared.Rule{3: {Outcome: declared.Unavailable}}, declared.Duration(time.Minute)
		})
		e, _ := stop(t, tl, up)
		switch {
		case want == "" && (e.Failure != nil || string(e.Output.Body) != "saved"):
			t.Errorf("exit 0: %+v", e)
		case want != "" && (e.Failure == nil || e.Failure.Code != want):
			t.Errorf("exit %s: %+v", code, e.Failure)
		}
	}
}

const declaration = `
tools:
  - name: count
    queue: words
    description: counts
    effect: read_only
    version: "2"
    schema:
      type: object
      required: [text]
      properties: {text: {type: string, maxLength: 10}}
    command: [sh, -c, 'echo 3']
    dir: sub
    env: [PATH]
    set_env: {LANG: C}
    timeout: 1m30s
    kill_after: 500ms
    max_output: 64KiB
    exit_codes:
      75: {outcome: retry_after, after: 5s, nothing_done: true}
      2: definite
  - name: other
    schema_file: other.json
    command: [./run]
`

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"tools.yaml": declaration, "other.json": `{"type":"object"}`, "run": "#!/bin/sh\npwd\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	tools, err := exectool.Load(filepath.Join(dir, "tools.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	spec := tools[0].Spec()
	var schema map[string]any
	if err := json.Unmarshal(spec.Schema, &schema); err != nil || schema["type"] != "object" {
		t.Errorf("schema %s", spec.Schema)
	}
	if spec.Name != "count" || spec.Queue != "words" || spec.Effect != messages.ReadOnly || spec.Timeout.Duration() != 90*time.Second || spec.Version != "2" {
		t.Errorf("%+v", spec)
	}
	if e := execute(t.Context(), tools[0], tool.Call{}); e.Failure != nil || string(e.Output.Body) != "3\n" {
		t.Errorf("%+v", e)
	}
	other := tools[1].Spec()
	if other.Effect != messages.Unsafe || other.Queue != "default" || string(other.Schema) != `{"type":"object"}` {
		t.Errorf("%+v", other)
	}
	got, err := filepath.EvalSymlinks(strings.TrimSpace(string(execute(t.Context(), tools[1], tool.Call{}).Output.Body)))
	want, _ := filepath.EvalSymlinks(dir)
	if err != nil || got != want {
		t.Errorf("ran in %s, %v", got, err)
	}
}

func TestDeclarationsThatCannotBeUsed(t *testing.T) {
	one := func(fields string) string { return "tools:\n  - name: x\n    command: [sh]\n" + fields }
	for text, want := range map[string]string{
		"":                                     "no tools",
		"tools: []":                            "no tools",
		"tools: {":                             "line 1",
		"hello":                                `line 1: "hello" is not a mapping with a list under tools`,
		"- a":                                  "line 1: a list is not a mapping with a list under tools",
		"tools: {a: b}":                        "line 1: a mapping is not a list of tools",
		"tools: [a]":                           `line 1: "a" is not a mapping that declares a tool`,
		one("    env: PATH\n"):                 `line 4: "PATH" is not a list of texts`,
		one("    set_env: [A]\n"):              "line 4: a list is not a mapping of texts",
		one("    exit_codes: {a: definite}\n"): `line 4: "a" is not a whole number`,
		"tools: [{name: [y]}]":                 "line 1: a list is not a text",
		one("    time_out: 3s\n"):              `line 4: field time_out is not known; did you mean "timeout"?`,
		one("    timeout: 3\n"):                `line 4: "3" is not a duration such as 30s`,
		one("    timeout: -3s\n"):              "timeout or kill_after is negative",
		one("    max_output: much\n"):          `line 4: "much" is not a size`,
		one("    max_output: 17MiB\n"):         "max_output is 17825792 bytes",
		one("    effect: harmless\n"):          `unknown effect "harmless"`,
		one("    error_from: both\n"):          `error_from is "both"`,
		one("    env: [A=b]\n"):                `"A=b" is not the name of a variable`,
		one("    env: [MULLIGAN_KEY]\n"):       "are set by the worker",
		one("    dir: nowhere/\n    command: [./nothing]\n"):             "already",
		one("    exit_codes: {0: definite}\n"):                           "0 is always a success",
		one("    exit_codes: {2: good}\n"):                               `outcome "good" is not known`,
		one("    exit_codes: {2: {outcome: definite, after: 1s}}\n"):     "after has no meaning for definite",
		one("    exit_codes: {2: retry_after}\n"):                        "retry_after needs after",
		one("    exit_codes: {2: {outcome: x, wait: 1s}}\n"):             "line 4: field wait is not known",
		one("    exit_codes: {2: {outcome: retry_after, after: 5}}\n"):   `"5" is not a duration`,
		one("    exit_codes: {2: [definite]}\n"):                         "line 4: give an outcome",
		one("    schema: {type: object}\n    schema_file: s.json\n"):     "schema and schema_file",
		one("    schema_file: missing.json\n"):                           "schema_file: ",
		one("    schema: {type: string}\n"):                              "the input of a tool is an object",
		one("    schema: {1: 2}\n"):                                      "schema cannot be written as JSON",
		one("---\ntools: []\n"):                                          "more than one YAML document",
		"tools:\n  - name: x\n":                                          "command is empty",
		"tools:\n  - name: x\n    command: [no-such-program-anywhere]\n": "executable file not found",
		"tools:\n  - command: [sh]\n":                                    "tool name is empty",
	} {
		path := filepath.Join(t.TempDir(), "tools.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := exectool.Load(path)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "exectool.") || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%q:\n got %v\nwant %q", text, err, want)
		}
	}
	if _, err := exectool.Load("nowhere.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(declaration))
	f.Add([]byte("tools: [{name: x, command: [a], exit_codes: {1: {outcome: definite}}, max_output: 1KiB}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ds, err := exectool.Parse(b)
		if err != nil {
			return
		}
		for _, d := range ds {
			_ = d.WithDefaults("/").Validate() // must not panic
		}
	})
}
