//go:build linux

package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// smallDisk is a file system of so many MiB in memory, in a mount namespace that
// ends with the test: nobody else sees it, and no privilege is needed where user
// namespaces are allowed. Its path leads through the process that holds it.
func smallDisk(t *testing.T, mib int) (string, error) {
	t.Helper()
	dir := t.TempDir()
	holder := exec.Command("sh", "-c", fmt.Sprintf("mount -t tmpfs -o size=%dm,mode=0777 tmpfs '%s' && echo mounted && read end", mib, dir))
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	holder.SysProcAttr = attr
	var said strings.Builder
	holder.Stderr = &said
	in, err := holder.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := holder.Start(); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	end := func() {
		_ = in.Close()
		_ = holder.Wait()
	}
	if line != "mounted\n" {
		end()
		return "", fmt.Errorf("mount: %s %w", said.String(), err)
	}
	t.Cleanup(end)
	return filepath.Join("/proc", fmt.Sprint(holder.Process.Pid), "root", dir), nil
}

// disk is what a broker writes to, and can be filled and emptied while it runs.
type disk struct {
	name string
	fill func(n *brokerNode) error
	free func(n *brokerNode) error
}

// memoryDisk leaves so many KiB of a small disk free.
func memoryDisk(path string, left int64) disk {
	ballast := filepath.Join(path, "ballast")
	return disk{name: "a full file system",
		fill: func(*brokerNode) error {
			f, err := os.Create(ballast)
			if err != nil {
				return err
			}
			return errors.Join(fillUp(f, left), f.Close())
		},
		free: func(*brokerNode) error { return os.Remove(ballast) },
	}
}

// fillUp makes a file so large that so many KiB of its file system stay free.
// The broker writes meanwhile, so that it may not fit at once.
func fillUp(f *os.File, left int64) error {
	for {
		var st unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
			return err
		}
		free := int64(st.Bavail) * st.Bsize
		if free <= left<<10 {
			return nil
		}
		if err := unix.Fallocate(int(f.Fd()), 0, 0, free-left<<10); !errors.Is(err, unix.ENOSPC) {
			return err
		}
	}
}

// limitedFiles lets the broker's files become no larger than so many KiB: each
// write beyond fails, whoever runs the test. It is for where nothing can be mounted.
func limitedFiles(kib uint64) disk {
	limit := func(n *brokerNode, bytes uint64) error {
		var now unix.Rlimit
		if err := unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &now); err != nil {
			return err
		}
		now.Cur = min(bytes, now.Max)
		return unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_FSIZE, &now, nil)
	}
	return disk{name: "files that cannot grow",
		fill: func(n *brokerNode) error { return limit(n, kib<<10) },
		free: func(n *brokerNode) error { return limit(n, unix.RLIM_INFINITY) },
	}
}

// TestAFullDiskLosesNothing lets the disk below the broker run full under load.
// nats-server 2.15 then stops answering, and stays so when there is room; after a
// restart everything that was accepted ends, once, and nothing that was refused.
// The disk is a small file system of its own, and where the machine allows none
// (`make fulldisk` insists on it) a limit on the size of the broker's files.
func TestAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBrokers(t, 1)
	node := b.nodes[0]
	d := limitedFiles(256)
	switch path, err := smallDisk(t, 64); {
	case err == nil:
		node.store = filepath.Join(path, "store")
		d = memoryDisk(path, 1024)
	case os.Getenv("MULLIGAN_FULLDISK") != "":
		t.Fatalf("no file system can be mounted here: %v", err)
	default:
		t.Logf("no file system can be mounted here (%v)", err)
	}
	t.Logf("the disk: %s", d.name)
	b.up()
	c := b.cluster(jetstream.TopologyConfig{})
	c.work()
	s := c.submitterWith(client.Config{Patience: -1, RequestTimeout: 3 * time.Second, By: "hasty"})
	before := &fates{}
	for range 200 {
		before.accepted = append(before.accepted, padded(10_000)())
	}
	c.submit(before.accepted)
	if err := d.fill(node); err != nil {
		t.Fatal(err)
	}
	f := press(c, s, 8, 64, padded(10_000))
	t.Logf("while the disk ran full: %s", f)
	for _, err := range f.errs[:min(3, len(f.errs))] {
		t.Logf("a submitter was told: %v", err)
	}
	for _, r := range f.refusals {
		if r.RetryAfter <= 0 || !strings.Contains(r.Text, "again") {
			t.Fatalf("refused with %+v", r)
		}
	}
	if err := d.free(node); err != nil {
		t.Fatal(err)
	}
	node.kill()
	b.up()
	f.accepted = append(f.accepted, before.accepted...)
	f.hold(c)
	after := call("echo", `{"after":true}`)
	c.submit([]messages.Submission{after})
	c.results([]messages.Submission{after}, func(int) {})
	c.unharmed()
}

// TestALowDiskIsRefusedBeforeItIsFull runs a whole pool on a small disk, which
// something else fills: below what must stay free submissions are refused with a
// text, what was accepted ends, and with room again the pool goes on by itself.
// Where no file system can be mounted, jetstream/embedded and
// internal/coordination hold the two halves.
func TestALowDiskIsRefusedBeforeItIsFull(t *testing.T) {
	t.Parallel()
	path, err := smallDisk(t, 320)
	if err != nil {
		if os.Getenv("MULLIGAN_FULLDISK") != "" {
			t.Fatal(err)
		}
		t.Skipf("no file system can be mounted here: %v; see TestLowDisk and TestAShutRoomSaysWhyAndKeepsNothing", err)
	}
	d := memoryDisk(path, 200<<10)
	up := exec.Command(filepath.Join(binaries, "mulligan"), "up", "--state", filepath.Join(path, "state"), "-o", "json")
	up.Dir = t.TempDir()
	out, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = up.Process.Signal(syscall.SIGTERM)
		_ = up.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	mulligan := func(args ...string) (out, errs string, code int) {
		t.Helper()
		cmd := exec.Command(filepath.Join(binaries, "mulligan"), append(args, "--state", filepath.Join(path, "state"))...)
		cmd.Dir = up.Dir
		return runCommand(t, cmd)
	}
	at, err := embedded.ReadAddress(filepath.Join(path, "state"))
	if err != nil {
		t.Fatal(err)
	}
	c := connected(t, at.URL, at.Token)
	long := []messages.Submission{call("sleep", `{"ms":4000}`)}
	c.submit(long)
	if err := d.fill(nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "submissions are refused", func() error {
		_, errs, code := mulligan("call", "echo", "{}", "--patience", "1ms")
		if code == 0 {
			return errors.New("it was accepted")
		}
		if code != 3 || !strings.Contains(errs, "the disk is nearly full") || !strings.Contains(errs, "256 needed") {
			t.Fatalf("it ended with %d and said %s", code, errs)
		}
		return nil
	})
	if r := c.results(long, func(int) {}).results[long[0].Call]; r.Status != messages.Succeeded {
		t.Errorf("a call that was accepted before ended %s: %s", r.Status, r.Reason)
	}
	if err := d.free(nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if out, errs, code := mulligan("call", "echo", `{"again":true}`); code != 0 || !strings.Contains(out, "again") {
		t.Errorf("with room again it ended with %d, %s", code, errs)
	}
}
