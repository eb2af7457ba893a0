package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mulligan/internal/form"
	"mulligan/internal/schema"
)

// How frameworks say that a parameter is missing: Python's pydantic, jsonschema
// and the language itself, JavaScript's zod, ajv and joi, FastAPI, Spring,
// Laravel, Rails, serde, AWS, and plain words. The first group is the name, or
// the path to it.
var (
	missingNames = []phrase{
		says(`(?mi)^([\w.\[\]]{1,100})\n\s+(?:field required|missing required (?:keyword only |positional only )?argument)`),
		says(`'(\w{1,60})' is a required property`),
		says(`(?i)must have required property '(\w{1,60})'`),
		says(`(?i)missing (?:\d+ )?required (?:positional |keyword-only )?(?:argument|parameter|property|field|key|keyword)s?:? *['":` + "`" + `]?(\w{1,60})`),
		says(`(?i)missing (?:argument|parameter|property|properties|field|key|keyword)s?:? *['":` + "`" + `](\w{1,60})`),
		says(`(?i)(?:parameter|field|argument|property) ['"` + "`" + `](\w{1,60})['"` + "`" + `][\w ]{0,40} is (?:required|missing|not present)`),
		says(`(?i)['"` + "`" + `](\w{1,60})['"` + "`" + `] (?:field |parameter |argument |property )?is (?:a )?(?:required|missing|mandatory)`),
		says(`"path": *\[\s*([^\]]{1,100}?)\s*\],\s*"message": *"(?:Required|[^"\n]{0,80}received undefined)"`),
		says(`"type": *"missing",\s*"loc": *\[\s*([^\]]{1,100}?)\s*\]`),
		says(`"(\w{1,60})": *\[\s*"[^"\n]{0,60}\bfield is required`),
		says(`Missing required parameter in [\w.\[\]]{1,60}: "(\w{1,60})"`),
		says(`param is missing or the value is empty: (\w{1,60})`),
	}
	// missingList names several at once.
	missingList = says(`(?i)missing \d+ required [\w-]{1,20} arguments: ([^\n]{1,300})|missing properties:? ([^\n]{1,300})`)
)

// How frameworks say that they do not know a parameter.
var unexpectedNames = []phrase{
	says(`(?i)unexpected (?:keyword )?(?:argument|parameter|property|field|key|keyword)s?:? *['":` + "`" + `](\w{1,60})`),
	says(`(?i)(?:unknown|unrecogni[sz]ed|unsupported) (?:argument|parameter|field|property|key|option|name|keyword)(?:\(s\)|s)?(?: in object)?:? *['":` + "`" + `]([\w.]{1,60})`),
	says(`\('(\w{1,60})' was unexpected\)`),
	says(`(?mi)^([\w.\[\]]{1,100})\n\s+(?:extra inputs are not permitted|unexpected keyword argument|extra fields not permitted)`),
	says(`"unrecognized_keys",\s*"keys": *\[\s*"(\w{1,60})"`),
	says(`additional properties \[?['"](\w{1,60})['"]`),
	says(`Unknown parameter in [\w.\[\]]{1,60}: "(\w{1,60})"`),
	says(`"(\w{1,60})" is not allowed`),
}

// complaint mends what the tool complains about in words that can be parsed:
// the schema, if there is one, does not say it. If the error misses several
// parameters, all must be found.
func complaint(s *sight) *verdict {
	if s.value == nil {
		return nil
	}
	v, _ := form.Copy(s.value).(map[string]any)
	done := renameMissing(s, v)
	for _, name := range missing(s.said) {
		if !holds(v, name) {
			return nil
		}
	}
	done = append(done, renameRefused(s, v)...)
	done = append(done, coerceNamed(s, v)...)
	return s.propose("the tool refused the arguments", v, done)
}

// notGiven names what is missing and was not given under any name.
func notGiven(s *sight) *verdict {
	if !missingInput.in(s.text) {
		return nil
	}
	what := "the value that the error names"
	if names := missing(s.said); len(names) > 0 {
		what = strings.Join(names, ", ")
	}
	guidance := "Give " + what + "; look it up or ask for it if you do not know it."
	if s.value != nil {
		v, _ := form.Copy(s.value).(map[string]any)
		for _, c := range renameMissing(s, v) {
			guidance += " " + strings.ToUpper(c.text[:1]) + c.text[1:] + "."
		}
	}
	return hopeless("a required value was not given", brief(guidance))
}

// renameMissing gives each parameter that the error misses the value of the one
// near-miss name that occurs in the input.
func renameMissing(s *sight, v map[string]any) []change {
	var done []change
	for _, name := range missing(s.said) {
		from := ""
		var holders []map[string]any
		var places []params
		ambiguous := false
		eachObject(v, s.schema.Root(), func(m map[string]any, at schema.Node) {
			here := paramsOf(at)
			if len(here.names) > 0 && !here.has(name) {
				return // not a parameter of this object
			}
			k, ok := here.nearKey(m, name)
			if !ok {
				return
			}
			ambiguous = ambiguous || from != "" && k != from
			from = k
			holders, places = append(holders, m), append(places, here)
		})
		if from == "" || ambiguous {
			continue
		}
		done = append(done, change{"parameter-name", fmt.Sprintf("%q is called %q", from, name)})
		for i, m := range holders {
			m[name] = m[from]
			delete(m, from)
			done = append(done, places[i].renameStrangers(m, nil)...)
		}
	}
	return done
}

// renameRefused moves the value of a parameter that the tool does not know to
// the one that was meant: of the schema, or of those that the error names.
func renameRefused(s *sight, v map[string]any) []change {
	var done []change
	for _, k := range named(s.said, unexpectedNames) {
		to := ""
		var holders []map[string]any
		clear := true
		eachObject(v, s.schema.Root(), func(m map[string]any, at schema.Node) {
			here := paramsOf(at)
			if _, there := m[k]; !there || here.has(k) {
				return
			}
			p, ok := here.meant(m, k)
			if !ok {
				p, ok = offered(s, m, k)
				ok = ok && (len(here.names) == 0 || here.has(p))
			}
			clear = clear && ok && (to == "" || to == p)
			to = p
			holders = append(holders, m)
		})
		if !clear || to == "" {
			continue
		}
		for _, m := range holders {
			m[to] = m[k]
			delete(m, k)
		}
		done = append(done, change{"parameter-name", fmt.Sprintf("%q is called %q", k, to)})
	}
	return done
}

// offered is the parameter that the error suggests in the place of k.
func offered(s *sight, m map[string]any, k string) (string, bool) {
	var names []string
	if to := suggestion(s.said); to != "" {
		names = []string{to}
	} else if list := allowedValues.find(s.said); list != nil {
		names = values(list[1])
	}
	found := ""
	for _, n := range names {
		if _, there := m[n]; there || !plainName.MatchString(n) || len(names) > 1 && !form.Near(k, n) {
			continue
		}
		if found != "" {
			return "", false
		}
		found = n
	}
	return found, found != ""
}

var plainName = regexp.MustCompile(`^\w{1,60}$`)

const maxNamed = 8 // parameters of one error that are looked at

// missing are the parameters that an error misses.
func missing(said spotted) []string {
	names := named(said, missingNames)
	if m := missingList.find(said); m != nil {
		for _, q := range quotedWord.FindAllStringSubmatch(m[1]+m[2], maxNamed) {
			names = append(names, q[1])
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return notName.MatchString(n) })
	slices.Sort(names)
	return slices.Compact(names)
}

// notName are words that may follow where a name was to be expected.
var notName = regexp.MustCompile(`(?i)^(?:in|for|of|the|an?|to|is|on|at|or|and|with|from|by|value|values)$`)

var quotedWord = regexp.MustCompile(`['"](\w{1,60})['"]`)

// named are the last names of the paths that the phrases find.
func named(said spotted, phrases []phrase) []string {
	var names []string
	for _, p := range phrases {
		for _, m := range p.findAll(said, maxNamed) {
			path := splitPath(m[1])
			if len(path) == 0 {
				continue
			}
			if name := path[len(path)-1]; !slices.Contains(names, name) && len(names) < maxNamed {
				names = append(names, name)
			}
		}
	}
	return names
}

// holds says whether an object within v has the key.
func holds(v any, key string) bool {
	found := false
	eachObject(v, schema.Node{}, func(m map[string]any, _ schema.Node) {
		_, there := m[key]
		found = found || there
	})
	return found
}

// splitPath reads a path as frameworks write it: a.0.b, or "a", 0, "b".
func splitPath(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(".,[]\"'/ \n\t", r) })
}

// eachObject visits the objects of a value with their place in the schema.
func eachObject(v any, at schema.Node, fn func(map[string]any, schema.Node)) {
	switch x := v.(type) {
	case map[string]any:
		keys := sortedKeys(x)
		for _, k := range keys {
			eachObject(x[k], at.Property(k), fn)
		}
		fn(x, at)
	case []any:
		for i, e := range x {
			eachObject(e, at.Item(i), fn)
		}
	}
}
