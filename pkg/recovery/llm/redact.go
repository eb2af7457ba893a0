package llm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mulligan/internal/form"
	"mulligan/internal/secrets"
)

// secretKeys are words of parameters whose values are secrets, folded.
var secretKeys = []string{
	"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "secretkey", "signingkey", "credential", "authorization",
	"token", "bearer", "cookie", "sessionid", "connectionstring",
}

// shortKeys are secret only as a whole name.
var shortKeys = []string{"pwd", "pass", "auth", "pin", "cvv", "cvc", "otp", "jwt"}

// redactor knows what must not leave.
type redactor struct {
	finder *secrets.Finder
	keys   []string // of the configuration, folded; a whole name
}

func newRedactor(cfg Config) (*redactor, error) {
	finder, err := secrets.NewFinder(cfg.Redact, cfg.Key)
	if err != nil {
		return nil, err
	}
	r := &redactor{finder: finder}
	for _, k := range cfg.RedactKeys {
		r.keys = append(r.keys, form.Fold(k))
	}
	return r, nil
}

// secretKey says whether a parameter of this name holds a secret. Names in the
// plural count things: max_tokens is none.
func (r *redactor) secretKey(name string) bool {
	f := form.Fold(name)
	if slices.Contains(r.keys, f) || slices.Contains(shortKeys, f) {
		return true
	}
	return slices.ContainsFunc(secretKeys, func(w string) bool {
		i := strings.Index(f, w)
		return i >= 0 && (w != "token" || !strings.HasPrefix(f[i+len(w):], "s") && !strings.HasPrefix(f[i+len(w):], "iz"))
	})
}

// withheld is what one question keeps from the model, and what stands for it.
type withheld struct {
	*redactor
	tag    string            // new for each question, so that no text can forge a placeholder
	names  map[string]string // placeholders by value
	values []string          // of names, in their order
	places map[string]place  // of the input, by path
}

// place is a value of the input that was changed before it was shown.
type place struct{ was, shown any }

func (r *redactor) withhold(tag string) *withheld {
	return &withheld{redactor: r, tag: tag, names: make(map[string]string), places: make(map[string]place)}
}

func (w *withheld) placeholder(value string) string {
	if w.names[value] == "" {
		w.names[value] = fmt.Sprintf("[withheld-%d-%s]", len(w.names)+1, w.tag)
		w.values = append(w.values, value)
	}
	return w.names[value]
}

// learn finds the values of an input that stand under secret names, so that
// they are withheld in every text.
func (w *withheld) learn(v any, secret bool) {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			w.learn(x[k], secret || w.secretKey(k))
		}
	case []any:
		for _, e := range x {
			w.learn(e, secret)
		}
	case string:
		if secret && x != "" {
			w.placeholder(x)
		}
	case json.Number:
		if secret {
			w.placeholder(x.String())
		}
	}
}

// input is the input as it is shown; it remembers what was changed where.
func (w *withheld) input(v any, path string, secret bool) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[w.text(k)] = w.input(e, path+"/"+escape(k), secret || w.secretKey(k))
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = w.input(e, fmt.Sprintf("%s/%d", path, i), secret)
		}
		return out
	case string:
		shown := w.text(x)
		if secret && x != "" {
			shown = w.placeholder(x)
		}
		return w.remember(path, x, shown)
	case json.Number:
		if secret {
			return w.remember(path, x, w.placeholder(x.String()))
		}
	}
	return v
}

func (w *withheld) remember(path string, was, shown any) any {
	if was != shown {
		w.places[path] = place{was: was, shown: shown}
	}
	return shown
}

// text is a text without secrets.
func (w *withheld) text(s string) string {
	return secrets.Replace(s, w.finder.Find(s, w.values...), w.placeholder)
}

// restore puts withheld values back into a proposed input: only where the very
// place of the input holds what was shown of it. Anywhere else a placeholder
// would carry a secret to where it was not (ok is false), by mistake or because
// a tool's text asked for it.
func (w *withheld) restore(v any, path string) (out any, ok bool) {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if strings.Contains(k, w.tag) {
				return nil, false
			}
			if x[k], ok = w.restore(e, path+"/"+escape(k)); !ok {
				return nil, false
			}
		}
	case []any:
		for i, e := range x {
			if x[i], ok = w.restore(e, fmt.Sprintf("%s/%d", path, i)); !ok {
				return nil, false
			}
		}
	case string:
		if p, known := w.places[path]; known && p.shown == x {
			return p.was, true
		}
		return x, !strings.Contains(x, w.tag) && !strings.Contains(strings.ToLower(x), "[withheld-")
	}
	return v, true
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
