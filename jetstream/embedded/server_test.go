package embedded

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mulligan/internal/freeport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStartIsQuickAndOnLoopback(t *testing.T) {
	var s *Server
	took := time.Minute
	for try := 0; try < 20 && took > time.Second; try++ { // the machine may be busy
		begin := time.Now()
		s = start(t, Config{})
		took = time.Since(begin)
	}
	if took > time.Second {
		t.Errorf("the last of many took %v", took)
	}
	u, err := url.Parse(s.ClientURL())
	if err != nil || u.Hostname() != "127.0.0.1" || u.Port() == "" || u.User != nil {
		t.Errorf("it is at %s, %v", s.ClientURL(), err)
	}
	if len(s.Token()) < 32 {
		t.Errorf("its token is %q", s.Token())
	}
	if other := start(t, Config{}); other.Token() == s.Token() || other.ClientURL() == s.ClientURL() {
		t.Error("two servers share a token or an address")
	}
	c, err := s.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	info := make([]byte, 5)
	if _, err := c.Read(info); err != nil || string(info) != "INFO " {
		t.Errorf("in process: %q, %v", info, err)
	}
}

func TestOneServerAFolder(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{Dir: dir})
	if _, err := Start(Config{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second one: %v", err)
	}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	start(t, Config{Dir: dir})
}

func TestPortGivenAndTaken(t *testing.T) {
	port := freeport.Get(t)
	s := start(t, Config{Port: port})
	dir := t.TempDir()
	if Owns(dir) {
		t.Error("an empty folder counts as one of a server")
	}
	_, err := Start(Config{Dir: dir, Port: port})
	if !errors.Is(err, ErrPort) || !strings.Contains(err.Error(), strconv.Itoa(port)) {
		t.Fatalf("a port that is taken: %v", err)
	}
	if !Owns(dir) {
		t.Error("the folder of a server does not count as one")
	}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	again := start(t, Config{Dir: dir, Port: port}) // the lock is free again
	if again.ClientURL() != s.ClientURL() {
		t.Errorf("it is at %s, not at %s", again.ClientURL(), s.ClientURL())
	}
}

func TestAddressFile(t *testing.T) {
	s := start(t, Config{})
	if _, err := ReadAddress(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before it was written: %v", err)
	}
	for range 2 {
		if err := s.WriteAddress(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(s.Dir(), addressFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	a, err := ReadAddress(s.Dir())
	if err != nil || a.URL != s.ClientURL() || a.Token != s.Token() || a.PID != os.Getpid() {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAddress(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("after the end: %v", err)
	}
	for _, bad := range []string{"", "{}", "[]", "{"} {
		if err := os.WriteFile(filepath.Join(s.Dir(), addressFile), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadAddress(s.Dir()); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestSameAddressAsTheLastTime(t *testing.T) {
	port := freeport.Get(t)
	s := start(t, Config{Same: true, Port: port})
	again := func() *Server {
		t.Helper()
		if err := errors.Join(s.WriteAddress(), s.Shutdown()); err != nil {
			t.Fatal(err)
		}
		return start(t, Config{Dir: s.Dir(), Same: true})
	}
	url, token := s.ClientURL(), s.Token()
	if s = again(); s.ClientURL() != url || s.Token() != token {
		t.Errorf("the next one is at %s and not at %s, or has another token", s.ClientURL(), url)
	}
	if err := errors.Join(s.WriteAddress(), s.Shutdown()); err != nil {
		t.Fatal(err)
	}
	start(t, Config{Port: port})
	if s = start(t, Config{Dir: s.Dir(), Same: true}); s.ClientURL() == url || s.Token() != token {
		t.Errorf("with its port taken the next one is at %s", s.ClientURL())
	}
	if err := os.WriteFile(filepath.Join(s.Dir(), lastFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	start(t, Config{Dir: s.Dir(), Same: true})
}

func TestLowDisk(t *testing.T) {
	dir := t.TempDir()
	if _, err := Start(Config{Dir: dir, MinFree: 1 << 60}); !errors.Is(err, ErrLowDisk) {
		t.Fatalf("it started: %v", err)
	}
	told := make(chan error, 10)
	s := start(t, Config{Dir: dir, DiskCheck: time.Millisecond, OnLowDisk: func(err error) { told <- err }})
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	free := int64(1)
	s.disk.mu.Lock()
	s.disk.free = func(string) (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		return free, nil
	}
	s.disk.mu.Unlock()
	if err := <-told; !errors.Is(err, ErrLowDisk) || !errors.Is(s.Err(), ErrLowDisk) {
		t.Fatalf("told %v, reports %v", err, s.Err())
	}
	mu.Lock()
	free = 1 << 50
	mu.Unlock()
	if err := <-told; err != nil || s.Err() != nil {
		t.Fatalf("told %v, reports %v", err, s.Err())
	}
	if len(told) != 0 {
		t.Error("it was told more than once")
	}
}

// The store never promises more than the disk has above what must stay free.
func TestStoreLimitFitsTheDisk(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := freeBytes(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{cfg: Config{StoreLimit: 1 << 62, MinFree: 1 << 30}.WithDefaults()}
	got, err := s.storeLimit(dir)
	if err != nil || got > free-1<<30+1<<28 || got < 1<<20 {
		t.Errorf("with %d free: %d, %v", free, got, err)
	}
	s.cfg.StoreLimit = 5 << 20
	if got, err := s.storeLimit(dir); err != nil || got != 5<<20 {
		t.Errorf("what was asked for fits, and it is %d, %v", got, err)
	}
	s.cfg.MinFree = -1
	s.cfg.StoreLimit = 1 << 62
	if got, err := s.storeLimit(dir); err != nil || got != 1<<62 {
		t.Errorf("without a watch: %d, %v", got, err)
	}
}

func TestShutdownIsRepeatable(t *testing.T) {
	s := start(t, Config{Port: freeport.Get(t)})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := s.Shutdown(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(s.ClientURL(), "nats://"), time.Second); err == nil {
		t.Error("it still listens")
	}
}

func TestDurability(t *testing.T) {
	for d, want := range map[Durability]bool{Fast: false, Always: true} {
		s := start(t, Config{Durability: d})
		if got := s.options(t.TempDir(), 1).SyncAlways; got != want {
			t.Errorf("%s syncs each message: %v", d, got)
		}
	}
}

func TestConfig(t *testing.T) {
	for field, cfg := range map[string]Config{
		"dir":           {},
		"port":          {Dir: "x", Port: 70000},
		"store limit":   {Dir: "x", StoreLimit: 5},
		"disk check":    {Dir: "x", DiskCheck: 1},
		"durability":    {Dir: "x", Durability: "maybe"},
		"max payload":   {Dir: "x", MaxPayload: 5},
		"start timeout": {Dir: "x", StartTimeout: -1},
	} {
		if _, err := Start(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// A healthy server says nothing above debug.
func TestQuiet(t *testing.T) {
	var mu sync.Mutex
	var text strings.Builder
	w := writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(b)
	})
	s := start(t, Config{Log: slog.New(slog.NewTextHandler(w, nil))})
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if text.Len() != 0 {
		t.Errorf("it said %s", text.String())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
