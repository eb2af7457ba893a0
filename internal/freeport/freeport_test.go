package freeport_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"mulligan/internal/freeport"
)

func listen(t *testing.T, port int) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A port is that of one test, whether it listens or not, and free after it.
func TestAPortIsOfOneTest(t *testing.T) {
	seen := map[int]bool{}
	t.Run("uses ports", func(t *testing.T) {
		for range 20 {
			port := freeport.Get(t)
			if seen[port] || port >= 32_768 {
				t.Errorf("port %d", port)
			}
			seen[port] = true
			if err := listen(t, port).Close(); err != nil {
				t.Error(err)
			}
		}
	})
	if port := freeport.Get(t); !seen[port] {
		t.Errorf("port %d, and those of a test that has ended are not used again: %v", port, seen)
	}
}

// What somebody else listens on is passed over.
func TestATakenPortIsPassedOver(t *testing.T) {
	var next int
	t.Run("looks", func(t *testing.T) { next = freeport.Get(t) })
	defer listen(t, next).Close()
	if port := freeport.Get(t); port == next {
		t.Errorf("port %d is taken", port)
	}
}

// Addresses are had by one only, until they are given back.
func TestAddressesAreTakenUntilTheirRelease(t *testing.T) {
	const n = 60 // of the 99 of a process
	first, release, err := freeport.Addresses(n)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := freeport.Addresses(n); err == nil {
		t.Error("they were given twice")
	}
	if l, err := net.Listen("tcp", first[n-1]); err != nil {
		t.Error(err)
	} else if err := l.Close(); err != nil {
		t.Error(err)
	}
	release()
	_, release, err = freeport.Addresses(n) // what was taken before the failure is free as well
	if err != nil {
		t.Fatal(err)
	}
	release()
}

const asAnother = "FREEPORT_TEST_AS_ANOTHER_PROCESS"

// Two processes have no port in common, while both live.
func TestProcessesShareNoPort(t *testing.T) {
	if os.Getenv(asAnother) != "" {
		fmt.Println(freeport.Get(t))
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // until the other process says so
		return
	}
	mine := freeport.Get(t)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestProcessesShareNoPort$")
	cmd.Env = append(os.Environ(), asAnother+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var theirs int
	if _, err := fmt.Fscan(out, &theirs); err != nil || theirs == mine {
		t.Errorf("the other process has port %d, this one %d, %v", theirs, mine, err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	_, _ = bufio.NewReader(out).WriteTo(os.Stderr)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
