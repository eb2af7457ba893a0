package jetstream

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"mulligan/pkg/messages"
)

// ackInfo is what the reply subject of a delivered message says about it.
type ackInfo struct {
	streamName, consumerName string

	delivered   int       // hand-overs, from 1
	stream      uint64    // sequence in the stream
	consumer    uint64    // sequence of the consumer, without a gap unless something was lost
	stored      time.Time // by the server's clock
	pendingLeft uint64    // messages that the consumer still has to hand over
}

// parseAck reads $JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<time>.<pending>
// and the newer form with domain and account before the stream and a token at the end.
func parseAck(reply string) (ackInfo, error) {
	bad := func() (ackInfo, error) {
		return ackInfo{}, fmt.Errorf("reply subject %.120q is not that of a delivery", reply)
	}
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return bad()
	}
	skip := 2 // stream and consumer
	switch n := strings.Count(rest, ".") + 1; {
	case n >= 9:
		skip = 4
	case n != 7:
		return bad()
	}
	var num [5]uint64
	var names [2]string // the last two before the numbers
	for i := -skip; i < len(num); i++ {
		var token string
		token, rest, _ = strings.Cut(rest, ".")
		if i < 0 {
			names[0], names[1] = names[1], token
			continue
		}
		v, err := strconv.ParseUint(token, 10, 64)
		if err != nil {
			return bad()
		}
		num[i] = v
	}
	return ackInfo{
		streamName: names[0], consumerName: names[1],
		delivered: int(num[0]), stream: num[1], consumer: num[2],
		stored: time.Unix(0, int64(num[3])).UTC(), pendingLeft: num[4],
	}, nil
}

func storedOf(m *nats.Msg, a ackInfo) messages.Stored {
	return messages.Stored{
		Message:  messages.Message{Subject: m.Subject, Header: messages.Header(m.Header), Body: m.Data},
		Sequence: a.stream,
		Time:     a.stored,
	}
}

// statusOf is the status of a message that carries no data but news about a
// pull: 100 a heartbeat, 404 and 408 its end, 409 and 503 a reason. Empty for a
// real message.
func statusOf(m *nats.Msg) string {
	if len(m.Data) != 0 || strings.HasPrefix(m.Reply, "$JS.ACK.") {
		return ""
	}
	return m.Header.Get("Status")
}
