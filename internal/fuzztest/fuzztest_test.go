package fuzztest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestWhatCostsTooMuchIsSeen(t *testing.T) {
	const most, bytes = 50 * time.Millisecond, 8 << 20
	var kept []byte
	if over := measure(func() { kept = make([]byte, bytes+1) }, most, bytes); !strings.Contains(over, "allocates") {
		t.Errorf("too much memory: %q", over)
	}
	burn := func() {
		for from := processorTime(); processorTime() <= from+most; {
			clear(kept)
		}
	}
	if over := measure(burn, most, bytes); !strings.Contains(over, "takes") {
		t.Errorf("too much time: %q", over)
	}
	calls := 0
	once := func() {
		if calls++; calls == 1 {
			burn()
		}
	}
	if over := measure(once, time.Minute, bytes); over != "" || calls != 1 {
		t.Errorf("within its bounds: %q after %d calls", over, calls)
	}
	if calls = 0; measure(once, most, bytes) == "" && calls != 2 {
		t.Errorf("slow once: tried %d times", calls)
	}
}

var (
	riskiest = regexp.MustCompile(`(?m)^RISKIEST\s*=\s*(.*)$`)
	target   = regexp.MustCompile(`^\./(\S+):(Fuzz\w+)$`)
)

// The Makefile names the targets that are run for longer; a name that has
// gone would be skipped without a word.
func TestTheRiskiestTargetsAreThere(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	m := riskiest.FindSubmatch(makefile)
	if m == nil {
		t.Fatal("the Makefile has no RISKIEST")
	}
	names := strings.Fields(string(m[1]))
	if len(names) != 3 {
		t.Errorf("%d targets, not three: %q", len(names), names)
	}
	for _, name := range names {
		parts := target.FindStringSubmatch(name)
		if parts == nil {
			t.Errorf("%q is not ./folder:FuzzName", name)
			continue
		}
		if !defines(t, filepath.Join(root, parts[1]), parts[2]) {
			t.Errorf("%s has no %s", parts[1], parts[2])
		}
	}
}

func defines(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(f *testing.F)") {
			return true
		}
	}
	return false
}
