package pyval

import "strings"

// Contains is `item in container`. Only objects, lists and texts can be asked,
// and an object only for keys that can be hashed.
func Contains(container, item Value) (bool, error) {
	switch c := container.(type) {
	case *Dict:
		_, found, err := Lookup(c, item)
		return found, err
	case *List:
		return count(c.Items, item) > 0, nil
	case Str:
		s, ok := item.(Str)
		if !ok {
			return false, raise("'in <string>' requires string as left operand, not %s", item.pyType())
		}
		return strings.Contains(string(c), string(s)), nil
	default:
		return false, raise("argument of type '%s' is not iterable", container.pyType())
	}
}

// Lookup returns what d holds under key, and whether it holds anything. A list
// or an object as key is an error, any other key that is no text is not found.
func Lookup(d *Dict, key Value) (Value, bool, error) {
	switch k := key.(type) {
	case Str:
		v, ok := d.Get(string(k))
		return v, ok, nil
	case *List, *Dict:
		return nil, false, Unhashable(key)
	default:
		return nil, false, nil
	}
}

// Item is `v[key]` for a key that is a text in the program.
func Item(v Value, key string) (Value, error) {
	switch v := v.(type) {
	case *Dict:
		if item, ok := v.Get(key); ok {
			return item, nil
		}
		return nil, KeyError(Str(key))
	case *List:
		return nil, raise("list indices must be integers or slices, not str")
	case Str:
		return nil, raise("string indices must be integers, not 'str'")
	default:
		return nil, raise("'%s' object is not subscriptable", v.pyType())
	}
}

// Index is `d[key]` for a key that came from outside.
func Index(d *Dict, key Value) (Value, error) {
	v, found, err := Lookup(d, key)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, KeyError(key)
	}
	return v, nil
}

// LastTwo is `v[-2:]`.
func LastTwo(v Value) (Value, error) {
	switch v := v.(type) {
	case Str:
		p := points(string(v))
		var tail strings.Builder
		for _, one := range p[max(0, len(p)-2):] {
			tail.WriteString(string(one.(Str)))
		}
		return Str(tail.String()), nil
	case *List:
		return &List{Items: v.Items[max(0, len(v.Items)-2):]}, nil
	case *Dict:
		return nil, raise("unhashable type: 'slice'")
	default:
		return nil, raise("'%s' object is not subscriptable", v.pyType())
	}
}

// Iterate returns what `for x in v` goes through: the items of a list, the keys
// of an object, the characters of a text.
func Iterate(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *List:
		return v.Items, nil
	case *Dict:
		keys := make([]Value, len(v.entries))
		for i, e := range v.entries {
			keys[i] = Str(e.key)
		}
		return keys, nil
	case Str:
		return points(string(v)), nil
	default:
		return nil, raise("'%s' object is not iterable", v.pyType())
	}
}

// Len is `len(v)`.
func Len(v Value) (int, error) {
	switch v := v.(type) {
	case *List:
		return len(v.Items), nil
	case *Dict:
		return v.Len(), nil
	case Str:
		return len(points(string(v))), nil
	default:
		return 0, raise("object of type '%s' has no len()", v.pyType())
	}
}

// Count is `v.count(item)`, for an item that v was seen to hold.
func Count(v, item Value) (int, error) {
	switch v := v.(type) {
	case *List:
		return count(v.Items, item), nil
	case Str:
		return count(points(string(v)), item), nil
	default:
		return 0, noAttribute(v, "count")
	}
}

func count(items []Value, item Value) (n int) {
	for _, one := range items {
		if Equal(one, item) {
			n++
		}
	}
	return n
}

// Append is `v.append(item)`.
func Append(v, item Value) error {
	l, ok := v.(*List)
	if !ok {
		return noAttribute(v, "append")
	}
	l.Items = append(l.Items, item)
	return nil
}

// Extend is `v.extend(items)`.
func Extend(v Value, items []Value) error {
	l, ok := v.(*List)
	if !ok {
		return noAttribute(v, "extend")
	}
	l.Items = append(l.Items, items...)
	return nil
}

// Lower is `v.lower()`.
func Lower(v Value) (string, error) {
	s, ok := v.(Str)
	if !ok {
		return "", noAttribute(v, "lower")
	}
	// Go maps the capital dotted I to a plain i, Python keeps its dot.
	return strings.ToLower(strings.ReplaceAll(string(s), "\u0130", "i\u0307")), nil
}
