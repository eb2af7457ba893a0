package jetstream

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"mulligan/internal/fuzztest"
	"mulligan/pkg/messages"
)

// Whatever a leader answers to a read, it is a stored message with a sequence
// or an error, and a value of a bucket is what was stored unless it is marked
// as gone.
func FuzzStored(f *testing.F) {
	for _, headers := range []string{"", "NATS/1.0\r\n\r\n", "NATS/1.0\r\nKV-Operation: DEL\r\nNats-Marker-Reason: MaxAge\r\n\r\n", "NATS/1.0\r\nA: b\r\nA: c\r\n: x\r\n\r\n", "NATS/1.0 503\r\n", "HTTP"} {
		m := map[string]any{"subject": "$KV.MULLIGAN_TOOLS.tool.x", "seq": 7, "hdrs": []byte(headers), "data": []byte("value"), "time": time.Unix(1e9, 0)}
		b, err := json.Marshal(map[string]any{"message": m})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"message":{"seq":18446744073709551615}}`))
	f.Add(nothingThere)
	f.Add([]byte(getType + `"message":{"subject":"a.b","seq":12,"hdrs":"TkFUUy8xLjANCkE6IGINCg0K","data":"eHl6","time":"2026-01-02T03:04:05.000000006Z"}}`))
	f.Add([]byte(getType + `"message":{"subject":"a.b","seq":12,"time":"2026-01-02T03:04:05Z"}}`))
	p := &Pool{}
	f.Fuzz(func(t *testing.T, answer []byte) {
		fuzztest.Bounded(t, len(answer), func() {
			r, err := readGet(answer)
			byHand, ok := plainGet(answer)
			var plain getResponse
			if broken := json.Unmarshal(answer, &plain); ok && (broken != nil || !reflect.DeepEqual(byHand, plain)) {
				t.Fatalf("read by hand it is %+v, else %+v, %v", byHand, plain, broken)
			}
			if err != nil {
				return
			}
			s, err := r.stored()
			if (err == nil) != (s.Sequence > 0) {
				t.Fatalf("sequence %d, %v", s.Sequence, err)
			}
			fuzztest.Told(t, err)
			if err != nil {
				return
			}
			e := p.entry(messages.BucketTools, s)
			if gone := len(e.Value) == 0 && len(s.Body) > 0; e.Revision != s.Sequence || e.Deleted && len(e.Value) > 0 || gone && !e.Deleted {
				t.Fatalf("%+v became %+v", s, e)
			}
			if !e.Deleted && !bytes.Equal(e.Value, s.Body) {
				t.Fatalf("%q became %q", s.Body, e.Value)
			}
		})
	})
}

// A message of a batch has its place, or is an error; what the broker has
// added to its headers is taken off, and nothing else.
func FuzzDirect(f *testing.F) {
	f.Add("7", "2026-01-02T03:04:05.000000006Z", "mulligan.result.r.c", "", []byte("x"))
	f.Add("", "", "", "404", []byte(nil))
	f.Add("-1", "0", "s", "204", []byte("x"))
	f.Add("18446744073709551616", "2026-01-02", "s", "", []byte("x"))
	f.Fuzz(func(t *testing.T, seq, at, subject, status string, body []byte) {
		h := nats.Header{"Nats-Sequence": {seq}, "Nats-Time-Stamp": {at}, "Nats-Subject": {subject}, "Status": {status}, "Own": {"kept"}, "Nats-Num-Pending": {"3"}}
		m := &nats.Msg{Header: h, Data: body}
		if ends := directStatus(m); seq != "" && ends != "" {
			t.Fatalf("a message of sequence %q ends the batch as %q", seq, ends)
		}
		s, err := directStored(m)
		fuzztest.Told(t, err)
		if err != nil {
			return
		}
		if s.Subject != subject || s.Time.IsZero() && !strings.HasPrefix(at, "0001") || s.Header.Get("Own") != "kept" || s.Header.Get("Nats-Sequence") != "" || !bytes.Equal(s.Body, body) {
			t.Fatalf("%+v", s)
		}
	})
}

func TestAMessageWithoutItsPlaceIsToldInShort(t *testing.T) {
	far := strings.Repeat("x", 3000)
	for _, h := range []nats.Header{{"Nats-Sequence": {far}}, {"Nats-Sequence": {"7"}, "Nats-Time-Stamp": {far}}} {
		_, err := directStored(&nats.Msg{Header: h})
		if err == nil {
			t.Fatalf("%v was taken", h)
		}
		fuzztest.Told(t, err)
	}
}
