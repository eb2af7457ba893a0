package mcptool_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool/mcptool"
)

// beside checks, when the test ends, that another server was not touched.
func beside(t *testing.T) {
	t.Helper()
	good := start(t, fake(t, "good"))
	t.Cleanup(func() {
		if out := good.well("echo", `{"text":"untouched"}`); out != "untouched" {
			t.Errorf("%q", out)
		}
		if strings.Contains(good.log.String(), "is gone") {
			t.Error(good.log)
		}
	})
}

func TestOutputThatNeverEndsEndsTheServer(t *testing.T) {
	t.Parallel()
	beside(t)
	r := start(t, fake(t, "endless"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f := r.call("ok", `{}`).Failure
	runtime.ReadMemStats(&after)
	if f == nil || f.Code != messages.CodeConnectionLost || !f.Ambiguous || !strings.Contains(f.Text, "a message of more than") {
		t.Errorf("%+v", f)
	}
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 512<<20 {
		t.Errorf("%d MiB more heap", grown>>20)
	}
}

func TestAFloodOfNotificationsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	beside(t)
	r := start(t, fake(t, "flood"))
	if out := r.well("ok", `{}`); out != "ok" {
		t.Errorf("%q", out)
	}
}

func TestLinesThatAreNoMessages(t *testing.T) {
	t.Parallel()
	beside(t)
	if out := start(t, fake(t, "greeting")).well("ok", `{}`); out != "ok" { // a few are skipped
		t.Errorf("%q", out)
	}
	r := start(t, fake(t, "garbage"))
	if f := r.call("ok", `{}`).Failure; f == nil || f.Code != messages.CodeConnectionLost || !f.Ambiguous || !strings.Contains(f.Text, "no message of MCP") {
		t.Errorf("%+v", f)
	}
}

func TestSchemasAndNamesThatCannotBeUsedAreLeftOut(t *testing.T) {
	t.Parallel()
	beside(t)
	r := start(t, fake(t, "bombs"))
	usable := []string{"ok", "a/b.c d", "…\u202e\n\u0000", "; rm -rf /", "../../etc", `"quoted"`, "wordy"}
	names := r.names()
	for _, name := range usable {
		if !slices.Contains(names, name) {
			t.Errorf("%q is left out", name)
			continue
		}
		if out := r.well(name, `{}`); out != "ok" {
			t.Errorf("%q: %q", name, out)
		}
	}
	for _, name := range []string{"loop", "elsewhere", "nonsense", "large", "", " "} {
		if slices.Contains(names, name) {
			t.Errorf("%q is offered", name)
		}
	}
	if d := r.find("wordy").Spec().Description; len(d) > 9<<10 {
		t.Errorf("a description of %d bytes", len(d))
	}
	r.has("tools of an MCP server are left out")
}

func TestAListThatNeverEndsIsCut(t *testing.T) {
	t.Parallel()
	beside(t)
	r := start(t, fake(t, "thousand"))
	if n := len(r.names()); n != 1000 {
		t.Errorf("%d tools", n)
	}
	if out := r.well("t0999", `{}`); out != "ok" {
		t.Errorf("%q", out)
	}
}

func TestAServerThatNeverAnswersIsStartedAgain(t *testing.T) {
	t.Parallel()
	beside(t)
	r := start(t, fake(t, "silent"))
	for range 3 {
		if f := r.callWithin(t.Context(), "ok", `{}`, 100*time.Millisecond).Failure; f == nil || f.Code != messages.CodeTimeout || !f.Ambiguous {
			t.Errorf("%+v", f)
		}
	}
	r.has("ran into their time-out while it said nothing")
}

func TestAServerThatDiesInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	beside(t)
	r := start(t, fake(t, "dies"))
	if f := r.call("ok", `{}`).Failure; f == nil || f.Code != messages.CodeConnectionLost || !f.Ambiguous {
		t.Errorf("%+v", f)
	}
}

func TestAServerThatDoesNotReadHoldsUpNobody(t *testing.T) {
	t.Parallel()
	beside(t)
	r := start(t, fake(t, "deaf"))
	large := `{"text":"` + strings.Repeat("x", 256<<10) + `"}` // more than a pipe holds
	limit := 100 * time.Millisecond                            // which may pass before anything is written
	for late := time.Now().Add(patience); !strings.Contains(r.log.String(), "it does not read its input"); {
		if time.Now().After(late) {
			t.Fatal("it is not ended")
		}
		f := r.callWithin(t.Context(), "ok", large, limit).Failure
		limit *= 2
		if f == nil || f.Ambiguous { // a part of a message is none
			t.Errorf("%+v", f)
		}
	}
}

func TestAServerThatSaysNothingAtTheStart(t *testing.T) {
	t.Parallel()
	beside(t)
	r := start(t, fake(t, "nothing", func(c *mcptool.Config) { c.StartTimeout = 200 * time.Millisecond }))
	r.has("it could not be used within 200ms")
}

func TestAListThatKeepsChangingUnderLoad(t *testing.T) {
	t.Parallel()
	beside(t)
	r := start(t, fake(t, "changing"))
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if e := r.callWithin(t.Context(), "ok", `{}`, patience); e.Failure != nil || string(e.Output.Body) != "ok" {
					t.Errorf("%+v", e)
					return
				}
			}
		})
	}
	first := fmt.Sprint(r.names())
	r.until("others", func(names []string) bool { return fmt.Sprint(names) != first })
	stop()
	callers.Wait()
}
