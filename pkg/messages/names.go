package messages

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of names, in bytes. A longer name is refused at submission.
const (
	MaxName      = 512 // tool, run, ref, worker
	MaxQueueName = 64  // so that [Pool.LaneConsumer], escaped to three times that, stays a name that every broker takes
	plainToken   = 64  // a longer name is escaped even if its characters would fit
)

// Token gives the form of a name that may stand in a subject or a bucket key.
// A name of 1 to 64 characters from [A-Za-z0-9_-] is its own token; any other
// becomes '=' followed by the name with each byte outside that set written as
// '=' and two upper-case hexadecimal digits. No plain name holds '=', so the
// two forms never meet and [Name] reverses both.
func Token(name string) string {
	if isPlain(name) {
		return name
	}
	var b strings.Builder
	b.Grow(len(name) + 8)
	b.WriteByte('=')
	for i := range len(name) {
		if c := name[i]; plainByte(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// Name reverses [Token]. It refuses a token that Token would not have written,
// so that one name never has two subjects.
func Name(token string) (string, error) {
	if isPlain(token) {
		return token, nil
	}
	if !strings.HasPrefix(token, "=") {
		return "", fmt.Errorf("token %q is neither a plain name nor an escaped one", truncateText(token, 80))
	}
	var b strings.Builder
	for i := 1; i < len(token); i++ {
		c := token[i]
		if plainByte(c) {
			b.WriteByte(c)
			continue
		}
		hi, lo := -1, -1
		if c == '=' && i+2 < len(token) {
			hi, lo = unhex(token[i+1]), unhex(token[i+2])
		}
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("token %q: bad escape at byte %d", truncateText(token, 80), i)
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	name := b.String()
	if Token(name) != token {
		return "", fmt.Errorf("token %q is not the canonical form of %q", truncateText(token, 80), truncateText(name, 80))
	}
	return name, nil
}

// CheckName tells why a name cannot be used: empty, longer than limit bytes,
// or not valid UTF-8. field is what the message calls it.
func CheckName(field, name string, limit int) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", field)
	case len(name) > limit:
		return fmt.Errorf("%s is %d bytes long, the limit is %d: %q…", field, len(name), limit, truncateText(name, 40))
	case !utf8.ValidString(name):
		return checkUTF8(field, []byte(name))
	}
	return nil
}

func isPlain(s string) bool {
	if s == "" || len(s) > plainToken {
		return false
	}
	for i := range len(s) {
		if !plainByte(s[i]) {
			return false
		}
	}
	return true
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// truncateText cuts s to at most n bytes at a rune boundary.
func truncateText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
