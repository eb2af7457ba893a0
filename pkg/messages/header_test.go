package messages_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"mulligan/pkg/messages"
)

func anyTime() *rapid.Generator[time.Time] {
	return rapid.Map(rapid.Int64Range(0, 4_000_000_000_000_000_000), func(ns int64) time.Time { return time.Unix(0, ns).UTC() })
}

func anyMillis() *rapid.Generator[messages.Millis] {
	return rapid.Map(rapid.Int64Range(0, 1<<43), func(n int64) messages.Millis { return messages.Millis(time.Duration(n) * time.Millisecond) })
}

func anyLabels() *rapid.Generator[messages.Labels] {
	return rapid.Map(rapid.MapOf(anyText(), anyText()), func(m map[string]string) messages.Labels { return m })
}

func anyBody() *rapid.Generator[messages.Body] {
	return rapid.OneOf(
		rapid.Map(anyBytes(), messages.Text),
		rapid.Map(rapid.Int64Range(0, messages.MaxPayload), func(size int64) messages.Body {
			return messages.Body{Ref: ref(size)}
		}))
}

func ref(size int64) *messages.PayloadRef {
	return &messages.PayloadRef{Digest: digest, Size: size, Chunks: max(1, int((size+messages.PayloadChunk-1)/messages.PayloadChunk))}
}

func anyCall() *rapid.Generator[messages.Call] {
	return rapid.Custom(func(t *rapid.T) messages.Call {
		c := messages.Call{
			ID: anyCallID().Draw(t, "id"), Ref: anyText().Draw(t, "ref"), Run: anyRun().Draw(t, "run"),
			Tool: anyName(messages.MaxName).Draw(t, "tool"), OriginalTool: anyText().Draw(t, "original"),
			Queue: anyName(messages.MaxQueueName).Draw(t, "queue"), Lane: rapid.SampledFrom(messages.Lanes()).Draw(t, "lane"),
			Effect: rapid.SampledFrom(messages.Effects()).Draw(t, "effect"), Attempt: rapid.IntRange(0, messages.MaxRetries).Draw(t, "attempt"),
			Dispatch: rapid.IntRange(0, messages.MaxDispatches).Draw(t, "dispatch"), Timeout: anyMillis().Draw(t, "timeout"),
			Deadline: anyTime().Draw(t, "deadline"), Task: anyText().Draw(t, "task"), Labels: anyLabels().Draw(t, "labels"),
			Ambiguous: rapid.SliceOfN(rapid.IntRange(0, messages.MaxDispatches), 0, 5).Draw(t, "ambiguous"),
			Repeat:    rapid.Bool().Draw(t, "repeat"), Input: anyBody().Draw(t, "input"),
		}
		c.Key = c.ID
		return c
	})
}

func TestCallRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCall().Draw(t, "call")
		back, err := pool.DecodeCall(onTheWire(t, pool.EncodeCall(c)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-sent +received)\n%s", diff)
		}
	})
}

func TestResultRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := messages.Result{
			Call: anyCallID().Draw(t, "id"), Ref: anyText().Draw(t, "ref"), Run: anyRun().Draw(t, "run"), Tool: anyText().Draw(t, "tool"),
			OriginalTool: anyText().Draw(t, "original"), Status: rapid.SampledFrom(messages.Ends()).Draw(t, "status"),
			Code: messages.Code(rapid.StringMatching(`([a-z][a-z0-9_]{0,63})?`).Draw(t, "code")), IsError: rapid.Bool().Draw(t, "is error"),
			Attempts: rapid.IntRange(0, messages.MaxAttempts).Draw(t, "attempts"), Dispatch: rapid.IntRange(0, messages.MaxDispatches).Draw(t, "dispatch"),
			Reason: anyText().Draw(t, "reason"), Guidance: anyText().Draw(t, "guidance"), Worker: anyText().Draw(t, "worker"),
			Duration: anyMillis().Draw(t, "duration"), Ended: anyTime().Draw(t, "ended"), Labels: anyLabels().Draw(t, "labels"), Output: anyBody().Draw(t, "output"),
		}
		back, err := pool.DecodeResult(onTheWire(t, pool.EncodeResult(r)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-sent +received)\n%s", diff)
		}
	})
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// onTheWire sends headers through their form at the broker, lines of "key:
// value" around which a reader drops white space, and checks that no value can
// split a line.
func onTheWire(t fataler, m messages.Message) messages.Message {
	t.Helper()
	var wire strings.Builder
	wire.WriteString("NATS/1.0\r\n")
	for k, vs := range m.Header {
		for _, v := range vs {
			wire.WriteString(k + ": " + v + "\r\n")
		}
	}
	wire.WriteString("\r\n")
	if wire.Len() != m.HeaderSize() {
		t.Fatalf("HeaderSize says %d, the headers take %d", m.HeaderSize(), wire.Len())
	}
	back := messages.Message{Subject: m.Subject, Header: messages.Header{}, Body: m.Body}
	lines := strings.Split(strings.TrimSuffix(wire.String(), "\r\n\r\n"), "\r\n")[1:]
	if len(lines) != len(m.Header) {
		t.Fatalf("%d headers became %d lines", len(m.Header), len(lines))
	}
	for _, l := range lines {
		if strings.Trim(l, printable) != "" {
			t.Fatalf("header line %q is not printable ASCII", l)
		}
		k, v, _ := strings.Cut(l, ":")
		back.Header.Set(k, strings.TrimSpace(v))
	}
	return back
}

var printable = func() string {
	var b strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		b.WriteByte(c)
	}
	return b.String()
}()

// TestTextHeadersAreJSON: another language reads them with its JSON parser.
func TestTextHeadersAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCall().Draw(t, "call")
		h := pool.EncodeCall(c).Header
		for _, tc := range []struct{ key, want string }{
			{messages.HeaderTool, c.Tool}, {messages.HeaderQueue, c.Queue}, {messages.HeaderRef, c.Ref}, {messages.HeaderTask, c.Task},
		} {
			var got string
			if v := h.Get(tc.key); v != "" {
				if err := json.Unmarshal([]byte(v), &got); err != nil {
					t.Fatalf("%s: %s: %v", tc.key, v, err)
				}
			}
			if got != tc.want {
				t.Fatalf("%s: %q reads as %q, want %q", tc.key, h.Get(tc.key), got, tc.want)
			}
		}
		var labels messages.Labels
		if v := h.Get(messages.HeaderLabels); v != "" {
			if err := json.Unmarshal([]byte(v), &labels); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(c.Labels, labels, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestDecodeCallRefuses(t *testing.T) {
	for _, tc := range []struct{ key, value, want string }{
		{messages.HeaderVersion, "2", `header Mulligan-Version: "2"; this build reads version 1`},
		{messages.HeaderVersion, "", "Mulligan-Version"},
		{messages.HeaderCall, "x", "call id"},
		{messages.HeaderRun, "a.b", "run"},
		{messages.HeaderRun, "", "run"},
		{messages.HeaderTool, "echo", "Mulligan-Tool"},
		{messages.HeaderTool, `""`, "tool is empty"},
		{messages.HeaderQueue, "", "queue is empty"},
		{messages.HeaderLane, "fast", `unknown lane "fast"`},
		{messages.HeaderEffect, "harmless", `unknown effect "harmless"`},
		{messages.HeaderAttempt, "6", "from 0 to 5"},
		{messages.HeaderDispatch, "26", "from 0 to 25"},
		{messages.HeaderDispatch, "-1", "from 0 to 25"},
		{messages.HeaderTimeout, "1e3", "whole number"},
		{messages.HeaderDeadline, "tomorrow", "RFC 3339"},
		{messages.HeaderLabels, `{"a":1}`, "Mulligan-Labels"},
		{messages.HeaderAmbiguous, "1,x", "Mulligan-Ambiguous"},
		{messages.HeaderAmbiguous, strings.Repeat("1,", 40) + "1", "Mulligan-Ambiguous"},
		{messages.HeaderTaskRef, "x;1;1", "Mulligan-Task-Ref"},
		{messages.HeaderPayload, digest + ";1;2", "Mulligan-Payload"},
		{messages.HeaderPayload, digest + ";+1;1", "Mulligan-Payload"},
	} {
		m := pool.EncodeCall(exampleCall())
		m.Header.Set(tc.key, tc.value)
		if _, err := pool.DecodeCall(m); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %q: error %v, want %q", tc.key, tc.value, err, tc.want)
		}
	}
}

// TestUnknownHeadersAreIgnored: a later build may add headers to this version.
func TestUnknownHeadersAreIgnored(t *testing.T) {
	m := pool.EncodeCall(exampleCall())
	m.Header.Set("Mulligan-Colour", "green")
	c, err := pool.DecodeCall(m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(exampleCall(), c); diff != "" {
		t.Error(diff)
	}
}

func TestMissingHeadersHaveSafeDefaults(t *testing.T) {
	m := pool.EncodeCall(exampleCall())
	delete(m.Header, messages.HeaderEffect)
	delete(m.Header, messages.HeaderLane)
	c, err := pool.DecodeCall(m)
	if err != nil || c.Effect != messages.Unsafe || c.Lane != messages.LaneNormal {
		t.Errorf("effect %q, lane %q, %v; want unsafe and normal", c.Effect, c.Lane, err)
	}
}

func TestTraceThatIsNoneIsDropped(t *testing.T) {
	for _, bad := range []string{"x", "00-0-0-01\r\nMulligan-Effect: read_only", strings.ToUpper(exampleCall().Trace) + "A", exampleCall().Trace + "\n"} {
		c := exampleCall()
		c.Trace = bad
		if got, ok := pool.EncodeCall(c).Header[messages.HeaderTrace]; ok {
			t.Errorf("traceparent %q travels as %q", bad, got)
		}
	}
}

func TestTravelLane(t *testing.T) {
	c := exampleCall()
	c.Lane = messages.LaneHigh
	if s := pool.EncodeCall(c).Subject; !strings.Contains(s, ".high.") {
		t.Errorf("dispatch 0 travels on %q", s)
	}
	c.Dispatch = 1
	m := pool.EncodeCall(c)
	if !strings.Contains(m.Subject, ".retry.") || m.Header.Get(messages.HeaderLane) != "high" {
		t.Errorf("dispatch 1 travels on %q and says lane %q", m.Subject, m.Header.Get(messages.HeaderLane))
	}
}

func TestCheckHeaders(t *testing.T) {
	c := exampleCall()
	if err := messages.CheckHeaders(pool.EncodeCall(c)); err != nil {
		t.Fatal(err)
	}
	c.Labels = messages.Labels{"note": strings.Repeat("\x01", 3000)}
	err := messages.CheckHeaders(pool.EncodeCall(c))
	if !errors.Is(err, messages.ErrTooLarge) || !strings.Contains(err.Error(), "the limit is 16384; the longest is Mulligan-Labels with") {
		t.Errorf("got %v", err)
	}
}

// TestHeadersStayBelowTheBrokersLimit: a call that was accepted is never lost
// for the length of what later dispatches and its result add.
func TestHeadersStayBelowTheBrokersLimit(t *testing.T) {
	const brokers = 64 << 10
	worst := strings.Repeat("\x01", 100_000)
	c := exampleCall()
	c.Tool, c.OriginalTool = worst[:messages.MaxName], worst[:messages.MaxName]
	c.RecoveredBy, c.Ambiguous, c.Dispatch = worst, make([]int, messages.MaxDispatches), messages.MaxDispatches
	added := pool.EncodeCall(c).HeaderSize() - pool.EncodeCall(exampleCall()).HeaderSize()
	if messages.MaxHeaders+added > brokers {
		t.Errorf("a later dispatch adds %d bytes", added)
	}
	r := messages.Result{Call: callID, Run: run, Tool: c.Tool, OriginalTool: c.Tool, RecoveredBy: worst, Reason: worst, Guidance: worst, Worker: worst[:messages.MaxName]}
	if size := pool.EncodeResult(r).HeaderSize(); messages.MaxHeaders+size > brokers {
		t.Errorf("a result adds up to %d bytes", size)
	}
}

// TestTextsAreCutByTheirEncodedSize: quoting makes six bytes of one.
func TestTextsAreCutByTheirEncodedSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(anyName(64).Draw(t, "text"), rapid.IntRange(1, 1000).Draw(t, "times"))
		h := pool.EncodeResult(messages.Result{Call: callID, Run: run, Reason: text, Guidance: text}).Header
		v := h.Get(messages.HeaderReason)
		if len(v) > messages.MaxText || h.Get(messages.HeaderGuidance) != v {
			t.Fatalf("reason takes %d bytes", len(v))
		}
		var got string
		if err := json.Unmarshal([]byte(v), &got); err != nil || !strings.HasPrefix(text, got) {
			t.Fatalf("%v: %q is not the start of the text", err, got)
		}
		if len(got) < len(text) && len(v) < messages.MaxText-12 {
			t.Fatalf("cut at %d encoded bytes, with room to %d", len(v), messages.MaxText)
		}
	})
}

func TestTaskInHeader(t *testing.T) {
	for _, tc := range []struct {
		task string
		want bool
	}{
		{"", true}, {strings.Repeat("a", messages.MaxTaskHeader-2), true}, {strings.Repeat("a", messages.MaxTaskHeader-1), false}, {strings.Repeat("é", 700), false},
	} {
		if got := messages.TaskInHeader(tc.task); got != tc.want {
			t.Errorf("%d bytes: %t, want %t", len(tc.task), got, tc.want)
		}
	}
}
