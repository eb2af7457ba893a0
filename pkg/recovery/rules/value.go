package rules

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"mulligan/internal/form"
)

const aNumber = `[$€£]? ?(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\b`

// The two ways in which texts name the right amount beside the wrong one.
var (
	wantThenGot = says(`(?i)\b(?:expected|should be|must be|must equal|total(?: price| amount| cost)? (?:is|was|of|:|=))\D{0,12}?` + aNumber + `[^.\d]{1,40}?\b(?:got|paid|received|given|provided|found|but was|but is|instead of|(?:sums?|adds? up|amounts?) to|sum (?:is|of))\D{0,12}?` + aNumber)
	gotThenWant = says(`(?i)\b(?:got|paid|received|given|provided|found|(?:sums?|adds? up|amounts?) to|sum (?:is|of))\D{0,12}?` + aNumber + `[^.\d]{1,40}?\b(?:expected|should be|must be|must equal|instead of|(?:total|price|cost|due|required)(?: price| amount| cost)? (?:is|was|of|:|=))\D{0,12}?` + aNumber)
)

// amount puts the amount that the error names in the place of the wrong one, if
// that stands exactly once in the input. Where it is a sum of several, nobody
// can tell which of them to change.
func amount(s *sight) *verdict {
	if s.value == nil {
		return nil
	}
	want, got := amounts(s.said)
	if want == "" || want == got {
		return nil
	}
	v, _ := form.Copy(s.value).(map[string]any)
	path, n := onlyLeaf(v, func(x any) bool {
		num, ok := x.(json.Number)
		return ok && form.Canonical(num) == form.Canonical(json.Number(got))
	})
	if n != 1 {
		return hopeless("an amount is wrong", fmt.Sprintf("The right amount is %s, not %s; change the arguments that make it up.", want, got))
	}
	done := replace(v, path, func(any) (any, *change) {
		return json.Number(want), &change{"amount", fmt.Sprintf("%s must be %s, not %s", where(path), want, got)}
	})
	return s.propose("an amount is wrong, and the error names the right one", v, done)
}

func amounts(text spotted) (want, got string) {
	if m := wantThenGot.find(text); m != nil {
		want, got = m[1], m[2]
	} else if m := gotThenWant.find(text); m != nil {
		want, got = m[2], m[1]
	}
	return strings.ReplaceAll(want, ",", ""), strings.ReplaceAll(got, ",", "")
}

// onlyLeaf finds the place of the scalar that is meant, and how many there are.
func onlyLeaf(v any, is func(any) bool) (path []string, n int) {
	var walk func(v any, at []string)
	walk = func(v any, at []string) {
		switch x := v.(type) {
		case map[string]any:
			for _, k := range sortedKeys(x) {
				walk(x[k], append(at, k))
			}
		case []any:
			for i, e := range x {
				walk(e, append(at, strconv.Itoa(i)))
			}
		default:
			if is(v) {
				n++
				path = append([]string(nil), at...)
			}
		}
	}
	walk(v, nil)
	return path, n
}

var didYouMean = says(`(?i)\b(?:(?:did|do) you mean|(?:perhaps|maybe) you meant):? *(?:['"` + "`" + `]([^'"` + "`" + `\n]{1,200})['"` + "`" + `]|([^\s'"` + "`" + `?]{1,200})) *\?`)

// suggestion is what a text asks whether it was meant, "" if nothing.
func suggestion(said spotted) string {
	m := didYouMean.find(said)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// suggestedValue takes what the error itself suggests, for the one value that
// the error also names.
func suggestedValue(s *sight) *verdict {
	to := suggestion(s.said)
	if to == "" || s.value == nil {
		return nil
	}
	before, _, _ := strings.Cut(s.said.text, didYouMean.find(s.said)[0])
	v, _ := form.Copy(s.value).(map[string]any)
	path, n := onlyLeaf(v, func(x any) bool {
		t, ok := x.(string)
		return ok && t != "" && t != to && form.HasWord(before, t)
	})
	if n != 1 {
		return nil
	}
	done := replace(v, path, func(old any) (any, *change) {
		return to, &change{"suggested-value", fmt.Sprintf("%s must be %q, not %q", where(path), to, clip(fmt.Sprint(old)))}
	})
	return s.propose("a value is not known, and the error suggests another", v, done)
}

// allowedValues is how texts introduce the values that there are.
var allowedValues = says(`(?i)\b(?:one of|any of|allowed values|valid (?:values|options|choices)|available(?: \w{1,20}){0,2}|known(?: \w{1,20})?|possible values|permitted|choose from|options|(?:input should be|expected)(?: one of)? ['"` + "`" + `]) *(?:are|is)? *:? *([^\n]{3,900})`)

var (
	separators = regexp.MustCompile(`,|\||\bor\b|\band\b`)
	endOfList  = regexp.MustCompile(`[\])};]| \[|\. |, (?:received|got|not|input|but)\b| but `)
	quotedItem = regexp.MustCompile(`['"` + "`" + `]([^'"` + "`" + `\n]{1,100})['"` + "`" + `]`)
)

// values reads the list that a text introduces, up to where it ends.
func values(list string) []string {
	if at := endOfList.FindStringIndex(list[1:]); at != nil {
		list = list[:at[0]+1]
	}
	list = strings.TrimRight(list, ". ")
	var words []string
	list = firstQuote(list)
	if strings.ContainsAny(list, "'\"`") {
		for _, m := range quotedItem.FindAllStringSubmatch(list, maxListed) {
			words = append(words, m[1])
		}
		return words
	}
	for _, w := range separators.Split(list, maxListed) {
		if w = strings.Trim(w, " \t[](){}"); w != "" {
			words = append(words, w)
		}
	}
	return words
}

// firstQuote gives a list back the quote that introduced it.
func firstQuote(list string) string {
	i := strings.IndexAny(list, "'\"`")
	if i < 0 || strings.Count(list, list[i:i+1])%2 == 0 {
		return list
	}
	return list[i:i+1] + list
}

const maxListed = 100

// listedValue finds the one value of the input that is nearly one of those that
// the error lists.
func listedValue(s *sight) *verdict {
	m := allowedValues.find(s.said)
	if m == nil || s.value == nil {
		return nil
	}
	words := values(m[1])
	if len(words) < 2 {
		return nil
	}
	v, _ := form.Copy(s.value).(map[string]any)
	best, exact := "", false
	path, n := onlyLeaf(v, func(x any) bool {
		t, ok := x.(string)
		if !ok {
			return false
		}
		b, e, ok := form.Nearest(t, words)
		if !ok || b == t || !e && !form.HasWord(s.said.text, t) {
			return false
		}
		best, exact = b, e
		return true
	})
	if n != 1 {
		return nil
	}
	rule := "enum-nearest"
	if exact {
		rule = "enum-case"
	}
	done := replace(v, path, func(old any) (any, *change) {
		return best, &change{rule, fmt.Sprintf("%s must be %q, not %q", where(path), best, clip(fmt.Sprint(old)))}
	})
	return s.propose("a value is none of those that the tool knows", v, done)
}
