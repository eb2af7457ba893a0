//go:build unix

package chaos

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
)

// deliveries counts what a broker hands to consumers, as the proxies see it
// pass. What it says itself of how often it handed out a message is lost with
// the state that a killed broker had not yet written.
type deliveries struct {
	mu   sync.Mutex
	seen map[string]int // by consumer and message
}

func newDeliveries() *deliveries { return &deliveries{seen: make(map[string]int)} }

// count gives all deliveries, and those of a message beyond its first.
func (d *deliveries) count() (all, again int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.seen {
		all, again = all+n, again+n-1
	}
	return all, again
}

// note takes one line of the protocol, and gives the bytes of the body that
// follows it.
func (d *deliveries) note(line []byte) (body int) {
	fields := strings.Fields(string(line))
	if len(fields) < 4 || fields[0] != "MSG" && fields[0] != "HMSG" {
		return 0
	}
	size, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return 0
	}
	if m := deliveredMessage(fields[3]); m != "" {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.seen[m]++
	}
	return size + len("\r\n")
}

// deliveredMessage names the message and the consumer that a delivery's reply
// subject tells of; empty where it is none:
// $JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.…, or the same with domain
// and account before the stream.
func deliveredMessage(reply string) string {
	tokens := strings.Split(reply, ".")
	if len(tokens) < 9 || tokens[0] != "$JS" || tokens[1] != "ACK" {
		return ""
	}
	at := 2
	if len(tokens) > 9 {
		at = 4
	}
	return strings.Join([]string{tokens[at], tokens[at+1], tokens[at+3]}, " ")
}

// tap reads along what a broker says on one connection.
type tap struct {
	to   *deliveries
	line []byte // begun
	body int    // bytes that are still to come
}

func (t *tap) see(b []byte) {
	for len(b) > 0 {
		if t.body > 0 {
			n := min(t.body, len(b))
			t.body, b = t.body-n, b[n:]
			continue
		}
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		t.line = append(t.line, line...)
		if b = rest; whole {
			t.body = t.to.note(t.line)
			t.line = t.line[:0]
		}
	}
}
