//go:build unix

package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Effect is what happened outside, whatever the pool says: a line of the
// witness's file.
type Effect struct {
	Call     string    `json:"call"`
	Dispatch int       `json:"dispatch"`
	Attempt  int       `json:"attempt"`
	Tool     string    `json:"tool"`
	Key      string    `json:"key"`
	Worker   string    `json:"worker"`
	At       time.Time `json:"at"`
}

// serveWitness appends what it is told to a file until ctx is done. It says on
// out where it listens.
func serveWitness(ctx context.Context, file string, out io.Writer) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	var mu sync.Mutex
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := f.Write(append(b, '\n')); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	if _, err := fmt.Fprintln(out, lis.Addr()); err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	_ = s.Serve(lis) // ends with ctx
	return f.Close()
}

// readWitness reads the file of a witness.
func readWitness(file string) ([]Effect, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var out []Effect
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e Effect
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("witness: line %d: %w", len(out)+1, err)
		}
		out = append(out, e)
	}
	return out, lines.Err()
}
