package pycalc

import (
	"math"
	"math/big"

	"mulligan/examples/shop/pyval"
)

// maxBits bounds the integers that an expression may build on its way. Python
// computes larger ones, and then mostly fails to make a float of them; here
// they fail at once and with that text.
const maxBits = 1 << 17

func (l literal) eval() (any, error) { return l.value, nil }

func (c call) eval() (any, error) {
	callee, err := c.callee.eval()
	if err != nil {
		return nil, err
	}
	if c.arg != nil {
		if _, err := c.arg.eval(); err != nil {
			return nil, err
		}
	}
	return nil, failf("'%s' object is not callable", typeOf(callee))
}

func (u unary) eval() (any, error) {
	v, err := u.operand.eval()
	if err != nil {
		return nil, err
	}
	if o, ok := v.(opaque); ok {
		if o == complexType {
			return o, nil
		}
		return nil, failf("bad operand type for unary %s: '%s'", u.op, o)
	}
	if u.op == "+" {
		return v, nil
	}
	return pyval.Neg(v.(pyval.Value))
}

func (b binary) eval() (any, error) {
	x, err := b.left.eval()
	if err != nil {
		return nil, err
	}
	y, err := b.right.eval()
	if err != nil {
		return nil, err
	}
	xo, opaqueX := x.(opaque)
	yo, opaqueY := y.(opaque)
	if opaqueX || opaqueY {
		return evalOpaque(b.op, x, y, xo, yo)
	}
	xi, intX := x.(pyval.Int)
	yi, intY := y.(pyval.Int)
	if intX && intY {
		return evalInts(b.op, xi, yi)
	}
	xf, err := pyval.ToFloat(x.(pyval.Value))
	if err != nil {
		return nil, err
	}
	yf, err := pyval.ToFloat(y.(pyval.Value))
	if err != nil {
		return nil, err
	}
	return evalFloats(b.op, xf, yf)
}

func typeOf(v any) string {
	if o, ok := v.(opaque); ok {
		return string(o)
	}
	return pyval.TypeName(v.(pyval.Value))
}

func evalInts(op string, x, y pyval.Int) (any, error) {
	a, b := x.Big(), y.Big()
	switch op {
	case "+":
		return pyval.BigInt(new(big.Int).Add(a, b)), nil
	case "-":
		return pyval.BigInt(new(big.Int).Sub(a, b)), nil
	case "*":
		if a.BitLen()+b.BitLen() > maxBits {
			return nil, failf("int too large to convert to float")
		}
		return pyval.BigInt(new(big.Int).Mul(a, b)), nil
	case "//":
		return floorDiv(a, b)
	case "/":
		return trueDiv(a, b)
	default:
		return powInts(x, y)
	}
}

func floorDiv(a, b *big.Int) (any, error) {
	if b.Sign() == 0 {
		return nil, failf("integer division or modulo by zero")
	}
	// big.Int has truncated and Euclidean division; a floor is the truncated
	// quotient, less one where the signs differ and something remains.
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if r.Sign() != 0 && r.Sign() != b.Sign() {
		q.Sub(q, big.NewInt(1))
	}
	return pyval.BigInt(q), nil
}

func trueDiv(a, b *big.Int) (any, error) {
	if b.Sign() == 0 {
		return nil, failf("division by zero")
	}
	f, _ := new(big.Rat).SetFrac(a, b).Float64()
	if math.IsInf(f, 0) {
		return nil, failf("integer division result too large for a float")
	}
	if f == 0 && b.Sign() < 0 && a.Sign() == 0 {
		return pyval.Float(math.Copysign(0, -1)), nil
	}
	return pyval.Float(f), nil
}

func powInts(x, y pyval.Int) (any, error) {
	a, b := x.Big(), y.Big()
	if b.Sign() < 0 {
		xf, err := pyval.ToFloat(x)
		if err != nil {
			return nil, err
		}
		yf, err := pyval.ToFloat(y)
		if err != nil {
			return nil, err
		}
		return powFloats(xf, yf)
	}
	if a.BitLen() > 1 && (b.BitLen() > 32 || int64(a.BitLen())*b.Int64() > maxBits) {
		return nil, failf("int too large to convert to float")
	}
	if a.BitLen() <= 1 {
		return pyval.BigInt(powUnit(a, b)), nil
	}
	return pyval.BigInt(new(big.Int).Exp(a, b, nil)), nil
}

// powUnit is a**b for an a of -1, 0 or 1, of which b may be of any size.
func powUnit(a, b *big.Int) *big.Int {
	switch {
	case b.Sign() == 0:
		return big.NewInt(1)
	case a.Sign() < 0 && b.Bit(0) == 0:
		return big.NewInt(1)
	default:
		return a
	}
}

func evalFloats(op string, a, b float64) (any, error) {
	switch op {
	case "+":
		return pyval.Float(a + b), nil
	case "-":
		return pyval.Float(a - b), nil
	case "*":
		return pyval.Float(a * b), nil
	case "/":
		if b == 0 {
			return nil, failf("float division by zero")
		}
		return pyval.Float(a / b), nil
	case "//":
		if b == 0 {
			return nil, failf("float floor division by zero")
		}
		return pyval.Float(floorFloats(a, b)), nil
	default:
		return powFloats(a, b)
	}
}

// floorFloats follows Python's float floor division, whose result is not always
// the floor of the quotient.
func floorFloats(a, b float64) float64 {
	mod := math.Mod(a, b)
	div := (a - mod) / b
	if mod != 0 && (b < 0) != (mod < 0) {
		div--
	}
	if div == 0 {
		return math.Copysign(0, a/b)
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor
}

func powFloats(a, b float64) (any, error) {
	switch {
	case a == 0 && b < 0:
		return nil, failf("0.0 cannot be raised to a negative power")
	case a < 0 && b != math.Floor(b) && !math.IsInf(a, 0) && !math.IsInf(b, 0):
		if math.IsInf(math.Pow(-a, b), 0) {
			return nil, failf("complex exponentiation")
		}
		return complexType, nil
	}
	f := pow(a, b)
	if math.IsInf(f, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0) {
		return nil, failf("(34, 'Numerical result out of range')")
	}
	return pyval.Float(f), nil
}

// pow is exact to the last digit for whole exponents, where math.Pow is not and
// a C library is; results from 1e15 on show it.
func pow(a, b float64) float64 {
	const maxExponent, precision = 4096, 512
	if b != math.Floor(b) || math.Abs(b) > maxExponent || a == 0 || math.IsInf(a, 0) || math.IsNaN(a) {
		return math.Pow(a, b)
	}
	result := new(big.Float).SetPrec(precision).SetInt64(1)
	square := new(big.Float).SetPrec(precision).SetFloat64(a)
	for n := uint(math.Abs(b)); n > 0; n >>= 1 {
		if n&1 == 1 {
			result.Mul(result, square)
		}
		square.Mul(square, square)
	}
	if b < 0 {
		result.Quo(new(big.Float).SetInt64(1), result)
	}
	f, _ := result.Float64()
	return f
}

// evalOpaque is an operation of which at least one side is opaque.
func evalOpaque(op string, x, y any, xo, yo opaque) (any, error) {
	_, intX := x.(pyval.Int)
	_, intY := y.(pyval.Int)
	switch {
	case op == "*" && (xo == tupleType && intY || yo == tupleType && intX):
		return tupleType, nil
	case op == "*" && xo == tupleType:
		return nil, failf("can't multiply sequence by non-int of type '%s'", typeOf(y))
	case op == "*" && yo == tupleType:
		return nil, failf("can't multiply sequence by non-int of type '%s'", typeOf(x))
	case op == "+" && xo == tupleType && yo == tupleType:
		return tupleType, nil
	case op == "+" && xo == tupleType:
		return nil, failf(`can only concatenate tuple (not "%s") to tuple`, typeOf(y))
	case op != "//" && isNumeric(xo) && isNumeric(yo):
		return complexType, nil
	case op == "**":
		op = "** or pow()"
	}
	return nil, failf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeOf(x), typeOf(y))
}

// isNumeric says whether a side is a number: complex, or not opaque at all.
func isNumeric(o opaque) bool { return o == complexType || o == "" }
