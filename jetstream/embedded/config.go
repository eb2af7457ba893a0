package embedded

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"
)

// Durability says what an acknowledged message survives.
type Durability string

// The durabilities. Fast survives the death of the process, since the kernel
// holds what was written, but a power cut can lose the last two minutes. Always
// syncs each message to the disk and is ten to fifty times slower.
const (
	Fast   Durability = "fast"
	Always Durability = "always"
)

// Config says where a server keeps its state and what it may use.
type Config struct {
	// Dir is the folder of the server: its store, its lock, its address. It is
	// made when it does not exist. Required; one server at a time.
	Dir string
	// Port on the loopback interface; 0 takes a free one.
	Port int
	// Token that clients must show; empty makes a random one.
	Token string
	// Same takes the port and the token of the last server that wrote its
	// address into the folder, where Port and Token are left open and the port
	// is free: so clients outlive a restart.
	Same bool
	// StoreLimit bounds the store, in bytes; a full store refuses cleanly and
	// recovers. Default 8 GiB, or what the disk leaves above MinFree if that is
	// less.
	StoreLimit int64
	// MinFree is how many bytes of the disk must stay free. Below it a server
	// does not start, and a running one reports it: a disk that is really full
	// stops the server for good. Default 256 MiB; −1 switches the watch off.
	MinFree int64
	// DiskCheck is how often the disk is looked at. Default 1 s.
	DiskCheck time.Duration
	// OnLowDisk is told when the free space falls below MinFree (with an
	// ErrLowDisk) and when it is enough again (with nil). It must not block.
	OnLowDisk func(error)
	// Durability is Fast or Always. Default Fast.
	Durability Durability
	// MaxPayload is the size in bytes of the largest message. Default 1 MiB.
	MaxPayload int32
	// Name tells servers of a cluster apart. Default "mulligan-embedded".
	Name string
	// RoutePort, if it is not 0, makes the server one of a cluster that listens
	// for the others there, on the loopback interface; Routes are the addresses
	// (host:port) of all of them. They need the same Token and names of their own.
	RoutePort int
	Routes    []string
	// StartTimeout bounds the start, recovery of the store included. Default 10 s.
	StartTimeout time.Duration
	// Log receives what the server has to say; its notices as debug. Nil discards.
	Log *slog.Logger
}

// WithDefaults fills what is zero, except for what depends on the disk.
func (c Config) WithDefaults() Config {
	c.StoreLimit = cmp.Or(c.StoreLimit, 8<<30)
	c.MinFree = cmp.Or(c.MinFree, 256<<20)
	c.DiskCheck = cmp.Or(c.DiskCheck, time.Second)
	c.Durability = cmp.Or(c.Durability, Fast)
	c.MaxPayload = cmp.Or(c.MaxPayload, 1<<20)
	c.Name = cmp.Or(c.Name, "mulligan-embedded")
	c.StartTimeout = cmp.Or(c.StartTimeout, 10*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Validate names the field that cannot be used, its value and the way out.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("dir is empty: give the folder that holds the server's state")
	case c.Port < 0 || c.Port > 65535:
		return fmt.Errorf("port %d: give 1 to 65535, or 0 for a free one", c.Port)
	case c.StoreLimit < 1<<20:
		return fmt.Errorf("store limit of %d bytes: give 1 MiB or more", c.StoreLimit)
	case c.DiskCheck < time.Millisecond:
		return fmt.Errorf("disk check every %v: give 1ms or more", c.DiskCheck)
	case c.Durability != Fast && c.Durability != Always:
		return fmt.Errorf("durability %q: give %q or %q", c.Durability, Fast, Always)
	case c.MaxPayload < 1<<20 || c.MaxPayload > 64<<20:
		return fmt.Errorf("max payload of %d bytes: give 1 MiB to 64 MiB", c.MaxPayload)
	case c.RoutePort < 0 || c.RoutePort > 65535:
		return fmt.Errorf("route port %d: give 1 to 65535, or 0 for a server of its own", c.RoutePort)
	case c.RoutePort == 0 && len(c.Routes) > 0:
		return fmt.Errorf("routes without a route port: give the port that the others reach this one at")
	case c.StartTimeout < 0:
		return fmt.Errorf("start timeout %v is negative", c.StartTimeout)
	}
	return nil
}
