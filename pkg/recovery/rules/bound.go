package rules

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"mulligan/internal/form"
	"mulligan/pkg/messages"
)

// boundComplaint is a way to name the bound that a number breaks: the groups
// of the path or name, of the least and of the most that is allowed. Only
// bounds that are allowed themselves count: what lies just within another one
// is a number that nobody named.
type boundComplaint struct {
	phrase
	path, least, most int
}

const plainNumber = `(-?\d{1,15}(?:\.\d{1,6})?)`

var bounds = []boundComplaint{
	// pydantic, zod, jsonschema
	{says(`(?m)^([\w.\[\]]{1,100})\n\s+Input should be less than or equal to ` + plainNumber), 1, 0, 2},
	{says(`(?m)^([\w.\[\]]{1,100})\n\s+Input should be greater than or equal to ` + plainNumber), 1, 2, 0},
	{says(`"code": *"too_big",[^{}]{0,200}?"maximum": *` + plainNumber + `,[^{}]{0,200}?"inclusive": *true,[^{}]{0,200}?"path": *\[\s*([^\]]{1,100}?)\s*\]`), 2, 0, 1},
	{says(`"code": *"too_small",[^{}]{0,200}?"minimum": *` + plainNumber + `,[^{}]{0,200}?"inclusive": *true,[^{}]{0,200}?"path": *\[\s*([^\]]{1,100}?)\s*\]`), 2, 1, 0},
	{says(`is greater than the maximum of ` + plainNumber), 0, 0, 1},
	{says(`is less than the minimum of ` + plainNumber), 0, 1, 0},
	{says(`at '/([\w/]{1,100})': maximum: got [-\d.,]{1,20}, want ` + plainNumber), 1, 0, 2},
	{says(`at '/([\w/]{1,100})': minimum: got [-\d.,]{1,20}, want ` + plainNumber), 1, 2, 0},
	// plain words
	{says(`(?i)\bbetween ` + plainNumber + ` and ` + plainNumber), 0, 1, 2},
	{says(`(?i)\b(?:in|within)(?: the)? range:? *[\[(]?` + plainNumber + ` *(?:,|-|to|\.\.) *` + plainNumber), 0, 1, 2},
	{says(`(?i)(?:must|should|has to) be (?:<=|at most|no more than|no greater than|less than or equal to) *` + plainNumber), 0, 0, 1},
	{says(`(?i)(?:must|should|has to) be (?:>=|at least|no less than|greater than or equal to) *` + plainNumber), 0, 1, 0},
	{says(`(?i)(?:cannot|can't|can not|must not|may not|should not) (?:be (?:greater|more|larger|higher) than|exceed) *` + plainNumber), 0, 0, 1},
	{says(`(?i)(?:cannot|can't|can not|must not|may not|should not) be (?:less|smaller|lower) than *` + plainNumber), 0, 1, 0},
	{says(`(?i)(?:exceeds|exceeded|above|over) (?:the )?(?:maximum|max|limit)(?: (?:allowed|value|of|is)){0,3}:? *\(?` + plainNumber), 0, 0, 1},
	{says(`(?i)(?:maximum|max)(?: (?:allowed|value|permitted)){0,2} (?:is|of)?:? *` + plainNumber), 0, 0, 1},
	{says(`(?i)expected a value (?:<=|at most) *` + plainNumber), 0, 0, 1},
	{says(`(?i)expected a value (?:>=|at least) *` + plainNumber), 0, 1, 0},
}

// bound puts a number that asks for too much, or too little, at the bound that
// the error names: how many results, how long to wait. What else a number
// means is for the caller to say.
func bound(s *sight) *verdict {
	if s.value == nil {
		return nil
	}
	for _, b := range bounds {
		m := b.find(s.said)
		if m == nil {
			continue
		}
		path, to := outOfBounds(s, b, m)
		if path == nil {
			continue
		}
		name := path[len(path)-1]
		if !asksHowMuch(name, s.Effect) {
			return hopeless("a number is out of bounds", fmt.Sprintf("%s may go as far as %s; choose a number that is allowed.", where(path), to))
		}
		v, _ := form.Copy(s.value).(map[string]any)
		return s.propose("a number is out of bounds, and the error names them", v, clamp(v, path, to))
	}
	return nil
}

func clamp(v map[string]any, path []string, to string) []change {
	return replace(v, path, func(old any) (any, *change) {
		n, ok := old.(json.Number)
		if !ok {
			return nil, nil
		}
		return json.Number(to), &change{"bound", fmt.Sprintf("%s can be %s, not %s", where(path), to, n)}
	})
}

// outOfBounds finds the one number that is meant and the bound that it breaks.
func outOfBounds(s *sight, b boundComplaint, m []string) (path []string, to string) {
	broken := func(x any) string {
		n, ok := x.(json.Number)
		if !ok {
			return ""
		}
		f, err := n.Float64()
		if err != nil {
			return ""
		}
		if least, ok := group(m, b.least); ok && f < least {
			return m[b.least]
		}
		if most, ok := group(m, b.most); ok && f > most {
			return m[b.most]
		}
		return ""
	}
	if b.path > 0 {
		path = placeAt(s.value, splitPath(m[b.path]))
		if path == nil {
			return nil, ""
		}
		to = broken(find(s.value, path))
		if to == "" {
			return nil, ""
		}
		return path, to
	}
	n := 0
	eachPlace(s.value, nil, func(at []string) {
		x := find(s.value, at)
		bound := broken(x)
		if bound == "" || !form.HasWord(s.said.text, at[len(at)-1]) && !form.HasWord(s.said.text, fmt.Sprint(x)) {
			return
		}
		n++
		path, to = append([]string(nil), at...), bound
	})
	if n != 1 {
		return nil, ""
	}
	return path, to
}

func group(m []string, i int) (float64, bool) {
	if i == 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(m[i], 64)
	return f, err == nil
}

// asksHowMuch says whether a parameter only says how much of an answer is
// wanted, or how long to wait for it: nothing that is bought, paid or sent.
func asksHowMuch(name string, e messages.Effect) bool {
	folded := form.Fold(name)
	for _, money := range []string{"price", "amount", "cost", "credit", "spend", "budget", "fee", "pay", "salary", "loan", "bid", "transfer", "withdraw", "debit", "order", "fund", "quantity"} {
		if strings.Contains(folded, money) {
			return false
		}
	}
	for _, size := range []string{"limit", "pagesize", "perpage", "maxresult", "maxitem", "maxlength", "maxchar", "maxtoken", "maxcount", "maxdepth", "maxrow", "numresult", "resultcount", "topk", "topn", "timeout", "batchsize", "chunksize"} {
		if strings.Contains(folded, size) {
			return true
		}
	}
	if e != messages.ReadOnly {
		return false
	}
	switch folded {
	case "count", "n", "k", "top", "num", "rows", "size", "length", "depth", "days", "hours", "results":
		return true
	}
	return false
}
