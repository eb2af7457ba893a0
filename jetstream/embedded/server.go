// Package embedded runs a NATS server with JetStream inside this process, for
// one machine: demo, up, benchmarks and tests. No other package imports the
// server.
package embedded

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

// Why a server does not start.
var (
	ErrLocked = errors.New("the folder is in use by another server") // ErrLocked: so it is
	ErrPort   = errors.New("the port cannot be used")                // ErrPort: most likely another process has it
)

const (
	host     = "127.0.0.1"
	lockFile = "lock"
)

// Owns says whether the folder is one of a server, running or not.
func Owns(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, lockFile))
	return err == nil && info.Mode().IsRegular()
}

// Server is a running server. All methods may be called concurrently.
type Server struct {
	cfg  Config
	lock *flock.Flock
	nats *server.Server
	disk *diskWatch

	limit int64 // of the store

	once sync.Once
	down chan struct{}
}

// Start runs a server on the loopback interface and returns when it serves.
// ErrLocked: the folder has a server already. ErrPort: the port is taken.
// ErrLowDisk: less than MinFree is free. The caller owns the server and calls
// Shutdown.
func Start(cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	lock := flock.New(filepath.Join(cfg.Dir, lockFile))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("embedded server: lock %s: %w", lock.Path(), err)
	}
	if !locked {
		return nil, fmt.Errorf("embedded server in %s: %w", cfg.Dir, ErrLocked)
	}
	cfg = cfg.asLast()
	s := &Server{cfg: cfg, lock: lock, down: make(chan struct{})}
	if err := s.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded server: %w", err), lock.Unlock())
	}
	return s, nil
}

func (s *Server) start() error {
	if s.cfg.Token == "" {
		s.cfg.Token = newToken()
	}
	if err := checkPort(s.cfg.Port); err != nil {
		return err
	}
	store := filepath.Join(s.cfg.Dir, "store")
	if err := os.MkdirAll(store, 0o700); err != nil {
		return err
	}
	limit, err := s.storeLimit(store)
	if err != nil {
		return err
	}
	s.limit = limit
	ns, err := server.NewServer(s.options(store, limit))
	if err != nil {
		return err
	}
	ns.SetLoggerV2(&natsLog{log: s.cfg.Log}, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(s.cfg.StartTimeout) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return fmt.Errorf("not ready within %v", s.cfg.StartTimeout)
	}
	s.nats = ns
	s.disk = watchDisk(s.cfg)
	return nil
}

// checkPort finds out at once what the server would say only by not becoming
// ready.
func checkPort(port int) error {
	if port == 0 {
		return nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d: %w: %w", port, ErrPort, err)
	}
	return l.Close()
}

// A client that answers none of two pings is cut off. The requests of others
// are shared out to it until then, as to a coordinator that is frozen.
const (
	pingInterval = 10 * time.Second
	mostPings    = 2
)

func (s *Server) options(store string, limit int64) *server.Options {
	o := &server.Options{
		ServerName: s.cfg.Name,
		Host:       host,
		Port:       s.cfg.Port,

		Authorization:      s.cfg.Token,
		MaxPayload:         s.cfg.MaxPayload,
		NoSigs:             true,
		JetStream:          true,
		StoreDir:           store,
		JetStreamMaxStore:  limit,
		JetStreamMaxMemory: 256 << 20,
		SyncAlways:         s.cfg.Durability == Always,
		PingInterval:       pingInterval,
		MaxPingsOut:        mostPings,

		DisableJetStreamBanner: true,
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if s.cfg.RoutePort != 0 {
		o.Cluster = server.ClusterOpts{Name: "mulligan", Host: host, Port: s.cfg.RoutePort, NoAdvertise: true}
		for _, r := range s.cfg.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: r})
		}
	}
	return o
}

// storeLimit keeps the store within what the disk can give, less MinFree.
func (s *Server) storeLimit(store string) (int64, error) {
	if s.cfg.MinFree < 0 {
		return s.cfg.StoreLimit, nil
	}
	free, err := freeBytes(store)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", store, err)
	}
	if free < s.cfg.MinFree {
		return 0, lowDisk(store, free, s.cfg.MinFree)
	}
	used, err := sizeOf(store)
	if err != nil {
		return 0, err
	}
	return min(s.cfg.StoreLimit, max(used+free-s.cfg.MinFree, 1<<20)), nil
}

// ClientURL is where clients connect, without the token.
func (s *Server) ClientURL() string { return s.nats.ClientURL() }

// Token is what clients must show.
func (s *Server) Token() string { return s.cfg.Token }

// StoreLimit is how many bytes the store may have: the configured limit, or what
// the disk had room for at the start if that is less.
func (s *Server) StoreLimit() int64 { return s.limit }

// Dir is the folder of the server.
func (s *Server) Dir() string { return s.cfg.Dir }

// InProcessConn is a connection without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// Err is ErrLowDisk while less than MinFree is free, else nil. Who takes work in
// should refuse it meanwhile, so that what was taken in can end.
func (s *Server) Err() error { return s.disk.get() }

// Messages is how many messages came from clients and went to them since the
// start, the server's own answers included.
func (s *Server) Messages() (uint64, error) {
	v, err := s.nats.Varz(nil)
	if err != nil {
		return 0, fmt.Errorf("embedded server: %w", err)
	}
	return uint64(v.InMsgs + v.OutMsgs), nil
}

// Shutdown ends the server, writes out what it holds, and frees the folder. It
// returns when that is done and may be called often.
func (s *Server) Shutdown() error {
	var err error
	s.once.Do(func() {
		defer close(s.down)
		s.disk.stop()
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		err = errors.Join(s.removeAddress(), s.lock.Unlock())
	})
	<-s.down
	return err
}

func newToken() string {
	b := make([]byte, 24)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
