package rules

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"mulligan/internal/form"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// sight is a case as the rules see it: what each of them would have to work
// out again.
type sight struct {
	recovery.Case
	schemas *schema.Cache
	schema  *schema.Schema // never nil; trivial if none is known
	value   map[string]any // the input, nil if it is not a JSON object or was cut
	text    spotted        // the error, without what it repeats of the input
	said    spotted        // the error as it is
	status  int            // of the HTTP answer that the error names, 0 for none
}

// Bounds of the texts that are searched: the news of a long output stands at
// its ends.
const (
	headOfText = 2 << 10
	tailOfText = 1 << 10
)

func look(c recovery.Case, schemas *schema.Cache) *sight {
	s := &sight{Case: c, schemas: schemas}
	var err error
	if s.schema, err = schemas.Compile(c.Schema); err != nil {
		s.schema, _ = schema.Compile(nil) // as if none were known
	}
	if !c.InputCut && len(c.Input) <= messages.MaxInline {
		if v, err := form.Decode(c.Input); err == nil {
			s.value, _ = v.(map[string]any)
		}
	}
	said := ends(c.Error)
	s.said = spot(unescaped.Replace(said))
	s.text = spot(strings.TrimSpace(plain.Replace(withoutEcho(said, s.value))))
	s.status = statusOf(s.text)
	return s
}

// Both read a text that was written into JSON as a string: as words, and as the
// lines that it had.
var (
	plain     = strings.NewReplacer(`\\n`, " ", `\n`, " ", `\t`, " ", `\r`, " ", `\"`, `"`)
	unescaped = strings.NewReplacer(`\\n`, "\n", `\n`, "\n", `\t`, "\t", `\r`, "\n", `\"`, `"`)
)

func ends(s string) string {
	if len(s) <= headOfText+tailOfText {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:headOfText], "") + "\n…\n" + strings.ToValidUTF8(s[len(s)-tailOfText:], "")
}

const (
	minEcho = 8   // bytes of a value that is taken out; shorter ones are words
	maxEcho = 200 // values that are looked for
)

// withoutEcho takes the input's own values out of a text, so that a tool which
// repeats its query "connection refused" is not taken to have no connection.
func withoutEcho(text string, input map[string]any) string {
	var values []string
	eachLeaf(input, func(v any) bool {
		if s, ok := v.(string); ok && len(s) >= minEcho {
			values = append(values, s)
		}
		return len(values) < maxEcho
	})
	sort.Slice(values, func(i, j int) bool { return len(values[i]) > len(values[j]) })
	for _, v := range values {
		text = strings.ReplaceAll(text, v, "…")
	}
	return text
}

// eachLeaf visits the scalars of a value in a fixed order until fn says false.
func eachLeaf(v any, fn func(any) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			if !eachLeaf(v[k], fn) {
				return false
			}
		}
		return true
	case []any:
		for _, x := range v {
			if !eachLeaf(x, fn) {
				return false
			}
		}
		return true
	}
	return fn(v)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// fits says whether v may be proposed: it fits the schema, and says something
// else than the input did.
func (s *sight) fits(v map[string]any) ([]byte, bool) {
	b, err := form.Encode(v)
	if err != nil || len(b) > messages.MaxInline || s.schema.Validate(b) != nil {
		return nil, false
	}
	if s.value != nil && form.Equal(s.value, v) {
		return nil, false
	}
	return b, true
}

// propose makes a verdict of a changed input, nil if it may not be proposed.
func (s *sight) propose(cause string, v map[string]any, done []change) *verdict {
	if len(done) == 0 || did(done, "list-as-text") && did(done, "parameter-name") {
		return nil // the second: a text that was put together and moved stands nowhere
	}
	b, ok := s.fits(v)
	if !ok {
		return nil
	}
	var names, texts []string
	for _, d := range done {
		if len(names) == 0 || names[len(names)-1] != d.rule {
			names = append(names, d.rule)
		}
		texts = append(texts, d.text)
	}
	if len(texts) > 5 {
		texts = append(texts[:5], "…")
	}
	description := brief(strings.Join(texts, "; "))
	guidance := "Next time: " + description + "."
	return &verdict{cause: cause, severity: messages.Medium, fault: messages.FaultCall, rule: strings.Join(unique(names), "+"),
		fix: &messages.Correction{Type: messages.InputFix, Description: description, ModifiedInput: b, Guidance: &guidance}}
}

// change is one thing that was mended.
type change struct {
	rule string
	text string
}

func did(done []change, rule string) bool {
	return slices.ContainsFunc(done, func(c change) bool { return c.rule == rule })
}

func unique(names []string) []string {
	var out []string
	for _, n := range names {
		seen := false
		for _, o := range out {
			seen = seen || o == n
		}
		if !seen {
			out = append(out, n)
		}
	}
	return out
}

const maxBrief = 300 // bytes of a text that is repeated in an analysis

func brief(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s[:min(len(s), 4*maxBrief)]), " "), "")
	if len(s) <= maxBrief {
		return s
	}
	n := maxBrief
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
