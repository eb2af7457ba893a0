//go:build linux

package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// measure is one thing that is measured of one process or stream.
type measure struct{ of, what string }

// What is measured.
const (
	rss        = "rss"        // resident memory, in bytes
	heap       = "heap"       // what the last collection of garbage left, in bytes
	goroutines = "goroutines" // in number, as the next
	files      = "files"      // open descriptors
	messages   = "messages"   // in a stream, without those that wait to be worked on
	size       = "bytes"      // the same, as the broker counts them
	consumers  = "consumers"  // of a stream
	disk       = "disk"       // bytes of all the broker's files
)

// sampler reads what processes and broker say of themselves.
type sampler struct {
	http    *http.Client
	pages   map[string]string // address of the metrics of a service, by name
	monitor string            // address of the broker's monitoring
	profile string            // address of its profiles
	store   string            // folder of its files
	series  map[measure][]Point
}

func newSampler(pages map[string]string, monitor, profile, store string) *sampler {
	return &sampler{http: &http.Client{Timeout: 5 * time.Second}, pages: pages, monitor: monitor, profile: profile, store: store, series: make(map[measure][]Point)}
}

// sample measures everything once. What does not answer, since it is dead or
// frozen, is left out.
func (s *sampler) sample(ctx context.Context, began time.Time, pids map[string]int) error {
	note := func(of, what string, v float64) {
		m := measure{of, what}
		s.series[m] = append(s.series[m], Point{At: time.Since(began), Value: v})
	}
	var errs []error
	for name, pid := range pids {
		if err := s.process(name, pid, note); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		if err := s.goProcess(ctx, name, note); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	if err := s.streams(ctx, note); err != nil {
		errs = append(errs, err)
	}
	used, err := filesIn(s.store)
	if err == nil {
		note("store", disk, used)
	}
	return errors.Join(append(errs, err)...)
}

// process reads /proc.
func (s *sampler) process(name string, pid int, note func(string, string, float64)) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return fmt.Errorf("statm says %q", b)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return err
	}
	if pages > 0 { // else it has ended, and nobody has taken notice yet
		note(name, rss, pages*float64(os.Getpagesize()))
		note(name, files, float64(len(open)))
	}
	return nil
}

// goProcess asks a service, or the broker, for what Go counts. The witness
// tells nothing.
func (s *sampler) goProcess(ctx context.Context, name string, note func(string, string, float64)) error {
	if page, ok := s.pages[name]; ok {
		return s.lines(ctx, "http://"+page+"/metrics", map[string]func(float64){
			"go_gc_heap_live_bytes ": func(v float64) { note(name, heap, v) },
			"go_goroutines ":         func(v float64) { note(name, goroutines, v) },
		})
	}
	if name != broker {
		return nil
	}
	return errors.Join(
		s.lines(ctx, "http://"+s.profile+"/debug/pprof/goroutine?debug=1", map[string]func(float64){
			"goroutine profile: total ": func(v float64) { note(name, goroutines, v) },
		}),
		s.lines(ctx, "http://"+s.profile+"/debug/pprof/heap?debug=1&gc=1", map[string]func(float64){ // it collects first
			"# HeapAlloc = ": func(v float64) { note(name, heap, v) },
		}))
}

// lines reads a page of text and gives the number behind each beginning of a line.
func (s *sampler) lines(ctx context.Context, url string, take map[string]func(float64)) error {
	body, err := s.get(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	found := 0
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for begins, f := range take {
			if rest, ok := strings.CutPrefix(lines.Text(), begins); ok {
				v, err := strconv.ParseFloat(rest, 64)
				if err != nil {
					return err
				}
				f(v)
				found++
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if found != len(take) {
		return fmt.Errorf("%s says %d of %d things", url, found, len(take))
	}
	return nil
}

func (s *sampler) get(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("%s: %s", url, res.Status)
	}
	return res.Body, nil
}

// streams asks the broker what each stream holds.
func (s *sampler) streams(ctx context.Context, note func(string, string, float64)) error {
	body, err := s.get(ctx, "http://"+s.monitor+"/jsz?streams=1")
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	var said struct {
		Accounts []struct {
			Streams []struct {
				Name  string `json:"name"`
				State struct {
					Messages  float64 `json:"messages"`
					Bytes     float64 `json:"bytes"`
					Consumers float64 `json:"consumer_count"`
				} `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.NewDecoder(body).Decode(&said); err != nil {
		return fmt.Errorf("what the broker says of its streams: %w", err)
	}
	for _, a := range said.Accounts {
		for _, st := range a.Streams {
			note(st.Name, messages, st.State.Messages)
			note(st.Name, size, st.State.Bytes)
			note(st.Name, consumers, st.State.Consumers)
		}
	}
	return nil
}

// filesIn adds up the sizes of the files below a folder, whatever goes meanwhile.
func filesIn(dir string) (sum float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil {
			sum += float64(info.Size())
		}
		return nil
	})
	return sum, err
}
