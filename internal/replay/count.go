package replay

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"mulligan/internal/excerpt"
)

// MaxGroups is how many groups are told apart; what comes after that is counted
// together.
const MaxGroups = 1000

// Rest is the name of what was counted together.
const Rest = "(others)"

// Counts counts by name. The zero value is ready to use.
type Counts struct{ m map[string]int }

// Add counts one.
func (c *Counts) Add(name string) {
	if c.m == nil {
		c.m = make(map[string]int)
	}
	if _, there := c.m[name]; !there && len(c.m) >= MaxGroups {
		name = Rest
	}
	c.m[name]++
}

// Group is a name with its count.
type Group struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Groups are all, the largest first.
func (c *Counts) Groups() []Group {
	out := make([]Group, 0, len(c.m))
	for _, name := range slices.Sorted(maps.Keys(c.m)) {
		out = append(out, Group{name, c.m[name]})
	}
	slices.SortStableFunc(out, func(a, b Group) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// Tally counts calls in the ways that people ask for.
type Tally struct {
	Total                         int
	Statuses, Codes, Tools, Texts Counts
}

// Add counts a call.
func (t *Tally) Add(o *Original) {
	t.Total++
	t.Statuses.Add(string(o.Status))
	t.Codes.Add(string(o.Code))
	t.Tools.Add(o.Asked())
	t.Texts.Add(Pattern(cmp.Or(o.Text, o.Reason)))
}

// Of a pattern, in bytes.
const (
	lookedAt = 1000
	shown    = 160
)

// Pattern is what a text has in common with others of its kind: its first line,
// without ids, numbers and quoted words. It takes one pass, since it is asked for
// every call that is counted.
func Pattern(text string) string {
	text = strings.TrimSpace(text[:min(len(text), lookedAt)])
	text, _, _ = strings.Cut(text, "\n")
	var b strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			if n := strings.IndexByte(text[i+1:], c); n >= 0 {
				b.WriteString("“…”")
				i += n + 2
				continue
			}
			b.WriteByte(c)
			i++
		case isWord(c):
			n := i
			for n < len(text) && isWord(text[n]) {
				n++
			}
			writeWord(&b, text[i:n])
			i = n
		default:
			b.WriteByte(c)
			i++
		}
	}
	return excerpt.Of(strings.Join(strings.Fields(strings.ToValidUTF8(b.String(), "")), " "), shown)
}

func isWord(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '.' || c == ':'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// leastID is from how many characters on a word of hexadecimal digits is an id; one
// of decimal digits alone has to be as long as a UUID.
const leastID = 8

// writeWord writes a word with # for its numbers, or … for an id.
func writeWord(b *strings.Builder, w string) {
	if !strings.ContainsAny(w, "0123456789") {
		b.WriteString(w)
		return
	}
	if len(w) >= leastID && strings.Trim(w, "0123456789abcdefABCDEF-") == "" && (strings.ContainsAny(w, "abcdefABCDEF") || len(w) >= 4*leastID) {
		b.WriteString("…")
		return
	}
	for i := 0; i < len(w); i++ {
		if !isDigit(w[i]) {
			b.WriteByte(w[i])
			continue
		}
		b.WriteByte('#')
		for i+1 < len(w) && (isDigit(w[i+1]) || i+2 < len(w) && (w[i+1] == '.' || w[i+1] == ':') && isDigit(w[i+2])) {
			i++
		}
	}
}
