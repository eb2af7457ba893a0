package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mulligan/internal/form"
	"mulligan/internal/fuzztest"
)

// What stands under the name of a secret, or looks like one, is not shown, in
// the input and in what was said about it; and what a model gives back
// untouched becomes the input again.
func FuzzRedact(f *testing.F) {
	f.Add(`{"user":"ada","password":"hunter22","nested":{"api_key":["k-123456",7],"note":"password=hunter22"}}`, "login of ada with hunter22 failed")
	f.Add(`{"text":"Authorization: Bearer abc.DEF-ghi_123"}`, "sent bearer 0123456789abcdef and got 401")
	f.Add(`{"a/b~":{"token":"[withheld-1-tag]"},"pwd":"tag"}`, "[withheld-1-tag]")
	var many strings.Builder
	for i := range 1600 {
		fmt.Fprintf(&many, `"s%05d",`, i)
	}
	f.Add(`{"password":[`+many.String()+`""]}`, "x")
	f.Fuzz(func(t *testing.T, input, said string) {
		v, err := form.Decode([]byte(input))
		if err != nil || len(input) > maxShownInput { // a longer one is not shown
			return
		}
		r, err := newRedactor(Config{})
		if err != nil {
			t.Fatal(err)
		}
		fuzztest.Bounded(t, len(input)+len(said), func() {
			w := r.withhold("0123456789abcdef")
			w.learn(v, false)
			shown := w.input(form.Copy(v), "", false)
			text := w.text(said)
			if len(text) > 40*len(said)+40 {
				t.Fatalf("%d bytes became %d", len(said), len(text))
			}
			for _, secret := range secretsIn(r, v, false) {
				if strings.Contains(strings.NewReplacer(placeholders(w)...).Replace(text), secret) {
					t.Fatalf("%q is shown of %q in %q", secret, said, text)
				}
			}
			if strings.Contains(input, w.tag) || strings.Contains(strings.ToLower(input), "[withheld-") || renamed(w, v) {
				return // a text that forges placeholders is refused, and names are never put back
			}
			back, ok := w.restore(form.Copy(shown), "")
			if !ok || !form.Equal(back, v) {
				t.Fatalf("%v was shown as %v and came back as %v, %t", v, shown, back, ok)
			}
		})
	})
}

// placeholders are pairs of what is shown for a secret and nothing, since what
// stands around two of them says nothing.
func placeholders(w *withheld) []string {
	var pairs []string
	for _, name := range w.names {
		pairs = append(pairs, name, "\n")
	}
	return pairs
}

// lookedFor is the length from which a secret is looked for in texts.
const lookedFor = 4

// secretsIn are the values under secret names that are long enough to be looked
// for in texts.
func secretsIn(r *redactor, v any, secret bool) []string {
	var out []string
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			out = append(out, secretsIn(r, e, secret || r.secretKey(k))...)
		}
	case []any:
		for _, e := range x {
			out = append(out, secretsIn(r, e, secret)...)
		}
	case string:
		if secret && len(x) >= lookedFor {
			out = append(out, x)
		}
	case json.Number:
		if secret && len(x) >= lookedFor {
			out = append(out, string(x))
		}
	}
	return out[:min(len(out), 100)]
}

// renamed: a name that looks like a secret is withheld too.
func renamed(w *withheld, v any) bool {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if w.text(k) != k || renamed(w, e) {
				return true
			}
		}
	case []any:
		for _, e := range x {
			if renamed(w, e) {
				return true
			}
		}
	}
	return false
}

// However an endpoint says when to come back, it is a time from now on.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"3", "0.5", "-1", "NaN", "Inf", "1e300", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", ""} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, ms, text string) {
		h := http.Header{"Retry-After-Ms": {ms}, "Retry-After": {text}}
		if d := retryAfter(h, time.Unix(1e9, 0)); d < 0 {
			t.Fatalf("%q, %q: %v", ms, text, d)
		}
	})
}
