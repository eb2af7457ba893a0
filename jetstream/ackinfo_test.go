package jetstream

import (
	"encoding/json"
	"testing"
	"time"
)

func TestParseAck(t *testing.T) {
	at := time.Unix(0, 1796047359545547190).UTC()
	want := ackInfo{streamName: "STREAM", consumerName: "consumer", delivered: 3, stream: 42, consumer: 7, stored: at, pendingLeft: 9}
	for _, reply := range []string{
		"$JS.ACK.STREAM.consumer.3.42.7.1796047359545547190.9",
		"$JS.ACK._.hash.STREAM.consumer.3.42.7.1796047359545547190.9",
		"$JS.ACK.domain.hash.STREAM.consumer.3.42.7.1796047359545547190.9.token",
	} {
		if got, err := parseAck(reply); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", reply, got, err)
		}
	}
	for _, reply := range []string{"", "$JS.ACK", "$JS.ACK.", "_INBOX.x", "$JS.ACK.S.c.1.2.3.4", "$JS.ACK.S.c.1.2.3.4.x", "$JS.ACK.S.c.1.2.3.4.5.6", "$JS.ACK.S.c.-1.2.3.4.5"} {
		if got, err := parseAck(reply); err == nil {
			t.Errorf("%q: got %+v", reply, got)
		}
	}
}

func FuzzParseAck(f *testing.F) {
	f.Add("$JS.ACK.STREAM.consumer.3.42.7.1796047359545547190.9")
	f.Add("$JS.ACK.d.h.STREAM.consumer.3.42.7.1.9.t")
	f.Add("$JS.ACK.........")
	f.Fuzz(func(t *testing.T, reply string) {
		if a, err := parseAck(reply); err != nil && a != (ackInfo{}) {
			t.Errorf("an error and %+v", a)
		}
	})
}

func FuzzReadAck(f *testing.F) {
	f.Add([]byte(`{"stream":"S","seq":5}`))
	f.Add([]byte(`{"stream":"S","domain":"d","seq":5,"duplicate":true}`))
	f.Add([]byte(`{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"S","seq":0}`))
	f.Add([]byte(`{"stream":"S\"","seq":05}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		seq, err := readAck(b)
		if (err == nil) != (seq > 0) {
			t.Errorf("sequence %d with %v", seq, err)
		}
		var plain struct {
			Stream string
			Seq    uint64
			Error  any
		}
		if quick := plainAck(b); quick > 0 && (json.Unmarshal(b, &plain) != nil || plain.Stream == "" || plain.Seq != quick || plain.Error != nil) {
			t.Errorf("%q was read as %d", b, quick)
		}
	})
}

func TestPlainAckIsTheUsualOne(t *testing.T) {
	if seq := plainAck([]byte(`{"stream":"MULLIGAN_CALLS","seq":1234567}`)); seq != 1234567 {
		t.Errorf("got %d", seq)
	}
}
