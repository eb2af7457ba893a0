// Package freeport gives tests, and programs that test, ports to listen on later, or again after a
// pause. A port that the kernel chose is not good for that: while nobody
// listens on it, the kernel may give it to any connection or server.
package freeport

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The ports lie below those that a kernel chooses from (32768 and up on Linux,
// 49152 and up elsewhere), in blocks of which each process takes one: it
// listens on the first port of its block for as long as it lives.
const (
	first  = 20_000
	block  = 100
	blocks = 100
)

var own struct {
	sync.Mutex
	lock  net.Listener
	taken map[int]bool
}

// Get gives a port of the loopback interface on which nobody listens. Nobody
// else is given it before the test has ended, in this process or another.
func Get(t testing.TB) int {
	t.Helper()
	port, err := take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { giveBack(port) })
	return port
}

// Addresses are n ports with their host, for a program that is no test. They
// are its own until their release.
func Addresses(n int) (addresses []string, release func(), err error) {
	var ports []int
	release = func() { giveBack(ports...) }
	for range n {
		port, err := take()
		if err != nil {
			release()
			return nil, nil, err
		}
		ports, addresses = append(ports, port), append(addresses, address(port))
	}
	return addresses, release, nil
}

func take() (int, error) {
	own.Lock()
	defer own.Unlock()
	if own.lock == nil {
		if err := takeBlock(); err != nil {
			return 0, err
		}
	}
	base := own.lock.Addr().(*net.TCPAddr).Port
	for port := base + 1; port < base+block; port++ {
		if own.taken[port] {
			continue
		}
		l, err := listen(port)
		if err != nil {
			continue // somebody who does not ask us
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		own.taken[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("no port is free between %d and %d", base+1, base+block-1)
}

func giveBack(ports ...int) {
	own.Lock()
	defer own.Unlock()
	for _, port := range ports {
		delete(own.taken, port)
	}
}

// takeBlock takes the first block that no other process has.
func takeBlock() error {
	for i := range blocks {
		if l, err := listen(first + i*block); err == nil {
			own.lock, own.taken = l, make(map[int]bool)
			return nil
		}
	}
	return fmt.Errorf("all blocks of ports from %d to %d are taken", first, first+blocks*block-1)
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", address(port))
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
