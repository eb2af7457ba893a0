package jetstream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"mulligan/pkg/messages"
)

// A client that does not read fast enough loses messages on its own side. The
// next one that comes shows the gap and is not handed on: the reading ends with
// an error, upon which it binds again behind what was (see
// TestFollowOutlivesItsConsumer).
func TestAGapEndsABinding(t *testing.T) {
	t.Parallel()
	var got []uint64
	b := binding{asked: 10, r: reading{message: func(s messages.Stored, _ uint64) { got = append(got, s.Sequence) }}}
	delivered := func(stream, consumer int) *nats.Msg {
		return &nats.Msg{Subject: "s", Reply: fmt.Sprintf("$JS.ACK.S.c.1.%d.%d.1700000000000000000.0", stream, consumer)}
	}
	for _, m := range []*nats.Msg{delivered(4, 1), delivered(7, 2)} { // other subjects lie between
		if err := b.take(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, lost := range []*nats.Msg{delivered(9, 4), delivered(7, 2)} {
		if err := b.take(lost); err == nil || !strings.Contains(err.Error(), "a gap") {
			t.Errorf("%s: %v", lost.Reply, err)
		}
	}
	if len(got) != 2 || got[0] != 4 || got[1] != 7 {
		t.Errorf("it handed on %v", got)
	}
}
