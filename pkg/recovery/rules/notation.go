package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mulligan/internal/form"
	"mulligan/internal/schema"
)

// How texts name the notation that they want.
var (
	wantsPattern = says(`(?i)(?:not match|should match|must match)(?: the)?(?: (?:required|expected))?(?: (?:pattern|regex|regular expression|format))?:? *['"/` + "`" + `](\^[^'"` + "`" + `\n]{1,200}\$)['"/` + "`" + `]`)
	wantsDay     = says(`(?i)\bYYYY-MM-DD\b|%Y-%m-%d|\bISO[ -]?8601\b|\bISO (?:date|format)\b|\bdate.{0,20}\b2006-01-02\b|\binvalid isoformat\b`)
)

// notation writes a value in the notation that the error asks for, if it says
// the same in it.
func notation(s *sight) *verdict {
	if s.value == nil {
		return nil
	}
	v, _ := form.Copy(s.value).(map[string]any)
	if m := wantsPattern.find(s.said); m != nil {
		if re := smallPattern(m[1]); re != nil {
			return s.propose("a value is not written as the tool wants it", v, rewriteNamed(s, v, "pattern", func(old string) string { return inPattern(old, re) }))
		}
	}
	if wantsDay.in(s.said) {
		return s.propose("a date is not written as the tool wants it", v, rewriteNamed(s, v, "date", isoDay))
	}
	return nil
}

// rewriteNamed rewrites the texts that fn can rewrite: the only one there is,
// or those that the error names by their value or their parameter.
func rewriteNamed(s *sight, v map[string]any, rule string, fn func(string) string) []change {
	var all, said [][]string
	looked := 0
	eachText(v, nil, func(at []string, old string) {
		if looked++; looked > maxTexts || fn(old) == "" {
			return
		}
		at = slices.Clone(at)
		all = append(all, at)
		if name := at[len(at)-1]; form.HasWord(s.said.text, old) || len(name) > 2 && form.HasWord(s.said.text, name) {
			said = append(said, at)
		}
	})
	if len(all) != 1 || rule == "pattern" {
		all = said
	}
	var done []change
	for _, path := range all {
		done = append(done, rewrite(v, path, rule, fn)...)
	}
	return done
}

func rewrite(v map[string]any, path []string, rule string, fn func(string) string) []change {
	return replace(v, path, func(old any) (any, *change) {
		t, ok := old.(string)
		if !ok {
			return nil, nil
		}
		to := fn(t)
		if to == "" {
			return nil, nil
		}
		return to, &change{rule, fmt.Sprintf("%s must be written %q, not %q", where(path), clip(to), clip(t))}
	})
}

// eachText visits the texts of a value with their paths.
func eachText(v any, at []string, fn func([]string, string)) {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(x) {
			eachText(x[k], append(at, k), fn)
		}
	case []any:
		for i, e := range x {
			eachText(e, append(at, strconv.Itoa(i)), fn)
		}
	case string:
		fn(at, x)
	}
}

// smallPattern compiles a pattern of an error or a schema, nil if it cannot be
// or would be much work.
func smallPattern(text string) *regexp.Regexp {
	if len(text) > 200 || manyTimes.MatchString(text) {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	return re
}

var manyTimes = regexp.MustCompile(`\{\d*,?\d{3,}`)

const (
	maxNotation = 100 // bytes of a value that is rewritten
	maxTexts    = 500 // values of an input that are looked at
)

// inPattern is the one way to write a value so that the pattern allows it: in
// another case, with or without the mark of an id, or as a date. "" for none.
func inPattern(old string, re *regexp.Regexp) string {
	if len(old) > maxNotation || re.MatchString(old) {
		return ""
	}
	bare := form.Bare(old)
	return only([]string{strings.TrimSpace(old), bare, "#" + bare, "@" + bare, strings.ToUpper(bare), strings.ToLower(bare), "#" + strings.ToUpper(bare), isoDay(old)}, re.MatchString)
}

// only is the candidate that fits, if all that fit are one.
func only(candidates []string, fits func(string) bool) string {
	found := ""
	for _, c := range candidates {
		if c == "" || c == found || !fits(c) {
			continue
		}
		if found != "" {
			return ""
		}
		found = c
	}
	return found
}

// isoDay writes a date of another notation as the standard does; "" if it is
// none, is so written already, or could be read in two ways.
func isoDay(old string) string {
	if len(old) > 30 {
		return ""
	}
	old = strings.TrimSpace(old)
	for _, layout := range []string{"2006-1-2", "2006/1/2", "2006.1.2", "January 2, 2006", "January 2 2006", "Jan 2, 2006", "Jan 2 2006", "2 January 2006", "2 Jan 2006"} {
		if t, err := time.Parse(layout, old); err == nil {
			if to := t.Format("2006-01-02"); to != old {
				return to
			}
			return ""
		}
	}
	return ""
}

// sampleID is a value that a description gives as an example: in quotes, with a
// mark, a digit, or in capitals.
var sampleID = regexp.MustCompile(`['"` + "`" + `]([#@]?[A-Za-z][\w-]{1,40}|[#@]\w{1,40})['"` + "`" + `]`)

// idForm writes an id in the form of the example that its description gives,
// where no object was found: with the mark that ids begin with, or in the case
// that they have.
func idForm(s *sight) *verdict {
	if s.value == nil || !notFound.in(s.said) && s.status != 404 {
		return nil
	}
	v, _ := form.Copy(s.value).(map[string]any)
	var done []change
	for _, path := range idsMeant(s) {
		samples := samplesAt(s.schema.Root(), path)
		if len(samples) == 0 {
			continue
		}
		done = append(done, rewrite(v, path, "id-form", func(old string) string { return likeSample(old, samples) })...)
	}
	return s.propose("an id was not written as its description shows", v, done)
}

// idsMeant are the places of the texts of the input that the error repeats, of
// all of them if it repeats none.
func idsMeant(s *sight) [][]string {
	var all, said [][]string
	eachText(s.value, nil, func(at []string, old string) {
		if len(all) == maxTexts {
			return
		}
		at = slices.Clone(at)
		all = append(all, at)
		if len(old) > 3 && form.HasWord(s.said.text, old) {
			said = append(said, at)
		}
	})
	if len(said) > 0 {
		return said
	}
	return all
}

// samplesAt are the examples that the description of a place gives, or that of
// the list that it is in.
func samplesAt(root schema.Node, path []string) []string {
	text := root.At(path).Description()
	if text == "" && len(path) > 1 {
		text = root.At(path[:len(path)-1]).Description()
	}
	var out []string
	for _, m := range sampleID.FindAllStringSubmatch(text, 4) {
		if strings.ContainsAny(m[1], "#@0123456789") || strings.ToUpper(m[1]) == m[1] {
			out = append(out, m[1])
		}
	}
	return out
}

// likeSample is the one way to write an id that has the shape of a sample; "" if
// it has it already, or none does.
func likeSample(id string, samples []string) string {
	if len(id) > maxNotation {
		return ""
	}
	bare := form.Bare(id)
	found := ""
	for _, sample := range samples {
		if shape(id) == shape(sample) {
			return ""
		}
		mark := sample[:len(sample)-len(strings.TrimLeft(sample, "#@"))]
		fits := func(c string) bool {
			return shape(c) == shape(sample) && (mark == "" || leading(c) == leading(sample)) && digits(c) <= digits(sample)+2
		}
		to := only([]string{mark + bare, mark + strings.ToLower(bare), mark + strings.ToUpper(bare)}, fits)
		if to == "" {
			continue
		}
		if found != "" && found != to {
			return ""
		}
		found = to
	}
	return found
}

// fill are the letters that stand for digits in an example.
var fill = regexp.MustCompile(`X{3,}|x{3,}`)

// shape is a text with its runs of small letters, capitals and digits as one
// character each; letters alone keep their number, since such codes do.
func shape(s string) string {
	s = fill.ReplaceAllString(s, "0")
	alone := strings.IndexFunc(s, func(r rune) bool { return r < 'A' || r > 'z' || r > 'Z' && r < 'a' }) < 0
	var b strings.Builder
	last := rune(0)
	for _, r := range s {
		kind := r
		switch {
		case r >= '0' && r <= '9':
			kind = '0'
		case r >= 'a' && r <= 'z':
			kind = 'a'
		case r >= 'A' && r <= 'Z':
			kind = 'A'
		}
		if alone || kind != last || kind == r && kind != '0' && kind != 'a' && kind != 'A' {
			b.WriteRune(kind)
		}
		last = kind
	}
	return b.String()
}

// leading is what stands before the first digit.
func leading(s string) string {
	s = fill.ReplaceAllString(s, "0")
	if i := strings.IndexAny(s, "0123456789"); i >= 0 {
		return s[:i]
	}
	return s
}

func digits(s string) int {
	n := 0
	for _, r := range s {
		if r >= '0' && r <= '9' || r == 'X' || r == 'x' {
			n++
		}
	}
	return n
}
