//go:build unix

package chaos

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// echo answers every line with itself.
func echo(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					if _, err := c.Write(append(lines.Bytes(), '\n')); err != nil {
						return
					}
				}
			}()
		}
	}()
	return lis.Addr().String()
}

// says sends a line and tells whether it came back in time.
func says(c net.Conn, r *bufio.Reader, within time.Duration) bool {
	if _, err := c.Write([]byte("hello\n")); err != nil {
		return false
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
	line, err := r.ReadString('\n')
	return err == nil && line == "hello\n"
}

func TestTheProxyHurtsAndHeals(t *testing.T) {
	p, err := newProxy(echo(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", p.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c, bufio.NewReader(c)
	}
	c, r := dial()
	if !says(c, r, 5*time.Second) {
		t.Fatal("nothing passes")
	}
	p.hurt(Stall)
	if says(c, r, 100*time.Millisecond) {
		t.Error("a stalled connection passes")
	}
	p.hurt("")
	if !says(c, r, 5*time.Second) { // this is the held line
		t.Error("what was stalled is lost")
	}
	if line, err := r.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("after it comes %q, %v", line, err)
	}
	p.hurt(Cut)
	if says(c, r, 5*time.Second) {
		t.Error("a cut connection passes")
	}
	c, r = dial()
	if says(c, r, 5*time.Second) {
		t.Error("a new connection passes while it is cut")
	}
	p.hurt("")
	if c, r = dial(); !says(c, r, 5*time.Second) {
		t.Error("it did not heal")
	}
}
