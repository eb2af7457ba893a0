package messages_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mulligan/pkg/messages"
)

// Every decoder is handed what it never wrote. It must not panic, and what it
// takes must travel on unchanged: decode, encode, decode gives the same value.

// seeds gives the bodies of all golden files as seeds.
func seeds(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden files, %v", err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		_, body, _ := strings.Cut(string(b), "\n\n")
		f.Add([]byte(body))
	}
}

// stable checks that a value that was decoded survives another trip.
func stable[T any](t *testing.T, v T, encode func(T) ([]byte, error), decode func([]byte) (T, error)) {
	t.Helper()
	b, err := encode(v)
	if err != nil {
		t.Fatalf("what was decoded cannot be encoded: %v", err)
	}
	back, err := decode(b)
	if err != nil {
		t.Fatalf("what was encoded cannot be decoded: %v\n%s", err, b)
	}
	if diff := cmp.Diff(v, back, cmpopts.EquateEmpty(), compactJSON, notHowItWasRead); diff != "" {
		t.Fatalf("a second trip changes it (-first +second)\n%s", diff)
	}
}

func body(m messages.Message, err error) ([]byte, error) { return m.Body, err }

func FuzzDecodeFailure(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := messages.DecodeFailure(b); err == nil {
			stable(t, v, func(v messages.Failure) ([]byte, error) { return body(pool.EncodeFailure(v)) }, messages.DecodeFailure)
		}
	})
}

func FuzzDecodeDecision(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := messages.DecodeDecision(b); err == nil {
			stable(t, v, func(v messages.Decision) ([]byte, error) { return body(pool.EncodeDecision(v)) }, messages.DecodeDecision)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := messages.DecodeRecord(b); err == nil {
			stable(t, v, messages.EncodeRecord, messages.DecodeRecord)
		}
	})
}

func fuzzStory[T messages.Start | messages.Cancel | messages.Settled | messages.Answer | messages.Late | messages.Due](t *testing.T, b []byte) {
	t.Helper()
	if v, err := messages.DecodeStory[T](b); err == nil {
		stable(t, v, func(v T) ([]byte, error) { return body(messages.EncodeStory("s", v)) }, messages.DecodeStory[T])
	}
}

func FuzzDecodeStory(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzStory[messages.Start](t, b)
		fuzzStory[messages.Cancel](t, b)
		fuzzStory[messages.Settled](t, b)
		fuzzStory[messages.Answer](t, b)
		fuzzStory[messages.Late](t, b)
		fuzzStory[messages.Due](t, b)
	})
}

func fuzzService[T messages.OfferRequest | messages.OfferReply | messages.ChunkReply | messages.CancelRequest | messages.CancelReply | messages.AnswerRequest | messages.AnswerReply](t *testing.T, b []byte) {
	t.Helper()
	if v, err := messages.DecodeService[T](b); err == nil {
		stable(t, v, messages.EncodeService[T], messages.DecodeService[T])
	}
}

func FuzzDecodeService(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzService[messages.OfferRequest](t, b)
		fuzzService[messages.OfferReply](t, b)
		fuzzService[messages.ChunkReply](t, b)
		fuzzService[messages.CancelRequest](t, b)
		fuzzService[messages.CancelReply](t, b)
		fuzzService[messages.AnswerRequest](t, b)
		fuzzService[messages.AnswerReply](t, b)
	})
}

func FuzzDecodeChunk(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := messages.DecodeChunk(b)
		if err != nil {
			return
		}
		for _, s := range c.Calls {
			if json.Valid(s.Input) && !bytes.Contains(b, s.Input) && !bytes.Contains(b, []byte("input_text")) {
				t.Fatalf("input %q is not in the chunk", s.Input)
			}
		}
		if _, err := messages.EncodeChunk(c); err != nil {
			return // an input that is not valid UTF-8
		}
		stable(t, c, messages.EncodeChunk, messages.DecodeChunk)
	})
}

func FuzzSubmission(f *testing.F) {
	for _, in := range oddInputs {
		b, err := messages.Submission{Tool: "echo", Input: []byte(in)}.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s messages.Submission
		if json.Unmarshal(b, &s) != nil {
			return
		}
		line, err := s.AppendJSON(nil)
		if err != nil {
			return // an input that is not valid UTF-8
		}
		if bytes.ContainsAny(line, "\n\r") {
			t.Fatalf("a line holds a line end: %q", line)
		}
		stable(t, s, func(s messages.Submission) ([]byte, error) { return s.AppendJSON(nil) }, func(b []byte) (back messages.Submission, err error) {
			return back, json.Unmarshal(b, &back)
		})
	})
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"", "a", "=a=2Eb", "=", "==", "=a", "=2e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if name, err := messages.Name(s); err == nil && messages.Token(name) != s {
			t.Fatalf("Name(%q) = %q, whose token is %q", s, name, messages.Token(name))
		}
		if name, err := messages.Name(messages.Token(s)); err != nil || name != s {
			t.Fatalf("Name(Token(%q)) = %q, %v", s, name, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, form := range forms() {
		f.Add(form.place)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := pool.Parse(s)
		if err != nil {
			return
		}
		if got := build(a); got != s {
			t.Fatalf("%q reads as %+v, which is %q", s, a, got)
		}
	})
}

// build writes the subject of an address.
func build(a messages.Address) string {
	switch a.Kind {
	case messages.KindCall:
		return pool.CallSubject(a.Queue, a.Lane, a.Run, a.Call, a.N)
	case messages.KindResult:
		return pool.ResultSubject(a.Run, a.Call)
	case messages.KindCancel:
		return pool.CancelSubject(a.Run, a.Call)
	case messages.KindLate:
		return pool.LateSubject(a.Run, a.Call, a.N, a.Token)
	case messages.KindStart:
		if a.K > 0 {
			return pool.MarkSubject(a.Run, a.Call, a.N, a.K)
		}
		return pool.StartSubject(a.Run, a.Call, a.N)
	case messages.KindFailure:
		return pool.FailureSubject(a.Run, a.Call, a.N)
	case messages.KindDecision:
		return pool.DecisionSubject(a.Run, a.Call, a.N)
	case messages.KindAnswer:
		return pool.AnswerSubject(a.Run, a.Call, a.N)
	case messages.KindSettled:
		return pool.SettledSubject(a.Run, a.Call, a.N)
	}
	return "unknown kind"
}

func FuzzParsePayloadRef(f *testing.F) {
	f.Add(digest + ";700000;2")
	f.Add(";;")
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := messages.ParsePayloadRef(s); err == nil && r.Header() != s {
			t.Fatalf("%q reads as %+v, which is %q", s, r, r.Header())
		}
	})
}

// headerLines reads "key: value" lines, as a broker would hand them over.
func headerLines(s string) messages.Header {
	h := messages.Header{}
	for line := range strings.Lines(s) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
			h.Set(k, v)
		}
	}
	return h
}

func lines(h messages.Header) string {
	var out strings.Builder
	for k := range h {
		out.WriteString(k + ": " + h.Get(k) + "\n")
	}
	return out.String()
}

func FuzzDecodeCall(f *testing.F) {
	m := pool.EncodeCall(exampleCall())
	f.Add(lines(m.Header), m.Body)
	f.Fuzz(func(t *testing.T, headers string, body []byte) {
		c, err := pool.DecodeCall(messages.Message{Header: headerLines(headers), Body: body})
		if err != nil {
			return
		}
		// What is only ever cut or dropped is not compared.
		c.RecoveredBy, c.Trace = "", ""
		back, err := pool.DecodeCall(pool.EncodeCall(c))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	r := messages.Result{Call: callID, Run: run, Tool: "echo", Status: messages.Failed, Code: messages.CodeTimeout, IsError: true, Reason: "r", Ended: at, Output: messages.Text("out")}
	m := pool.EncodeResult(r)
	f.Add(lines(m.Header), m.Body)
	f.Fuzz(func(t *testing.T, headers string, body []byte) {
		r, err := pool.DecodeResult(messages.Message{Header: headerLines(headers), Body: body})
		if err != nil {
			return
		}
		r.RecoveredBy, r.Reason, r.Guidance = "", "", ""
		back, err := pool.DecodeResult(pool.EncodeResult(r))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}
