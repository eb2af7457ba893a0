// Package secrets finds what must not be shown in texts that are: logs, errors,
// stories, what a model is asked. Every function is pure.
package secrets

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// looks are what secrets look like, wherever they stand. Of a pattern with
// groups only the first that matches is withheld, so that a reader still sees what it was.
var looks = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), // JSON web token
	regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})`),
	regexp.MustCompile(`\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[0-9A-Z]{16}\b`),
	regexp.MustCompile(`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}`),
	regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}`),
	regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bAIza[0-9A-Za-z_-]{30,}`),
	regexp.MustCompile(`\bS[ACNOUX][A-Z2-7]{56}\b`),                           // seed of an nkey
	regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]{1,20}://([^/\s"'\\]{1,200})@`), // the user of an address; a password may hold @
	regexp.MustCompile(`(?i)\bcookie:\s*([^\s"'=;,]+=[^\r\n"\\]{4,})`),
	regexp.MustCompile(`(?i)\bauthorization:\s*(?:token|apikey|digest|negotiate|aws4-hmac-sha256)\s+([^\r\n"\\]{8,})`),
	// bare, in single or double quotes, in JSON within JSON
	regexp.MustCompile(`(?i)` + named + `(?:([^\s"'\\,;&})\]]{4,})|'([^'\r\n]{4,})|"((?:[^"\\\r\n]|\\.){4,})|\\"((?:[^"\\\r\n]|\\[^"\r\n](?:\\")?){4,}))`),
}

// named is the name of a secret, alone or as the end of a longer one such as
// db_password or accessToken, in any of the notations of a field and its value.
const named = `\b[a-z0-9_-]*(?:password|passwd|passphrase|pwd|secret|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|token|` +
	`credentials?|authorization|cookie)\\?["']?\s*[:=]\s*`

// plainWords follow the name of a secret in a sentence and are none.
var plainWords = strings.Fields(`authentication authorization credentials information expired invalid missing required must should cannot
	null none true false string field value token tokens auth access error failed incorrect wrong unknown`)

// Least is the length in bytes from which a text is looked for that is known to
// be a secret; a shorter one would tear words apart.
const Least = 4

// Withheld stands where a secret stood.
const Withheld = "[withheld]"

// Finder knows what must not be shown: what looks like a secret, what matches a
// pattern of its own, and texts. Nil is one that knows the looks only.
type Finder struct {
	patterns []*regexp.Regexp
	texts    []string
}

// NewFinder compiles patterns. Texts that are shorter than [Least] are not
// looked for.
func NewFinder(patterns []string, texts ...string) (*Finder, error) {
	f := &Finder{}
	for _, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("%q is no regular expression: %w", p, err)
		}
		f.patterns = append(f.patterns, re)
	}
	for _, t := range texts {
		if len(t) >= Least {
			f.texts = append(f.texts, t)
		}
	}
	return f, nil
}

// Span is where a secret stands in a text, in bytes.
type Span struct{ From, To int }

// Find gives the places of secrets in a text, in order and apart from each
// other. more are further texts to look for.
func (f *Finder) Find(s string, more ...string) []Span {
	if f == nil {
		f = &Finder{}
	}
	var found []Span
	for _, re := range slices.Concat(looks, f.patterns) {
		for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
			at := Span{m[0], m[1]}
			for i := 2; i < len(m); i += 2 {
				if m[i] >= 0 {
					at = Span{m[i], m[i+1]}
					break
				}
			}
			if at.From < at.To && !slices.Contains(plainWords, strings.ToLower(s[at.From:at.To])) {
				found = append(found, at)
			}
		}
	}
	for _, list := range [][]string{f.texts, more} {
		for _, text := range list {
			found = append(found, occurrences(s, text)...)
		}
	}
	slices.SortFunc(found, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var out []Span
	for _, at := range found {
		if n := len(out); n > 0 && at.From < out[n-1].To {
			out[n-1].To = max(out[n-1].To, at.To)
			continue
		}
		out = append(out, at)
	}
	return out
}

func occurrences(s, text string) []Span {
	if len(text) < Least {
		return nil
	}
	var out []Span
	for at := 0; ; {
		i := strings.Index(s[at:], text)
		if i < 0 {
			return out
		}
		out = append(out, Span{at + i, at + i + len(text)})
		at += i + len(text)
	}
}

// Hide is the text with [Withheld] in the place of secrets.
func (f *Finder) Hide(s string) string {
	return Replace(s, f.Find(s), func(string) string { return Withheld })
}

// Replace puts with(secret) where the spans of s are.
func Replace(s string, spans []Span, with func(secret string) string) string {
	var b strings.Builder
	end := 0
	for _, at := range spans {
		b.WriteString(s[end:at.From])
		b.WriteString(with(s[at.From:at.To]))
		end = at.To
	}
	b.WriteString(s[end:])
	return b.String()
}

// Address is the address of a server, or of several with commas between, without
// the users and passwords that it holds, whether or not it can be parsed. A
// user alone is withheld too, since NATS takes it for a token.
func Address(s string) string {
	var out []string
	for _, one := range servers(s) {
		scheme, rest, ok := strings.Cut(one, "://")
		if !ok {
			scheme, rest = "", one
		}
		if i := strings.LastIndex(rest, "@"); i >= 0 {
			rest = Withheld + rest[i:]
		}
		if ok {
			rest = scheme + "://" + rest
		}
		out = append(out, rest)
	}
	return strings.Join(out, ",")
}

// servers splits where another address begins; a comma elsewhere may belong to
// a password.
func servers(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if n := len(out); n > 0 && !strings.Contains(part, "://") && strings.Contains(part, "@") {
			out[n-1] += "," + part
			continue
		}
		out = append(out, part)
	}
	return out
}
