package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// wish is what a request wants about waiting (RFC 7240).
type wish struct {
	wait  time.Duration
	async bool // respond-async
}

// wish reads Prefer: wait=N and respond-async, or the parameter wait; unsaid is
// what holds without a word. A wait above the limit is cut to it, which the
// answer says.
func (x *exchange) wish(unsaid time.Duration) (wish, error) {
	w := wish{wait: min(unsaid, x.g.cfg.Limits.Wait)}
	said := ""
	for _, header := range x.r.Header.Values("Prefer") {
		for p := range strings.SplitSeq(header, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
			switch strings.ToLower(name) {
			case "wait":
				said = strings.Trim(value, `"`)
			case "respond-async":
				w.async = true
			}
		}
	}
	if q := x.r.URL.Query(); q.Has("wait") {
		said = q.Get("wait")
	}
	if said != "" || x.r.URL.Query().Has("wait") {
		n, err := strconv.ParseUint(said, 10, 31)
		if err != nil {
			return w, fail(http.StatusBadRequest, codeBadParameter, "wait is no whole number of seconds; give one such as 30, or 0 for no wait").about("wait", said)
		}
		w.wait = min(time.Duration(n)*time.Second, x.g.cfg.Limits.Wait)
		x.Header().Add("Preference-Applied", fmt.Sprintf("wait=%d", int(w.wait/time.Second)))
	}
	if w.async {
		x.Header().Add("Preference-Applied", "respond-async")
	}
	return w, nil
}

// parameters refuses a parameter that is none of these: a typing error must not
// become a default.
func (x *exchange) parameters(known ...string) error {
next:
	for name, values := range x.r.URL.Query() {
		for _, k := range known {
			if name == k && len(values) == 1 {
				continue next
			}
		}
		if len(known) == 0 {
			return fail(http.StatusBadRequest, codeBadParameter, "this path takes no parameters").about(name, values[0])
		}
		return fail(http.StatusBadRequest, codeBadParameter, "the parameter is not known here, or given twice; known are %s", strings.Join(known, ", ")).about(name, values[0])
	}
	return nil
}
