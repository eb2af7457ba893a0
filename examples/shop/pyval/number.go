package pyval

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Op names an operator as Python's error texts print it.
type Op string

// The operators that the shop's tools use.
const (
	Add     Op = "+"
	AddTo   Op = "+="
	Sub     Op = "-"
	SubFrom Op = "-="
	Mul     Op = "*"
)

// Arith is `a op b` for numbers (a bool is one). Anything else is the TypeError
// that Python raises for operands of which at least one is a number.
func Arith(op Op, a, b Value) (Value, error) {
	x, okX := number(a)
	y, okY := number(b)
	if !okX || !okY {
		return nil, raise("unsupported operand type(s) for %s: '%s' and '%s'", op, a.pyType(), b.pyType())
	}
	xi, intX := x.(Int)
	yi, intY := y.(Int)
	if intX && intY {
		return Int{arithInt(op, xi.n, yi.n)}, nil
	}
	xf, err := ToFloat(x)
	if err != nil {
		return nil, err
	}
	yf, err := ToFloat(y)
	if err != nil {
		return nil, err
	}
	return Float(arithFloat(op, xf, yf)), nil
}

func arithInt(op Op, a, b *big.Int) *big.Int {
	switch op {
	case Add, AddTo:
		return new(big.Int).Add(a, b)
	case Sub, SubFrom:
		return new(big.Int).Sub(a, b)
	default:
		return new(big.Int).Mul(a, b)
	}
}

func arithFloat(op Op, a, b float64) float64 {
	switch op {
	case Add, AddTo:
		return a + b
	case Sub, SubFrom:
		return a - b
	default:
		return a * b
	}
}

// number returns v as an Int or a Float, if it is a number.
func number(v Value) (Value, bool) {
	switch v := v.(type) {
	case Int, Float:
		return v, true
	case Bool:
		if v {
			return NewInt(1), true
		}
		return NewInt(0), true
	default:
		return nil, false
	}
}

// ToFloat is `float(v)` for a number.
func ToFloat(v Value) (float64, error) {
	switch v := v.(type) {
	case Float:
		return float64(v), nil
	case Int:
		// A float64 of a big.Int rounds to nearest even, as Python does.
		f, _ := new(big.Float).SetInt(v.n).Float64()
		if math.IsInf(f, 0) {
			return 0, raise("int too large to convert to float")
		}
		return f, nil
	case Bool:
		if v {
			return 1, nil
		}
		return 0, nil
	default:
		return 0, raise("float() argument must be a string or a real number, not '%s'", v.pyType())
	}
}

// Neg is `-v`.
func Neg(v Value) (Value, error) {
	switch n, _ := number(v); n := n.(type) {
	case Int:
		return Int{new(big.Int).Neg(n.n)}, nil
	case Float:
		return -n, nil
	default:
		return nil, raise("bad operand type for unary -: '%s'", v.pyType())
	}
}

// Abs is `abs(v)` for a number.
func Abs(v Value) Value {
	switch n, _ := number(v); n := n.(type) {
	case Int:
		return Int{new(big.Int).Abs(n.n)}
	case Float:
		return Float(math.Abs(float64(n)))
	default:
		return v
	}
}

// Round2 is `round(v, 2)` for a number: the exact value, halves to even.
func Round2(v Value) Value {
	switch n, _ := number(v); n := n.(type) {
	case Int:
		return n
	case Float:
		return Float(roundFloat2(float64(n)))
	default:
		return v
	}
}

func roundFloat2(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return f
	}
	// Formatting rounds the exact binary value, halves to even, which is how
	// Python rounds; it cannot fail to read back.
	r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', 2, 64), 64)
	return r
}

// Less is `a < b`, for two numbers or two texts.
func Less(a, b Value) (bool, error) {
	sa, okA := a.(Str)
	sb, okB := b.(Str)
	if okA && okB {
		return sa < sb, nil
	}
	c, ordered, ok := compare(a, b)
	if !ok {
		return false, raise("'<' not supported between instances of '%s' and '%s'", a.pyType(), b.pyType())
	}
	return ordered && c < 0, nil
}

// Equal is `a == b`: numbers by value whatever their type, objects without
// regard to the order of their keys.
func Equal(a, b Value) bool {
	if c, ordered, ok := compare(a, b); ok {
		return ordered && c == 0
	}
	switch a := a.(type) {
	case None:
		_, ok := b.(None)
		return ok
	case Str:
		s, ok := b.(Str)
		return ok && a == s
	case *List:
		l, ok := b.(*List)
		return ok && equalLists(a, l)
	case *Dict:
		d, ok := b.(*Dict)
		return ok && equalDicts(a, d)
	default:
		return false
	}
}

func equalLists(a, b *List) bool {
	if len(a.Items) != len(b.Items) {
		return false
	}
	for i := range a.Items {
		if !Equal(a.Items[i], b.Items[i]) {
			return false
		}
	}
	return true
}

func equalDicts(a, b *Dict) bool {
	if a.Len() != b.Len() {
		return false
	}
	for k, v := range a.All() {
		w, ok := b.Get(k)
		if !ok || !Equal(v, w) {
			return false
		}
	}
	return true
}

// compare orders two numbers exactly, an integer against a float too. ok says
// that both are numbers, ordered that neither is NaN.
func compare(a, b Value) (c int, ordered, ok bool) {
	x, okX := number(a)
	y, okY := number(b)
	if !okX || !okY {
		return 0, false, false
	}
	xf, nanX := exact(x)
	yf, nanY := exact(y)
	if nanX || nanY {
		return 0, false, true
	}
	return xf.Cmp(yf), true, true
}

// exact returns a number without rounding.
func exact(v Value) (f *big.Float, nan bool) {
	switch v := v.(type) {
	case Int:
		return new(big.Float).SetInt(v.n), false
	case Float:
		if math.IsNaN(float64(v)) {
			return nil, true
		}
		return big.NewFloat(float64(v)), false
	default:
		return nil, true
	}
}

// ParseInt is `int(v)` for a text in ASCII; a list or an object is the
// TypeError that int() raises.
func ParseInt(v Value) (Int, error) {
	s, ok := v.(Str)
	if !ok {
		return Int{}, raise("int() argument must be a string, a bytes-like object or a real number, not '%s'", v.pyType())
	}
	digits := strings.TrimSpace(string(s))
	n, ok := new(big.Int).SetString(strings.TrimPrefix(digits, "+"), 10)
	if !ok || strings.HasPrefix(digits, "+-") {
		return Int{}, raise("invalid literal for int() with base 10: %s", Repr(v))
	}
	return Int{n}, nil
}
