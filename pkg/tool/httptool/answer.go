package httptool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/declared"
)

// meaning is the declared rule of a status, or the default one.
func (p *plan) meaning(status int) declared.Rule {
	if rule, ok := p.Status[status]; ok {
		return rule
	}
	return declared.Rule{Outcome: ByStatus(status)}
}

// ByStatus is what a status of HTTP means where nothing else is said: what is
// refused before it begins did nothing; a server that failed on the way, or a
// gateway that lost it, may have done some of it.
func ByStatus(status int) declared.Outcome {
	switch {
	case status >= 200 && status < 300:
		return declared.Success
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return declared.Invalid
	case status == http.StatusTooManyRequests:
		return declared.RateLimited
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusServiceUnavailable:
		return declared.Unavailable
	case status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported:
		return declared.Ambiguous
	}
	return declared.Definite
}

func (r *runner) answer(ctx context.Context, response *http.Response) (tool.Output, error) {
	rule := r.meaning(response.StatusCode)
	if rule.Outcome != declared.Success {
		// The status has said how it ended, so what is lost of the rest does not matter.
		body, over, _ := read(response.Body, messages.MaxErrorText)
		return tool.Output{}, fail(rule, response, body, over)
	}
	body, over, err := read(response.Body, r.most)
	switch {
	case over:
		return tool.Output{}, &tool.Failure{
			Code: messages.CodeOutputTooLarge, Ambiguous: true,
			Text: fmt.Sprintf("Tool %q answered with more than %d bytes; ask it for less", r.name, r.most),
		}
	case err != nil && ctx.Err() != nil:
		return tool.Output{}, context.Cause(ctx)
	case err != nil:
		return tool.Output{}, tool.ConnectionLost(fmt.Errorf("Tool %q lost a part of the answer: %w", r.name, err))
	}
	return tool.Output{Body: content(response.Header.Get("Content-Type"), body)}, nil
}

// read gives up to most bytes; over says that there are more.
func read(from io.Reader, most int) (body []byte, over bool, err error) {
	body, err = io.ReadAll(io.LimitReader(from, int64(most)+1))
	if len(body) > most {
		return body[:most], true, nil
	}
	return body, false, err
}

func fail(rule declared.Rule, response *http.Response, body []byte, over bool) error {
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", response.StatusCode, http.StatusText(response.StatusCode)))
	said := words(response.Header.Get("Content-Type"), body)
	if to := response.Header.Get("Location"); said == "" && to != "" && response.StatusCode < 400 {
		said = "it leads to " + strings.ToValidUTF8(to[:min(len(to), 200)], "\uFFFD") + ", which is not followed"
	}
	if said != "" {
		text += ": " + said
	}
	if over {
		text += " … (the rest is cut)"
	}
	hint := RetryAfter(response.Header, time.Now())
	rule.After = max(rule.After, hint)
	err := rule.Apply(errors.New(text))
	if hint > 0 && (rule.Outcome == declared.Definite || rule.Outcome == declared.Ambiguous) {
		return tool.RetryAfter(err, hint, false)
	}
	return err
}

// maxWait is the longest hint that is believed.
const maxWait = 24 * time.Hour

// RetryAfter reads the header of that name, in seconds or as a date; 0 for none. A date is
// taken against the server's own clock, if it tells.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(maxWait/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxWait)
}

// content is the output of a response: a text in UTF-8, or for anything else
// what it is.
func content(header string, body []byte) []byte {
	kind, parameters, err := mime.ParseMediaType(header)
	if err != nil {
		kind, parameters = "application/octet-stream", nil
	}
	if len(body) == 0 || textual(kind) || err != nil && utf8.Valid(body) {
		return []byte(strings.ToValidUTF8(string(decode(parameters["charset"], body)), "\uFFFD"))
	}
	sum := sha256.Sum256(body)
	described, _ := json.Marshal(struct { //nolint:errchkjson // of texts and a number
		Type   string `json:"content_type"`
		Bytes  int    `json:"bytes"`
		SHA256 string `json:"sha256"`
	}{kind[:min(len(kind), 100)], len(body), hex.EncodeToString(sum[:])})
	return described
}

func textual(kind string) bool {
	base, sub, _ := strings.Cut(kind, "/")
	if base == "text" || strings.HasSuffix(sub, "+json") || strings.HasSuffix(sub, "+xml") || strings.HasSuffix(sub, "+yaml") {
		return true
	}
	switch sub {
	case "json", "xml", "yaml", "x-yaml", "javascript", "x-ndjson", "jsonl", "x-www-form-urlencoded", "graphql", "toml", "sql":
		return base == "application"
	}
	return false
}

// decode gives UTF-8, and leaves alone what it cannot.
func decode(charset string, body []byte) []byte {
	if charset == "" {
		return body
	}
	e, err := htmlindex.Get(charset)
	if err != nil {
		return body
	}
	text, err := e.NewDecoder().Bytes(body)
	if err != nil {
		return body
	}
	return text
}

// words are what a failing response says: of a problem (RFC 9457) its title,
// its detail and what else it has, of anything else its content.
func words(header string, body []byte) string {
	said := strings.TrimSpace(string(content(header, body)))
	kind, _, _ := mime.ParseMediaType(header) // what cannot be read is no problem
	var problem map[string]any
	if kind != "application/problem+json" || json.Unmarshal([]byte(said), &problem) != nil {
		return said
	}
	var out []string
	for _, member := range []string{"title", "detail"} {
		if text, ok := problem[member].(string); ok && text != "" {
			out = append(out, text)
		}
	}
	for _, member := range []string{"title", "detail", "type", "status", "instance"} {
		delete(problem, member)
	}
	if rest, err := json.Marshal(problem); err == nil && len(problem) > 0 {
		out = append(out, string(rest))
	}
	if len(out) == 0 {
		return said
	}
	return strings.Join(out, ": ")
}
