//go:build unix

package chaos

import (
	"net"
	"sync"
	"time"
)

// proxy stands between one process and the broker.
type proxy struct {
	lis    net.Listener
	target string
	counts *deliveries // of what the broker says; may be nil
	wg     sync.WaitGroup

	mu    sync.Mutex
	mode  Kind // empty: everything passes
	heal  chan struct{}
	conns map[net.Conn]struct{}
}

func newProxy(target string, counts *deliveries) (*proxy, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{lis: lis, target: target, counts: counts, conns: make(map[net.Conn]struct{}), heal: closed()}
	p.wg.Go(p.accept)
	return p, nil
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (p *proxy) address() string { return p.lis.Addr().String() }

// hurt changes what passes; an empty kind heals.
func (p *proxy) hurt(kind Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == Stall && kind != Stall {
		close(p.heal)
	}
	if kind == Stall && p.mode != Stall {
		p.heal = make(chan struct{})
	}
	p.mode = kind
	if kind == Cut {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}

func (p *proxy) state() (Kind, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.heal
}

func (p *proxy) accept() {
	for {
		in, err := p.lis.Accept()
		if err != nil {
			return
		}
		if mode, _ := p.state(); mode == Cut {
			_ = in.Close()
			continue
		}
		out, err := net.DialTimeout("tcp", p.target, 2*time.Second)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.keep(in, out)
		p.wg.Go(func() { p.pass(in, out, func([]byte) {}) })
		p.wg.Go(func() { p.pass(out, in, p.reader()) })
	}
}

func (p *proxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
}

// reader reads along what the broker says on one connection.
func (p *proxy) reader() func([]byte) {
	if p.counts == nil {
		return func([]byte) {}
	}
	return (&tap{to: p.counts}).see
}

// pass copies one direction until either side ends. What is stalled is held
// back, not lost, as TCP does it.
func (p *proxy) pass(from, to net.Conn, read func([]byte)) {
	defer p.drop(from, to)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		switch mode, heal := p.state(); mode {
		case Stall:
			<-heal
		case Slow:
			time.Sleep(50 * time.Millisecond)
		}
		if n > 0 {
			read(buf[:n])
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func (p *proxy) close() {
	p.hurt("")
	_ = p.lis.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
