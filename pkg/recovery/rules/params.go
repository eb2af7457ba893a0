package rules

import (
	"fmt"
	"slices"

	"mulligan/internal/form"
	"mulligan/internal/schema"
)

// params is a place in the schema with the parameters that it names.
type params struct {
	schema.Node
	names []string // sorted
}

func paramsOf(at schema.Node) params { return params{at, at.PropertyNames()} }

func (p params) has(name string) bool {
	_, found := slices.BinarySearch(p.names, name)
	return found
}

// rename moves the value of a parameter to another name.
func rename(m map[string]any, from, to string, path []string) change {
	m[to] = m[from]
	delete(m, from)
	return change{"parameter-name", fmt.Sprintf("%s is called %q", where(append(slices.Clone(path), from)), to)}
}

// maxKeys bounds the objects in which a near-miss name is looked for; among
// more, none can be told from the others.
const maxKeys = 500

// nearKey finds the one key of m that name was probably meant by. A key that
// is as near to another missing property is none.
func (p params) nearKey(m map[string]any, name string) (string, bool) {
	if _, there := m[name]; there || len(m) > maxKeys {
		return "", false
	}
	found := ""
	for k, v := range m {
		if p.has(k) || !form.Near(k, name) || !mayBecome(v, p.Property(name)) || p.nearOther(k, name, m) {
			continue
		}
		if found != "" {
			return "", false
		}
		found = k
	}
	return found, found != ""
}

func (p params) nearOther(k, name string, m map[string]any) bool {
	for _, other := range p.names {
		if _, there := m[other]; there || other == name || !form.Near(k, other) {
			continue
		}
		if form.Fold(other) == form.Fold(k) || form.Fold(name) != form.Fold(k) {
			return true
		}
	}
	return false
}

// meant is the one parameter that k was probably written for.
func (p params) meant(m map[string]any, k string) (string, bool) {
	found := ""
	for _, name := range p.names {
		if !form.Near(k, name) {
			continue
		}
		if from, ok := p.nearKey(m, name); !ok || from != k {
			continue
		}
		if found != "" {
			return "", false
		}
		found = name
	}
	return found, found != ""
}

// renameStrangers: where one name was wrong, others of the same object may be,
// and nobody complained of them yet, since the schema does not need them.
func (p params) renameStrangers(m map[string]any, path []string) []change {
	if len(p.names) == 0 || len(m) > maxKeys {
		return nil
	}
	var done []change
	for _, k := range sortedKeys(m) {
		if p.has(k) {
			continue
		}
		if to, ok := p.meant(m, k); ok {
			done = append(done, rename(m, k, to, path))
		}
	}
	return done
}

// mayBecome: the value fits the place, or can be coerced to.
func mayBecome(v any, at schema.Node) bool {
	if at.Allows(v) {
		return true
	}
	if _, c := coerce(v, at, nil); c != nil {
		return true
	}
	_, c := listed(v, at, nil)
	if c != nil {
		return true
	}
	switch v.(type) {
	case map[string]any, []any: // what is within may be mended in the next round
		return slices.Contains(at.Types(), typeOf(v))
	}
	return false
}
