// Package pyval holds JSON values the way a Python process does: objects keep
// the order of their keys, integers have no upper limit and stay apart from
// floats, strings may hold lone surrogates. It prints them as json.dumps and
// str() print them, and fails as Python 3.11 fails, word for word.
//
// The shop's tools were recorded as a Python program. Whoever replays the
// recorded calls compares bytes, so the shop needs these semantics and not
// those of encoding/json.
//
// Values are safe for concurrent reading. [List] and [Dict] are mutable and
// must be owned by one goroutine while they are changed.
package pyval

import "math/big"

// Value is one of [None], [Bool], [Int], [Float], [Str], *[List] and *[Dict].
type Value interface {
	// pyType is the name Python gives the type in its error texts.
	pyType() string
}

type (
	// None is JSON null.
	None struct{}
	// Bool is true or false; in arithmetic it counts as 1 or 0.
	Bool bool
	// Int is an integer without an upper limit. Its zero value is invalid; use
	// [NewInt].
	Int struct{ n *big.Int }
	// Float is a double, infinities and NaN included.
	Float float64
	// Str is a text in UTF-8 that may hold lone surrogates, each as the three
	// bytes that UTF-8 would give it.
	Str string
	// List is an array.
	List struct{ Items []Value }
)

func (None) pyType() string  { return "NoneType" }
func (Bool) pyType() string  { return "bool" }
func (Int) pyType() string   { return "int" }
func (Float) pyType() string { return "float" }
func (Str) pyType() string   { return "str" }
func (*List) pyType() string { return "list" }
func (*Dict) pyType() string { return "dict" }

// TypeName is the name that Python's error texts give the type of v.
func TypeName(v Value) string { return v.pyType() }

// NewInt returns n as a Value.
func NewInt(n int64) Int { return Int{big.NewInt(n)} }

// BigInt returns n as a Value. The caller must not change n afterwards.
func BigInt(n *big.Int) Int { return Int{n} }

// Big returns the integer. The caller must not change it.
func (i Int) Big() *big.Int { return i.n }

// NewList returns a list of the items, which it takes over.
func NewList(items ...Value) *List { return &List{Items: items} }

// Clone returns a deep copy of v: no list or object is shared with the copy.
func Clone(v Value) Value {
	switch v := v.(type) {
	case *List:
		items := make([]Value, len(v.Items))
		for i, item := range v.Items {
			items[i] = Clone(item)
		}
		return &List{Items: items}
	case *Dict:
		return v.Clone()
	default:
		return v
	}
}
