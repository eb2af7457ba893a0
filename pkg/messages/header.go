package messages

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Header holds the headers of a message, with the keys exactly as on the wire.
type Header map[string][]string

// Get returns the first value of key, or "".
func (h Header) Get(key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// headers is a Header in the making. A map of slices costs an allocation for
// each value; here all values share one.
type headers struct {
	Header
	values []string
}

func newHeaders() *headers {
	const usual = 12 // what a message without rarities has at most
	return &headers{Header: make(Header, usual), values: make([]string, 0, usual)}
}

// Set is [Header.Set].
func (h *headers) Set(key, value string) {
	h.values = append(h.values, value)
	n := len(h.values)
	h.Header[key] = h.values[n-1 : n : n]
}

// Set replaces the values of key.
func (h Header) Set(key, value string) { h[key] = []string{value} }

// Header names. Values that can hold any text are JSON strings (see docs/wire.md).
const (
	HeaderVersion      = "Mulligan-Version"
	HeaderCall         = "Mulligan-Call"
	HeaderRef          = "Mulligan-Ref" // JSON string
	HeaderRun          = "Mulligan-Run" // token
	HeaderAttempt      = "Mulligan-Attempt"
	HeaderDispatch     = "Mulligan-Dispatch"
	HeaderTool         = "Mulligan-Tool" // JSON string
	HeaderOriginalTool = "Mulligan-Original-Tool"
	HeaderQueue        = "Mulligan-Queue" // JSON string
	HeaderLane         = "Mulligan-Lane"
	HeaderEffect       = "Mulligan-Effect"
	HeaderKey          = "Mulligan-Key"
	HeaderTimeout      = "Mulligan-Timeout-Ms"
	HeaderDeadline     = "Mulligan-Deadline"
	HeaderTask         = "Mulligan-Task"     // JSON string, at most MaxTaskHeader bytes
	HeaderTaskRef      = "Mulligan-Task-Ref" // payload reference
	HeaderLabels       = "Mulligan-Labels"   // JSON object of strings
	HeaderAmbiguous    = "Mulligan-Ambiguous"
	HeaderRecoveredBy  = "Mulligan-Recovered-By" // JSON string
	HeaderRepeat       = "Mulligan-Repeat"
	HeaderProbe        = "Mulligan-Probe"
	HeaderPolicy       = "Mulligan-Policy"  // JSON object in ASCII
	HeaderPayload      = "Mulligan-Payload" // payload reference of the body
	HeaderTrace        = "traceparent"

	HeaderStatus   = "Mulligan-Status"
	HeaderCode     = "Mulligan-Code"
	HeaderIsError  = "Mulligan-Is-Error"
	HeaderReason   = "Mulligan-Reason"   // JSON string
	HeaderGuidance = "Mulligan-Guidance" // JSON string
	HeaderAttempts = "Mulligan-Attempts"
	HeaderDuration = "Mulligan-Duration-Ms"
	HeaderWorker   = "Mulligan-Worker" // JSON string
	HeaderEnded    = "Mulligan-Ended"
)

// Version is the version of the wire that this package writes and reads. It
// changes only when a reader of the old one would misunderstand; headers and
// fields are added without a new version, and a reader ignores those that it
// does not know (docs/wire.md, versions).
const Version = "1"

// VersionError says that a message or body is of another version of the wire.
type VersionError struct {
	What    string // and where it stands in it, for people
	Version string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s %q; this build reads version %s", e.What, truncateText(e.Version, 20), Version)
}

func setText(h *headers, key, v string) {
	if v != "" {
		h.Set(key, quoteHeader(v))
	}
}

// quoteHeader writes a JSON string of printable ASCII only, so that no header
// line can be split and no client has to guess a character set.
func quoteHeader(v string) string {
	if quotedSize(v) == len(v)+2 {
		return `"` + v + `"`
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range v {
		switch runeSize(r) {
		case 1:
			out.WriteRune(r)
		case 2:
			out.WriteByte('\\')
			out.WriteRune(r)
		case 6:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// runeSize is what r takes in a header: itself, a backslash before it, one
// escape, or a pair of them.
func runeSize(r rune) int {
	switch {
	case r == '"' || r == '\\':
		return 2
	case r >= ' ' && r <= '~':
		return 1
	case r > 0xffff:
		return 12
	}
	return 6
}

// quotedSize is the length of quoteHeader(v).
func quotedSize(v string) int {
	n := 2
	for _, r := range v {
		n += runeSize(r)
	}
	return n
}

// fit cuts v to the longest start whose encoded form, with its quotes, takes
// at most limit bytes; size says what a rune takes.
func fit(v string, limit int, size func(rune) int) string {
	n := 2
	for i, r := range v {
		if n += size(r); n > limit {
			return v[:i]
		}
	}
	return v
}

// fitEnd is fit for the longest end.
func fitEnd(v string, limit int, size func(rune) int) string {
	n, at := 2, len(v)
	for at > 0 {
		r, width := utf8.DecodeLastRuneInString(v[:at])
		if n += size(r); n > limit {
			break
		}
		at -= width
	}
	return v[at:]
}

// TaskInHeader says whether a task text travels in a header; a longer one
// goes into PAYLOADS, with [Call.TaskRef] in its place.
func TaskInHeader(task string) bool { return quotedSize(task) <= MaxTaskHeader }

func (l Labels) header() string {
	var out strings.Builder
	for i, k := range slices.Sorted(maps.Keys(l)) {
		out.WriteByte("{,"[min(i, 1)])
		out.WriteString(quoteHeader(k) + ":" + quoteHeader(l[k]))
	}
	out.WriteByte('}')
	return out.String()
}

// HeaderSize is what the headers take on the wire, in bytes.
func (m Message) HeaderSize() int {
	n := len("NATS/1.0\r\n\r\n")
	for k, vs := range m.Header {
		for _, v := range vs {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return n
}

// CheckHeaders tells that the headers of a call are longer than [MaxHeaders],
// and which one is the longest: the one to shorten.
func CheckHeaders(m Message) error {
	size := m.HeaderSize()
	if size <= MaxHeaders {
		return nil
	}
	longest, most := "", -1
	for _, k := range slices.Sorted(maps.Keys(m.Header)) {
		if n := len(m.Header.Get(k)); n > most {
			longest, most = k, n
		}
	}
	return fmt.Errorf("headers take %d bytes, the limit is %d; the longest is %s with %d: %w", size, MaxHeaders, longest, most, ErrTooLarge)
}

func getText(h Header, key string) (string, error) {
	v := h.Get(key)
	if v == "" {
		return "", nil
	}
	if plain, ok := unquotePlain(v); ok {
		return plain, nil
	}
	var s string
	if err := json.Unmarshal([]byte(v), &s); err != nil {
		return "", fmt.Errorf("header %s: %q is not a JSON string", key, truncateText(v, 80))
	}
	return s, nil
}

// unquotePlain reads a JSON string that says every character as itself, which
// almost all do; the parser would cost several microseconds a call.
func unquotePlain(v string) (string, bool) {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return "", false
	}
	v = v[1 : len(v)-1]
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return "", false
		}
	}
	return v, true
}

func setInt(h *headers, key string, v int64) { h.Set(key, strconv.FormatInt(v, 10)) }

func getInt(h Header, key string, most int64) (int64, error) {
	v := h.Get(key)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("header %s: %q is not a whole number from 0 to %d", key, truncateText(v, 40), most)
	}
	return n, nil
}

func setTime(h *headers, key string, t time.Time) {
	if !t.IsZero() {
		h.Set(key, t.UTC().Format(time.RFC3339Nano))
	}
}

func getTime(h Header, key string) (time.Time, error) {
	v := h.Get(key)
	if v == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil || !writable(t) {
		return time.Time{}, fmt.Errorf("header %s: %q is not a time of RFC 3339", key, truncateText(v, 40))
	}
	return t.UTC(), nil
}

// writable: RFC 3339 has years of four digits, and an offset can lead out of them.
func writable(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 0 && year <= 9999
}

func checkVersion(h Header) error {
	if v := h.Get(HeaderVersion); v != Version {
		return &VersionError{What: "header " + HeaderVersion + ":", Version: v}
	}
	return nil
}
