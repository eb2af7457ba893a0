package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
)

// The files in a server's folder that say where it is, while it runs, and where
// it was the last time.
const (
	addressFile = "address.json"
	lastFile    = "last.json"
)

// Address is where a running server is, and the token that it wants.
type Address struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	PID   int    `json:"pid"`
}

// WriteAddress puts the address into the folder, readable by its owner only, so
// that other processes of this user find the server. Shutdown removes it. A
// copy stays, for [Config.Same].
func (s *Server) WriteAddress() error {
	b, err := json.Marshal(Address{URL: s.ClientURL(), Token: s.Token(), PID: os.Getpid()})
	if err != nil {
		return err
	}
	return errors.Join(s.write(lastFile, b), s.write(addressFile, b))
}

func (s *Server) write(name string, b []byte) error {
	path := filepath.Join(s.cfg.Dir, name)
	tmp := path + ".new"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("address of the server: %w", err)
	}
	if err := os.Chmod(tmp, 0o600); err != nil {
		return fmt.Errorf("address of the server: %w", err)
	}
	return os.Rename(tmp, path)
}

func (s *Server) removeAddress() error {
	err := os.Remove(filepath.Join(s.cfg.Dir, addressFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReadAddress finds the server of a folder. An error that is fs.ErrNotExist
// means that none runs there, or that it wrote no address.
func ReadAddress(dir string) (Address, error) { return readAddress(dir, addressFile) }

// asLast takes over the port and the token of the last time, where they are
// left open, there was one, and the port is free.
func (c Config) asLast() Config {
	a, err := readAddress(c.Dir, lastFile)
	if err != nil || !c.Same {
		return c
	}
	if c.Token == "" {
		c.Token = a.Token
	}
	if u, err := url.Parse(a.URL); err == nil && c.Port == 0 {
		if port, err := strconv.Atoi(u.Port()); err == nil && checkPort(port) == nil {
			c.Port = port
		}
	}
	return c
}

func readAddress(dir, name string) (Address, error) {
	var a Address
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("%s in %s is not the address of a server: %.200s", name, dir, err.Error())
	}
	if a.URL == "" {
		return a, fmt.Errorf("%s in %s holds no url", name, dir)
	}
	return a, nil
}
