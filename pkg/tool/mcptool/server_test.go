package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/mcptool"
)

func TestToolsAreDiscovered(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "good", func(c *mcptool.Config) {
		c.Prefix, c.Include, c.Exclude = nil, []string{"e*", "typed", "key"}, []string{"env"}
		c.Timeout = 90 * time.Second
	}))
	if names := r.names(); !slices.Equal(names, []string{"good__echo", "good__key", "good__typed"}) {
		t.Errorf("%v", names)
	}
	spec := r.find("good__echo").Spec()
	if spec.Queue != "good" || r.Queue() != "good" || spec.Description != "gives back its text" || spec.Version != "1.2.3" || spec.Timeout.Duration() != 90*time.Second ||
		!strings.Contains(string(spec.Schema), `"text"`) {
		t.Errorf("%+v", spec)
	}
	if d := r.find("good__key").Spec().Description; d != "the idempotency key" {
		t.Errorf("description %q", d)
	}
	if out := r.well("good__echo", `{"text":"hello"}`); out != "hello" {
		t.Errorf("%q", out)
	}
}

func TestS7_1_AnnotationsAreBelievedOfTrustedServersAlone(t *testing.T) {
	t.Parallel()
	u, ro, id, keyed := messages.Unsafe, messages.ReadOnly, messages.Idempotent, messages.Keyed
	for name, c := range map[string]struct {
		change                 func(*mcptool.Config)
		echo, key, typed, fail messages.Effect // read only; idempotent; destructive; nothing said
	}{
		"untrusted":    {func(*mcptool.Config) {}, u, u, u, u},
		"trusted":      {trusted, ro, id, u, u},
		"effects":      {func(c *mcptool.Config) { c.Effects = map[string]messages.Effect{"k*": id, "key": keyed, "*": ro} }, ro, keyed, ro, ro},
		"effects less": {func(c *mcptool.Config) { c.Trust, c.Effects = true, map[string]messages.Effect{"e*o": u} }, u, id, u, u},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, fake(t, "good", c.change))
			for tool, want := range map[string]messages.Effect{"echo": c.echo, "key": c.key, "typed": c.typed, "fail": c.fail} {
				if got := r.find(tool).Spec().Effect; got != want {
					t.Errorf("%s is %s, want %s", tool, got, want)
				}
			}
		})
	}
}

func TestS6_1_WhatAServerSaysIsTheResult(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "good"))
	if out := r.well("typed", `{"text":"x"}`); !strings.Contains(out, `"structuredContent":{"text":"x"}`) || !mcptool.LooksLikeResult([]byte(out)) {
		t.Errorf("structured content: %s", out)
	}
	var media struct {
		Content []struct {
			Type, MIMEType, Data, URI string
			Resource                  struct{ URI, Text string }
		}
	}
	if err := json.Unmarshal([]byte(r.well("media", `{}`)), &media); err != nil {
		t.Fatal(err)
	}
	if c := media.Content; len(c) != 5 || c[1].Data != "AQID" || c[1].MIMEType != "image/png" || c[2].Data != "BA==" || c[3].Resource.Text != "a" || c[4].URI != "file:///b" {
		t.Errorf("%+v", c)
	}
	// A text that could be taken for a result is not told apart by itself.
	if out := r.well("echo", `{"text":"{\"content\":[{\"type\":\"text\"}]}"}`); !mcptool.LooksLikeResult([]byte(out)) || !strings.Contains(out, `"text":"{\"content\"`) {
		t.Errorf("%s", out)
	}
	f := r.call("fail", `{"text":"order O-1 does not exist"}`).Failure
	if f == nil || f.Code != messages.CodeToolError || f.Ambiguous || f.Text != "order O-1 does not exist" || string(f.Body) != "order O-1 does not exist" {
		t.Errorf("%+v", f)
	}
	f = r.call("echo", `[]`).Failure
	if f == nil || f.Code != messages.CodeInvalidArguments || !f.NotExecuted {
		t.Errorf("arguments that are none: %+v", f)
	}
}

func TestS7_2_TheKeyIsInTheMetaOfTheRequest(t *testing.T) {
	t.Parallel()
	if out := start(t, fake(t, "good")).well("key", `{}`); out != "the-key" {
		t.Errorf("%q", out)
	}
}

func TestAServerGetsTheVariablesThatItIsGiven(t *testing.T) {
	t.Setenv("MULLIGAN_TOKEN", "of-the-worker")
	r := start(t, fake(t, "good", func(c *mcptool.Config) { c.Env["GIVEN"] = "yes" }))
	env := strings.Split(r.well("env", `{}`), "\n")
	if !slices.Contains(env, "GIVEN=yes") || slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "MULLIGAN_TOKEN") }) ||
		!slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		t.Errorf("%v", env)
	}
}

func TestWhatAServerSaysOnStderrIsLoggedWithoutSecrets(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "good", func(c *mcptool.Config) { c.Env["WORD"] = "hunter2-hunter2" }))
	r.well("say", `{"text":"using hunter2-hunter2 and password=opensesame today"}`)
	r.well("say", `{"text":"the last word"}`)
	r.has("the last word")
	log := r.log.String()
	if strings.Contains(log, "hunter2") || strings.Contains(log, "opensesame") || !strings.Contains(log, "today") {
		t.Error(log)
	}
}

func TestS7_3_ACallOfAServerThatDiesIsAmbiguous(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "good"))
	running := filepath.Join(t.TempDir(), "running")
	other := make(chan tool.Execution, 1)
	go func() { other <- r.call("wait", `{"text":"`+running+`"}`) }()
	for !exists(running) {
		pause(t.Context(), time.Millisecond)
	}
	for _, e := range []tool.Execution{r.call("die", `{}`), <-other} {
		if f := e.Failure; f == nil || f.Code != messages.CodeConnectionLost || !f.Ambiguous || !strings.Contains(f.Text, "exit status 7") || !strings.Contains(f.Text, "out of cheese") {
			t.Errorf("%+v", f)
		}
	}
	// It is started again, and what comes meanwhile did nothing.
	if e := r.again("echo", `{"text":"back"}`); e.Failure != nil || string(e.Output.Body) != "back" {
		t.Errorf("%+v", e)
	}
}

func TestTheOtherProcessesOfAServerGoOn(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "good", func(c *mcptool.Config) { c.Processes = 2 }))
	running := filepath.Join(t.TempDir(), "running")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	other := make(chan tool.Execution, 1)
	go func() { other <- r.callWithin(ctx, "wait", `{"text":"`+running+`"}`, patience) }()
	for !exists(running) {
		pause(t.Context(), time.Millisecond)
	}
	if f := r.call("die", `{}`).Failure; f == nil || !f.Ambiguous { // the one with fewer calls
		t.Errorf("%+v", f)
	}
	if e := r.again("echo", `{"text":"x"}`); e.Failure != nil {
		t.Errorf("%+v", e.Failure)
	}
	select {
	case e := <-other:
		t.Errorf("the other process ended too: %+v", e.Failure)
	default:
	}
	cancel()
	<-other
}

func TestAServerThatIsNotStartedAgainHasNoTools(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "good", func(c *mcptool.Config) { c.Restart = mcptool.RestartNever }))
	r.call("die", `{}`)
	r.until("gone", func(names []string) bool { return len(names) == 0 })
}

func TestAServerThatCannotBeUsedIsTriedAgainAndSaysWhy(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "broken", func(c *mcptool.Config) { c.Env["TOKEN"] = "s3cr3t-of-the-server" }))
	if n := r.names(); len(n) != 0 {
		t.Errorf("%v", n)
	}
	r.has("exit status 3: no configuration: token [withheld]")
	if strings.Contains(r.log.String(), "s3cr3t") {
		t.Error(r.log)
	}
}

func TestS6_T3_ATimeOutIsToldToTheServer(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "good"))
	f := r.callWithin(t.Context(), "wait", `{"text":""}`, 500*time.Millisecond).Failure
	if f == nil || f.Code != messages.CodeTimeout || !f.Ambiguous || f.Text != "Tool 'wait' timed out after 0.5s" {
		t.Errorf("%+v", f)
	}
	for late := time.Now().Add(patience); r.well("cancelled", `{}`) != "1"; {
		if time.Now().After(late) {
			t.Fatal("the server was not told")
		}
		pause(t.Context(), 5*time.Millisecond)
	}
}

func TestACancelIsToldToTheServerAndProgressToTheLog(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "good"))
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan tool.Execution, 1)
	go func() { ended <- r.callWithin(ctx, "wait", `{"text":""}`, patience) }()
	r.has(`"progress":1,"total":2,"message":"half way"`)
	stop := &tool.Stop{Code: messages.CodeCancelled, Reason: "was cancelled: enough"}
	cancel(stop)
	if f := (<-ended).Failure; f == nil || !errors.Is(f, stop) || !f.Ambiguous {
		t.Errorf("%+v", f)
	}
	for late := time.Now().Add(patience); r.well("cancelled", `{}`) != "1"; {
		if time.Now().After(late) {
			t.Fatal("the server was not told")
		}
		pause(t.Context(), 5*time.Millisecond)
	}
}

func TestToolsThatChangeAreFollowed(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "good"))
	r.well("change", `{"text":"fresh"}`)
	r.until("with fresh", func(names []string) bool { return slices.Contains(names, "fresh") })
	if out := r.well("fresh", `{}`); out != "new" {
		t.Errorf("%q", out)
	}
	r.well("change", `{"text":"-fresh"}`)
	r.until("without fresh", func(names []string) bool { return !slices.Contains(names, "fresh") })
}

func TestAServerThatIgnoresTheEndOfItsInputIsEnded(t *testing.T) {
	t.Parallel()
	r := start(t, fake(t, "stays"))
	if err := r.Stop(t.Context()); err != nil { // which waits until nothing of it is left
		t.Fatal(err)
	}
	select {
	case <-r.Stopped():
	default:
		t.Error("not stopped")
	}
}

func TestACommandThatIsNotThereIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	_, err := mcptool.New(mcptool.Config{Name: "x", Command: "no-such-program-anywhere"}, nil)
	if err == nil || !strings.Contains(err.Error(), `server "x": command: `) {
		t.Error(err)
	}
}
