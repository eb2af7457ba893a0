package llm

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"sync"
	"time"
)

// manner is how an endpoint and its model want to be asked. The zero value is
// what is tried first.
type manner struct {
	format           format
	noTemperature    bool
	completionTokens bool // max_completion_tokens in place of max_tokens
	noSystem         bool // the system prompt goes into the user message
}

// after is how to ask once the endpoint has refused this manner with these
// words; false when they are about something else, or nothing is left to try.
func (m manner) after(status int, text, param string) (manner, bool) {
	switch status {
	case 400, 404, 415, 422, 500, 501:
	default:
		return m, false
	}
	about := strings.ToLower(param)
	if about == "" {
		about = strings.ToLower(text)
	}
	said := strings.ToLower(text)
	switch {
	case mentions(about, "response_format", "response format", "json_schema", "json schema", "json_object", "json mode", "structured output", "guided", "grammar"):
		return m.lower()
	case mentions(about, "temperature") && !m.noTemperature:
		m.noTemperature = true
	case mentions(about, "max_tokens", "max_completion_tokens") && !m.completionTokens && mentions(said, "unsupported", "not supported", "use 'max_completion_tokens'", "max_completion_tokens", "unknown", "unrecognized"):
		m.completionTokens = true
	case mentions(said, "'system'", "system role", "system message", "role system", "system prompt", `"system"`) && !m.noSystem:
		m.noSystem = true
	case param == "" && mentions(said, "unsupported parameter", "unsupported field", "unknown parameter", "unknown field", "unrecognized", "extra inputs", "extra fields", "additional properties are not allowed"):
		return m.lower()
	default:
		return m, false
	}
	return m, true
}

func (m manner) lower() (manner, bool) {
	if m.format == plain {
		return m, false
	}
	m.format++
	return m, true
}

// forgetAfter is how long a manner is kept: endpoints learn. Then the strictest
// is tried again.
const forgetAfter = time.Hour

// mostSchemas bounds the schemas of tools that are remembered as refused; they
// are forgotten all at once.
const mostSchemas = 1024

// manners remembers how the endpoint took the last question. Only what worked is
// remembered. It may be used concurrently.
type manners struct {
	mu      sync.Mutex
	known   manner
	since   time.Time
	refused map[[sha256.Size]byte]bool // schemas of tools that cannot be embedded here
}

// forQuestion is how to ask this question first.
func (ms *manners) forQuestion(q *question) manner {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if !ms.since.IsZero() && time.Since(ms.since) > forgetAfter {
		ms.known, ms.since = manner{}, time.Time{}
		clear(ms.refused)
	}
	m := ms.known
	if m.format == embedded && (q.strict == nil || ms.refused[schemaID(q.c.Schema)]) {
		m.format = fixed
	}
	return m
}

// took remembers that a question was taken in this manner. Where only the schema
// of the tool was in the way, other tools are still asked about with theirs.
func (ms *manners) took(q *question, m manner) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m.format == fixed && ms.known.format == embedded {
		if q.strict != nil {
			if ms.refused == nil || len(ms.refused) >= mostSchemas {
				ms.refused = make(map[[sha256.Size]byte]bool)
			}
			ms.refused[schemaID(q.c.Schema)] = true
		}
		m.format = embedded
	}
	if m != ms.known || ms.since.IsZero() {
		ms.known, ms.since = m, time.Now()
	}
}

func schemaID(schema json.RawMessage) [sha256.Size]byte { return sha256.Sum256(schema) }
