package messages_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mulligan/internal/fuzztest"
	"mulligan/internal/subject"
	"mulligan/pkg/messages"
)

// decoders are all that read a message or a value of a bucket.
func decoders(m messages.Message) []func() error {
	b := m.Body
	told := func(_ any, err error) error { return err }
	return []func() error{
		func() error { return told(pool.DecodeCall(m)) },
		func() error { return told(pool.DecodeResult(m)) },
		func() error { return told(messages.DecodeFailure(b)) },
		func() error { return told(messages.DecodeDecision(b)) },
		func() error { return told(messages.DecodeRecord(b)) },
		func() error { return told(messages.DecodeChunk(b)) },
		func() error { return told(messages.DecodeBreaker(b)) },
		func() error { return told(messages.DecodePolicies(b)) },
		func() error { return told(messages.DecodeDenial(b)) },
		func() error { return told(messages.DecodeKeyEntry(b)) },
		func() error { return told(messages.DecodeStory[messages.Start](b)) },
		func() error { return told(messages.DecodeStory[messages.Cancel](b)) },
		func() error { return told(messages.DecodeStory[messages.Settled](b)) },
		func() error { return told(messages.DecodeStory[messages.Answer](b)) },
		func() error { return told(messages.DecodeStory[messages.Late](b)) },
		func() error { return told(messages.DecodeStory[messages.Due](b)) },
		func() error { return told(messages.DecodeService[messages.OfferRequest](b)) },
		func() error { return told(messages.DecodeService[messages.ChunkReply](b)) },
		func() error { return told(messages.DecodeService[messages.CancelRequest](b)) },
		func() error { return told(messages.DecodeService[messages.AnswerRequest](b)) },
		func() error { return told(messages.DecodeService[messages.BreakerRequest](b)) },
		func() error { return told(messages.DecodeService[messages.PolicyRequest](b)) },
		func() error { return told(messages.DecodeService[messages.RunRequest](b)) },
	}
}

// What cannot be read is said in a text that can be shown, and nothing costs
// out of proportion to its size.
func FuzzDecodersAreBounded(f *testing.F) {
	const chunk = `{"version":"1","batch":"` + batchID + `","count":1}` + "\n"
	far := strings.Repeat("9", 5000)
	for _, body := range []string{
		`{"version":"` + far + `"}`, `{"version":"1","n":` + far + `}`, `{"version":"1","at":"` + far + `"}`, `{"version":"1","kind":"` + far + `"}`,
		chunk + `{"tool":"t","deadline":"` + far + `"}`, chunk + `{"tool":"t","labels":{"a":` + far + `}}`, chunk + strings.Repeat("[", 5000),
	} {
		f.Add("", []byte(body))
	}
	f.Add("Mulligan-Version: 1\nMulligan-Labels: {\"a\":"+far+"}", []byte(`{}`))
	f.Add("Mulligan-Version: 1\nMulligan-Deadline: "+far, []byte(`{}`))
	f.Fuzz(func(t *testing.T, headers string, body []byte) {
		m := messages.Message{Header: headerLines(headers), Body: body}
		for _, decode := range decoders(m) {
			fuzztest.Bounded(t, len(headers)+len(body), func() { fuzztest.Told(t, decode()) })
		}
	})
}

// What operators ask, and what is kept of it, travels on unchanged.
func FuzzDecodeOperate(f *testing.F) {
	seeds(f)
	f.Add([]byte(`{"version":"1","tool":"t","state":"half_open","mode":"defer","failures":["a"],"probe":{"run":"r","call":"c","dispatch":3},"until":"2031-01-02T03:04:05Z","reset_ms":5}`))
	f.Add([]byte(`{"version":"1","document":{"pool":{"max_retries": 2}},"expect":7,"by":"ops","at":"2031-01-02T03:04:05+01:00"}`))
	f.Add([]byte(`{"version":"1","document":null,"call":"c","reason":"no","by":"b","tool":"t","action":"open","for_ms":1000}`))
	for _, empty := range []string{`"breaker":{}`, `"first":{}`, `"refused":[{}]`, `"tools":[{}],"worker":"w"`, `"envelope":{}`, `"answer":{}`} {
		f.Add([]byte(`{"version":"1",` + empty + `}`))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzService[messages.OfferRequest](t, b)
		fuzzService[messages.ChunkReply](t, b)
		fuzzService[messages.AnswerReply](t, b)
		if v, err := messages.DecodeBreaker(b); err == nil {
			stable(t, v, messages.EncodeBreaker, messages.DecodeBreaker)
		}
		if v, err := messages.DecodePolicies(b); err == nil {
			stable(t, v, messages.EncodePolicies, messages.DecodePolicies)
		}
		if v, err := messages.DecodeDenial(b); err == nil {
			stable(t, v, messages.EncodeDenial, messages.DecodeDenial)
		}
		if v, err := messages.DecodeKeyEntry(b); err == nil {
			stable(t, v, messages.EncodeKeyEntry, messages.DecodeKeyEntry)
		}
		fuzzOperate[messages.BreakerRequest](t, b)
		fuzzOperate[messages.BreakerReply](t, b)
		fuzzOperate[messages.PolicyRequest](t, b)
		fuzzOperate[messages.PolicyReply](t, b)
	})
}

func fuzzOperate[T messages.BreakerRequest | messages.BreakerReply | messages.PolicyRequest | messages.PolicyReply](t *testing.T, b []byte) {
	t.Helper()
	if v, err := messages.DecodeService[T](b); err == nil {
		stable(t, v, messages.EncodeService[T], messages.DecodeService[T])
	}
}

// Whatever the names, a subject is one that a broker takes, matches only
// itself, and says which names it was made of.
func FuzzSubject(f *testing.F) {
	f.Add("default", "trip/42", "tool", 0, 0)
	f.Add("a.b", "*", ">", 25, 3)
	f.Add(" \r\n\x00", "=2E", strings.Repeat("é", 100), 1, 1)
	f.Fuzz(func(t *testing.T, queue, runName, tool string, n, k int) {
		n, k = n&15, 1+k&1
		named := messages.NamedRun(runName)
		for _, s := range []string{
			pool.CallSubject(queue, messages.LaneLow, named, callID, n), pool.ResultSubject(named, callID), pool.StartSubject(named, callID, n),
			pool.MarkSubject(named, callID, n, k), pool.FailureSubject(named, callID, n), pool.DecisionSubject(named, callID, n),
			pool.AnswerSubject(named, callID, n), pool.SettledSubject(named, callID, n), pool.CancelSubject(named, callID),
		} {
			if strings.ContainsAny(s, "*> \t\r\n\x00") || strings.Contains(s, "..") && queue != "" && runName != "" {
				t.Fatalf("%q is no subject of one message", s)
			}
			a, err := pool.Parse(s)
			if messages.CheckName("run", runName, messages.MaxName) != nil || queue == "" {
				continue // refused where it is submitted
			}
			if err != nil || a.Run.Name() != runName || a.Call != callID || a.Kind == messages.KindCall && a.Queue != queue || build(a) != s {
				t.Fatalf("%q reads as %+v, %v", s, a, err)
			}
			if covered := subject.Covers(pool.QueueFilter(queue), s); covered != (a.Kind == messages.KindCall) {
				t.Fatalf("the filter of queue %q matches %q: %t", queue, s, covered)
			}
		}
		for _, key := range []string{messages.ToolKey(tool), messages.OfferKey(tool), messages.BreakerKey(tool), messages.RunKey(named)} {
			if strings.ContainsAny(key, "*> \t\r\n\x00") || strings.Count(key, ".") != 1 {
				t.Fatalf("%q is no key", key)
			}
		}
	})
}

// A call that Check takes reaches its worker as it was submitted.
func FuzzSubmissionIsSent(f *testing.F) {
	f.Add([]byte(`{"call":"` + callID + `","tool":"flights/book","ref":"r\n","run":"trip/42","task":"é\r\n\ud83d\ude00","labels":{"a\"":"b\\"},"timeout_ms":5,"deadline":"2031-01-02T03:04:05+01:00","policy":{"max_retries":1},"input":{"a":1}}`))
	f.Add([]byte(`{"call":"` + callID + `","tool":"t","deadline":"9999-12-31T23:59:59-12:00"}`))
	f.Add([]byte(`{"call":"` + callID + `","tool":"t","input_payload":{"digest":"` + digest + `","size":700000,"chunks":2}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var s messages.Submission
		if json.Unmarshal(line, &s) != nil {
			return
		}
		if err := s.Check(); err != nil {
			fuzztest.Told(t, err)
			return
		}
		c := messages.Call{ID: s.Call, Ref: s.Ref, Run: run, Tool: s.Tool, Queue: "q", Lane: messages.LaneNormal, Effect: messages.Unsafe, Key: s.Call,
			Timeout: s.Timeout, Deadline: s.Deadline.UTC(), Task: s.Task, Labels: s.Labels, Policy: s.Policy, Input: messages.Body{Inline: s.Input, Ref: s.Payload}}
		if s.Run != "" {
			c.Run = messages.NamedRun(s.Run)
		}
		if s.Payload != nil {
			c.Input.Inline = nil
		}
		m := pool.EncodeCall(c)
		onlyASCII(t, m.Header)
		back, err := pool.DecodeCall(m)
		if err != nil {
			t.Fatalf("%s was taken, and no worker reads it: %v", line, err)
		}
		if diff := cmp.Diff(c, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("it does not arrive as it was sent (-sent +read)\n%s", diff)
		}
	})
}

// onlyASCII: no header can end its line, or be read in two character sets.
func onlyASCII(t *testing.T, h messages.Header) {
	t.Helper()
	for key, values := range h {
		for _, v := range values {
			if strings.ContainsFunc(key+v, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("header %q is %q", key, v)
			}
		}
	}
}

// The call that a failure tells of is what is sent again, so one that was read
// can be read again, and cannot bring headers of its own.
func FuzzRedispatch(f *testing.F) {
	m, err := pool.EncodeFailure(exampleFailure())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.Body)
	for _, more := range []string{`"key":"k\r\nNats-Rollup: all"`, `"ambiguous":[1,99]`, `"deadline":"9999-12-31T23:59:59-12:00"`, `"policy":{"a":1}`, `"task":"\ud800"`, `"labels":{"a":"\n"}`, `"traceparent":"\r\n"`} {
		f.Add([]byte(`{"version":"1","code":"timeout","envelope":{"call":"` + callID + `","run":"r","tool":"t","queue":"q",` + more + `}}`))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		failure, err := messages.DecodeFailure(b)
		if err != nil {
			return
		}
		c := failure.Call
		c.Input = failure.Input
		m := pool.EncodeCall(c)
		onlyASCII(t, m.Header)
		back, err := pool.DecodeCall(m)
		if err != nil {
			t.Fatalf("the next dispatch cannot be read: %v", err)
		}
		if back.ID != c.ID || back.Run != c.Run || back.Tool != c.Tool || back.Key != c.Key || !back.Deadline.Equal(c.Deadline) || !cmp.Equal(back.Ambiguous, c.Ambiguous, cmpopts.EquateEmpty()) {
			t.Fatalf("%+v became %+v", c, back)
		}
	})
}

// Whatever a tool prints, its failure fits a message, and the texts in it are
// the beginning of its error and the end of its standard error.
func FuzzFailureText(f *testing.F) {
	f.Add("date must be YYYY-MM-DD", "parse date", 1)
	f.Add("\x00\xff\"\\\u2028", "\xed\xa0\x80", 40000)
	f.Fuzz(func(t *testing.T, said, stderr string, times int) {
		times = min(max(times, 1), 1+(256<<10)/(1+len(said)+len(stderr)))
		failure := exampleFailure()
		failure.Error, failure.Stderr = strings.Repeat(said, times), strings.Repeat(stderr, times)
		m, err := pool.EncodeFailure(failure)
		if err != nil {
			t.Fatal(err)
		}
		if most := messages.MaxErrorText + messages.MaxStderr + 8<<10; len(m.Body) > most {
			t.Fatalf("%d bytes, and at most %d were meant", len(m.Body), most)
		}
		back, err := messages.DecodeFailure(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(failure.Error + failure.Stderr) {
			return
		}
		if !strings.HasPrefix(failure.Error, back.Error) || !strings.HasSuffix(failure.Stderr, back.Stderr) {
			t.Fatalf("%.200q and %.200q are not of it", back.Error, back.Stderr)
		}
		if len(failure.Error) < messages.MaxErrorText/6-2 && back.Error != failure.Error {
			t.Fatalf("an error of %d bytes was cut to %d", len(failure.Error), len(back.Error))
		}
	})
}

// What the targets above have found, one by one.

func TestTheErrorOfADecoderRepeatsLittleOfWhatItRead(t *testing.T) {
	far := strings.Repeat("9", 60_000)
	for _, decode := range decoders(messages.Message{Body: []byte(`{"version":"1","n":` + far + `,"at":"` + far + `","deadline":"` + far + `"}`)}) {
		fuzztest.Told(t, decode())
	}
	_, err := messages.DecodeChunk([]byte(`{"version":"1","batch":"` + batchID + `","count":1}` + "\n" + `{"tool":"t","deadline":"` + far + `"}`))
	if err == nil || !strings.Contains(err.Error(), "call 0") {
		t.Error(err)
	}
	fuzztest.Told(t, err)
}

func envelope(more string) []byte {
	return []byte(`{"version":"1","code":"timeout","envelope":{"call":"` + callID + `","run":"r","tool":"t","queue":"q",` + more + `}}`)
}

func TestTheEnvelopeOfAFailureFitsTheHeadersOfTheNextDispatch(t *testing.T) {
	for more, says := range map[string]string{
		`"key":"k"`:                              "",
		`"key":"k\r\nNats-Rollup: all"`:          "key",
		`"ambiguous":[1,99]`:                     "ambiguous",
		`"ambiguous":[-1]`:                       "ambiguous",
		`"deadline":"9999-12-31T23:59:59-12:00"`: "deadline",
		`"policy":{"é":1}`:                       "policy",
	} {
		_, err := messages.DecodeFailure(envelope(more))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", more, err)
		}
	}
}

func TestADeadlineBeyondTheYearsOfRFC3339InUTCIsRefused(t *testing.T) {
	var s messages.Submission
	if err := json.Unmarshal([]byte(`{"call":"`+callID+`","tool":"t","deadline":"9999-12-31T23:59:59-12:00"}`), &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Error(err)
	}
}

func TestAPolicyRequestWithoutADocumentTakesNothingAway(t *testing.T) {
	if _, err := messages.DecodeService[messages.PolicyRequest]([]byte(`{"version":"1","by":"ops"}`)); err == nil || !strings.Contains(err.Error(), "document") {
		t.Error(err)
	}
	b, err := messages.EncodeService(messages.PolicyRequest{By: "ops"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := messages.DecodeService[messages.PolicyRequest](b); err != nil || string(r.Document) != "null" {
		t.Errorf("%s, %v", r.Document, err)
	}
}

func TestAReplyOfWhichAPartIsEmptyIsRefused(t *testing.T) {
	if _, err := messages.DecodeService[messages.BreakerReply]([]byte(`{"version":"1","breaker":{}}`)); err == nil {
		t.Error("a breaker without a state was taken")
	}
	if _, err := messages.DecodeService[messages.AnswerReply]([]byte(`{"version":"1","first":{}}`)); err == nil {
		t.Error("an answer of no kind was taken")
	}
}
