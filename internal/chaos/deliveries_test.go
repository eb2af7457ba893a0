//go:build unix

package chaos

import (
	"strings"
	"testing"
)

// What a broker says is read in whatever pieces it arrives.
func TestRedeliveriesAreCountedAsTheyPass(t *testing.T) {
	const ack = "$JS.ACK."
	wire := strings.Join([]string{
		`INFO {"server_id":"x"}`,
		"MSG call.a 1 " + ack + "CALLS.echo-normal.1.7.1.1700000000000000000.0 5", "hello",
		"PING",
		"HMSG call.a 1 " + ack + "_.ACC.CALLS.echo-normal.2.7.2.1700000000000000000.0.x 12 17", "NATS/1.0\r\n\r\nhello",
		// Another consumer, and another message.
		"MSG due.a 2 " + ack + "CALLS.echo-high.1.7.1.1700000000000000000.0 0", "",
		"MSG call.b 1 " + ack + "CALLS.echo-normal.1.8.3.1700000000000000000.0 2", "ab",
		// A body that looks like a delivery, and answers that are none.
		"MSG call.c 1 9", "MSG x 1 \n",
		"MSG call.d 1 reply.to 68", "MSG x 1 " + ack + "CALLS.echo-normal.3.7.2.1700000000000000000.0 5\r\nhel",
	}, "\r\n") + "\r\n"
	for _, size := range []int{1, 3, len(wire)} {
		d := newDeliveries()
		x := &tap{to: d}
		for b := []byte(wire); len(b) > 0; b = b[min(size, len(b)):] {
			x.see(b[:min(size, len(b))])
		}
		if all, again := d.count(); all != 4 || again != 1 {
			t.Errorf("in pieces of %d: %d deliveries, %d of them again", size, all, again)
		}
	}
}
