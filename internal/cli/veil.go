package cli

import (
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"

	"mulligan/internal/secrets"
)

// veil is standard error without secrets: what this process was given as one,
// what matches a pattern that it was given, and what looks like one. Everything
// that is logged or said goes through it, a whole line at a time.
type veil struct {
	w io.Writer

	mu       sync.Mutex
	finder   *secrets.Finder
	patterns []string
	texts    []string
}

func (v *veil) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, err := io.WriteString(v.w, v.finder.Hide(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// over is another writer without the same secrets; a whole text at a time.
func (v *veil) over(w io.Writer) io.Writer {
	if v == nil {
		return &veil{w: w}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return &veil{w: w, finder: v.finder}
}

// withhold keeps texts from being shown from here on, also as they stand in
// JSON and in addresses.
func (v *veil) withhold(texts ...string) {
	var all []string
	for _, t := range texts {
		t = strings.TrimSpace(t)
		all = append(all, t, url.QueryEscape(t), url.PathEscape(t))
		if quoted, err := json.Marshal(t); err == nil {
			all = append(all, strings.Trim(string(quoted), `"`))
		}
	}
	_ = v.know(nil, all) // texts compile
}

// withholdLike keeps what matches patterns from being shown.
func (v *veil) withholdLike(patterns []string) error { return v.know(patterns, nil) }

func (v *veil) know(patterns, texts []string) error {
	if v == nil { // nothing is written
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	p, t := slices.Concat(v.patterns, patterns), slices.Concat(v.texts, texts)
	f, err := secrets.NewFinder(p, t...)
	if err != nil {
		return err
	}
	v.finder, v.patterns, v.texts = f, p, t
	return nil
}

// ofAddress are the user and the password in addresses that are separated by
// commas, as far as they can be told.
func ofAddress(list string) []string {
	var out []string
	for address := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || u.User == nil {
			continue
		}
		password, has := u.User.Password()
		if !has {
			password = u.User.Username() // a token
		}
		out = append(out, password)
	}
	return out
}
