package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mulligan/jetstream/embedded"
)

// program is one that has to be there, and the Debian package that brings it.
type program struct{ name, pkg string }

var (
	redisServer    = program{"redis-server", "redis-server"}
	postgresServer = program{"postgres", "postgresql"}
	initdb         = program{"initdb", "postgresql"}
)

// path finds a program, also where Debian keeps those of PostgreSQL.
func (p program) path() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + p.name)
	if err == nil && len(found) > 0 {
		slices.SortFunc(found, func(a, b string) int { return postgresVersion(a) - postgresVersion(b) })
		return found[len(found)-1], nil
	}
	return exec.LookPath(p.name)
}

func postgresVersion(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4]) // 0 for what is no number
	return n
}

func missing(systems []system) (names, packages []string) {
	for _, s := range systems {
		for _, p := range s.needs {
			if _, err := p.path(); err != nil {
				names, packages = append(names, p.name), append(packages, p.pkg)
			}
		}
	}
	unique := func(s []string) []string { slices.Sort(s); return slices.Compact(s) }
	return unique(names), unique(packages)
}

// install brings what is missing with Debian's packages, as root.
func install(ctx context.Context, systems []system) error {
	names, packages := missing(systems)
	if len(names) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return errors.New(howToInstall(names, packages))
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, packages...)} {
		say("apt-get %s", strings.Join(args, " "))
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	if names, packages := missing(systems); len(names) > 0 {
		return errors.New(howToInstall(names, packages))
	}
	return nil
}

func howToInstall(names, packages []string) string {
	return fmt.Sprintf("missing: %s; install Debian's packages with `apt-get install %s`, or run this as root where there is apt-get, which does it",
		strings.Join(names, ", "), strings.Join(packages, " "))
}

// site is the temporary folder of a run.
type site struct {
	dir      string
	postgres string // the folder of its data, initialised
}

func newSite(ctx context.Context, systems []system) (s *site, err error) {
	dir, err := os.MkdirTemp("", "mulligan-peers-")
	if err != nil {
		return nil, err
	}
	s = &site{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // the user of PostgreSQL passes through
		return s, err
	}
	if slices.ContainsFunc(systems, func(s system) bool { return slices.Contains(s.needs, initdb) }) {
		err = s.initPostgres(ctx)
	}
	return s, err
}

func (s *site) remove() error { return os.RemoveAll(s.dir) }

// fresh is a new folder.
func (s *site) fresh(name string) (string, error) { return os.MkdirTemp(s.dir, name+"-") }

// server is a process of ours.
type server struct {
	cmd  *exec.Cmd
	stop syscall.Signal // what ends it cleanly
	log  string
	in   io.Closer // what ends it if it is set
}

// start runs a program; what it says goes into a file of folder.
func start(path, folder string, credential *syscall.Credential, stop syscall.Signal, args ...string) (*server, error) {
	log, err := os.Create(filepath.Join(folder, filepath.Base(path)+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, log, log
	// A group of its own: an interrupt from the terminal is for us, and we stop it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &server{cmd: cmd, stop: stop, log: log.Name()}, nil
}

// ready waits until ask says nothing against it.
func (s *server) ready(ctx context.Context, ask func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			said, _ := os.ReadFile(s.log)
			return fmt.Errorf("%s is not ready: %w\n%s", s.cmd.Path, err, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// end stops the process, and kills it if it does not listen.
func (s *server) end() error {
	if s.in != nil {
		_ = s.in.Close() // which asks it to end
	} else if err := s.cmd.Process.Signal(s.stop); err != nil {
		return fmt.Errorf("stop %s: %w", s.cmd.Path, err)
	}
	late := time.AfterFunc(30*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("%s ended badly: %w", s.cmd.Path, err)
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// unprivileged is the user that PostgreSQL, which refuses to be root, runs as;
// nil for our own.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // as exec wants it
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and %w; its Debian package makes that user", err)
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uerr, gerr)
}

func (s *site) initPostgres(ctx context.Context) error {
	path, err := initdb.path()
	if err != nil {
		return err
	}
	who, err := unprivileged()
	if err != nil {
		return err
	}
	if s.postgres, err = s.fresh("postgres"); err != nil {
		return err
	}
	if who != nil {
		if err := os.Chown(s.postgres, int(who.Uid), int(who.Gid)); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, path, "-D", filepath.Join(s.postgres, "data"), "-U", "postgres", "--auth=trust", "--locale=C", "--encoding=UTF8")
	cmd.Dir, cmd.SysProcAttr = s.postgres, &syscall.SysProcAttr{Credential: who}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// serveBroker is this program as a NATS server: it says its address in a line
// and runs until in ends.
func serveBroker(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: peers %s FOLDER fast|always", brokerCommand)
	}
	s, err := embedded.Start(embedded.Config{Dir: args[0], Token: brokerToken, Durability: embedded.Durability(args[1])})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, s.ClientURL())
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	return errors.Join(err, s.Shutdown())
}

const brokerToken = "peers" // it listens on loopback only

// startBroker runs a NATS server in a process of its own.
func (s *site) startBroker(always bool) (*server, string, error) {
	dir, err := s.fresh("nats")
	if err != nil {
		return nil, "", err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	durability := embedded.Fast
	if always {
		durability = embedded.Always
	}
	cmd := exec.Command(self, brokerCommand, dir, string(durability))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	broker := &server{cmd: cmd, in: in}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("the NATS server said nothing: %w", err), broker.end())
	}
	return broker, strings.TrimSpace(url), nil
}
