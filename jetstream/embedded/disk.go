package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// ErrLowDisk says that the disk of the store has less space than MinFree.
var ErrLowDisk = errors.New("the disk is nearly full")

func lowDisk(dir string, free, min int64) error {
	return fmt.Errorf("%w: %d MiB free at %s, %d needed; free some, or keep the state on another disk", ErrLowDisk, free>>20, dir, min>>20)
}

// diskWatch looks at the free space now and then.
type diskWatch struct {
	cfg  Config
	quit chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	free func(path string) (int64, error)
	err  error
}

func watchDisk(cfg Config) *diskWatch {
	w := &diskWatch{cfg: cfg, quit: make(chan struct{}), free: freeBytes}
	if cfg.MinFree >= 0 {
		w.done.Go(w.run)
	}
	return w
}

func (w *diskWatch) run() {
	tick := time.NewTicker(w.cfg.DiskCheck)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
			w.look()
		}
	}
}

func (w *diskWatch) look() {
	w.mu.Lock()
	look := w.free
	w.mu.Unlock()
	free, err := look(w.cfg.Dir)
	if err == nil && free < w.cfg.MinFree {
		err = lowDisk(w.cfg.Dir, free, w.cfg.MinFree)
	}
	w.mu.Lock()
	changed := (w.err == nil) != (err == nil)
	w.err = err
	w.mu.Unlock()
	if !changed {
		return
	}
	if err != nil {
		w.cfg.Log.Error("the embedded server's disk", "error", err)
	} else {
		w.cfg.Log.Info("the embedded server's disk has room again")
	}
	if w.cfg.OnLowDisk != nil {
		w.cfg.OnLowDisk(err)
	}
}

func (w *diskWatch) get() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *diskWatch) stop() {
	close(w.quit)
	w.done.Wait()
}

// sizeOf is what the files under dir take, in bytes.
func sizeOf(dir string) (int64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
