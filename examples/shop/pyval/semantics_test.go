package pyval_test

import (
	"math"
	"testing"

	"mulligan/examples/shop/pyval"
)

// result prints a value or the text of an exception.
func result(v pyval.Value, err error) string {
	if err != nil {
		return "raise " + err.Error()
	}
	return pyval.Repr(v)
}

func TestArith(t *testing.T) {
	for _, c := range []struct {
		a    string
		op   pyval.Op
		b    string
		want string
	}{
		{`1`, pyval.Add, `2`, `3`},
		{`1`, pyval.Add, `2.0`, `3.0`},
		{`0.1`, pyval.Add, `0.2`, `0.30000000000000004`},
		{`true`, pyval.AddTo, `true`, `2`},
		{`10`, pyval.Sub, `12`, `-2`},
		{`100000000000000000000`, pyval.Mul, `100000000000000000000`, `10000000000000000000000000000000000000000`},
		{`50`, pyval.Mul, `1.5`, `75.0`},
		{`1`, pyval.AddTo, `"x"`, `raise unsupported operand type(s) for +=: 'int' and 'str'`},
		{`1.5`, pyval.Mul, `null`, `raise unsupported operand type(s) for *: 'float' and 'NoneType'`},
		{`{}`, pyval.Sub, `true`, `raise unsupported operand type(s) for -: 'dict' and 'bool'`},
		{`1` + zeros(400), pyval.Add, `1.5`, `raise int too large to convert to float`},
	} {
		if got := result(pyval.Arith(c.op, decode(t, c.a), decode(t, c.b))); got != c.want {
			t.Errorf("%s %s %s = %s, want %s", c.a, c.op, c.b, got, c.want)
		}
	}
}

func zeros(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0'
	}
	return string(b)
}

func TestCompare(t *testing.T) {
	for _, c := range []struct{ a, b, less string }{
		{`1`, `2`, `True`},
		{`2`, `1.5`, `False`},
		{`9007199254740993`, `9007199254740992.0`, `False`},
		{`9007199254740992.0`, `9007199254740993`, `True`},
		{`"a"`, `"b"`, `True`},
		{`true`, `2`, `True`},
		{`1`, `"2"`, `raise '<' not supported between instances of 'int' and 'str'`},
		{`null`, `1`, `raise '<' not supported between instances of 'NoneType' and 'int'`},
	} {
		less, err := pyval.Less(decode(t, c.a), decode(t, c.b))
		if got := result(pyval.Bool(less), err); got != c.less {
			t.Errorf("%s < %s is %s, want %s", c.a, c.b, got, c.less)
		}
	}
	nan := pyval.Float(math.NaN())
	if less, err := pyval.Less(nan, nan); less || err != nil || pyval.Equal(nan, nan) {
		t.Error("NaN is neither below nor equal to itself")
	}
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true}, {`1`, `true`, true}, {`0`, `false`, true}, {`1`, `"1"`, false},
		{`null`, `null`, true}, {`null`, `0`, false}, {`[1,2]`, `[1.0,2]`, true}, {`[1]`, `[1,2]`, false},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true}, {`{"a":1}`, `{"b":1}`, false}, {`{}`, `[]`, false},
		{`"a"`, `"a"`, true}, {`[]`, `"a"`, false},
	} {
		if got := pyval.Equal(decode(t, c.a), decode(t, c.b)); got != c.want {
			t.Errorf("%s == %s is %t", c.a, c.b, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"round half to even", pyval.Text(pyval.Round2(pyval.Float(0.125))), "0.12"},
		{"round by exact value", pyval.Text(pyval.Round2(pyval.Float(2.675))), "2.67"},
		{"round up", pyval.Text(pyval.Round2(pyval.Float(0.375))), "0.38"},
		{"round to minus zero", pyval.Text(pyval.Round2(pyval.Float(-0.001))), "-0.0"},
		{"round an int", pyval.Text(pyval.Round2(pyval.NewInt(7))), "7"},
		{"round an infinity", pyval.Text(pyval.Round2(pyval.Float(math.Inf(1)))), "inf"},
		{"abs", pyval.Text(pyval.Abs(pyval.Float(-1.5))), "1.5"},
		{"abs of an int", pyval.Text(pyval.Abs(pyval.NewInt(-2))), "2"},
		{"neg of a bool", result(pyval.Neg(pyval.Bool(true))), "-1"},
		{"neg of a text", result(pyval.Neg(pyval.Str("x"))), "raise bad operand type for unary -: 'str'"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
}

func TestParseInt(t *testing.T) {
	for text, want := range map[string]string{
		`"20"`: "20", `" 5"`: "5", `"+5"`: "5", `"-3"`: "-3",
		`"xx"`: "raise invalid literal for int() with base 10: 'xx'",
		`""`:   "raise invalid literal for int() with base 10: ''",
		`"+-"`: "raise invalid literal for int() with base 10: '+-'",
		`[]`:   "raise int() argument must be a string, a bytes-like object or a real number, not 'list'",
	} {
		n, err := pyval.ParseInt(decode(t, text))
		var got string
		if err != nil {
			got = "raise " + err.Error()
		} else {
			got = pyval.Text(n)
		}
		if got != want {
			t.Errorf("int(%s) is %s, want %s", text, got, want)
		}
	}
}

func TestRepr(t *testing.T) {
	for text, want := range map[string]string{
		`"a"`: `'a'`, `"it's"`: `"it's"`, `"it's \"x\""`: `'it\'s "x"'`,
		`"é\n\u0007\u2028"`: `'é\n\x07\u2028'`, `"\ud83d"`: `'\ud83d'`, `"\udb80\udc00"`: `'\U000f0000'`,
		`[1,"a",null,true,1.0,{"k":[]}]`: `[1, 'a', None, True, 1.0, {'k': []}]`,
	} {
		if got := pyval.Repr(decode(t, text)); got != want {
			t.Errorf("repr(%s) is %s, want %s", text, got, want)
		}
	}
}

func TestAccess(t *testing.T) {
	dict := decode(t, `{"a":1}`)
	contains := func(container, item string) string {
		ok, err := pyval.Contains(decode(t, container), decode(t, item))
		return result(pyval.Bool(ok), err)
	}
	length := func(text string) string {
		n, err := pyval.Len(decode(t, text))
		return result(pyval.NewInt(int64(n)), err)
	}
	count := func(v, item string) string {
		n, err := pyval.Count(decode(t, v), decode(t, item))
		return result(pyval.NewInt(int64(n)), err)
	}
	iterate := func(text string) string {
		items, err := pyval.Iterate(decode(t, text))
		return result(pyval.NewList(items...), err)
	}
	lower := func(text string) string {
		s, err := pyval.Lower(decode(t, text))
		return result(pyval.Str(s), err)
	}
	item := func(text string) string { return result(pyval.Item(decode(t, text), "a")) }
	index := func(key string) string { return result(pyval.Index(dict.(*pyval.Dict), decode(t, key))) }
	lastTwo := func(text string) string { return result(pyval.LastTwo(decode(t, text))) }
	for _, c := range []struct{ what, got, want string }{
		{"key in dict", contains(`{"a":1}`, `"a"`), `True`},
		{"int in dict", contains(`{"1":1}`, `1`), `False`},
		{"list in dict", contains(`{}`, `[]`), `raise unhashable type: 'list'`},
		{"item in list", contains(`[1]`, `1.0`), `True`},
		{"text in text", contains(`"gift_card_1"`, `"gift_card"`), `True`},
		{"int in text", contains(`"a"`, `1`), `raise 'in <string>' requires string as left operand, not int`},
		{"in int", contains(`1`, `1`), `raise argument of type 'int' is not iterable`},
		{"item of dict", item(`{"a":1}`), `1`},
		{"missing item", item(`{}`), `raise 'a'`},
		{"item of list", item(`[]`), `raise list indices must be integers or slices, not str`},
		{"item of text", item(`"a"`), `raise string indices must be integers, not 'str'`},
		{"item of null", item(`null`), `raise 'NoneType' object is not subscriptable`},
		{"index", index(`"a"`), `1`},
		{"index by int", index(`7`), `raise 7`},
		{"index by dict", index(`{}`), `raise unhashable type: 'dict'`},
		{"len", length(`"é🛗\ud83d"`), `3`},
		{"len of dict", length(`{"a":1}`), `1`},
		{"len of bool", length(`true`), `raise object of type 'bool' has no len()`},
		{"count", count(`["a","b","a"]`, `"a"`), `2`},
		{"count in text", count(`"aba"`, `"a"`), `2`},
		{"count in dict", count(`{"a":1}`, `"a"`), `raise 'dict' object has no attribute 'count'`},
		{"for in dict", iterate(`{"b":1,"a":2}`), `['b', 'a']`},
		{"for in text", iterate(`"aé"`), `['a', 'é']`},
		{"for in int", iterate(`5`), `raise 'int' object is not iterable`},
		{"lower", lower(`"ÄB\u0130"`), `'äbi̇'`},
		{"lower of null", lower(`null`), `raise 'NoneType' object has no attribute 'lower'`},
		{"last two", lastTwo(`"2024-05-20"`), `'20'`},
		{"last two of one", lastTwo(`"2"`), `'2'`},
		{"last two of list", lastTwo(`[1,2,3]`), `[2, 3]`},
		{"last two of dict", lastTwo(`{}`), `raise unhashable type: 'slice'`},
		{"last two of int", lastTwo(`5`), `raise 'int' object is not subscriptable`},
		{"append to text", result(pyval.None{}, pyval.Append(pyval.Str(""), dict)), `raise 'str' object has no attribute 'append'`},
		{"extend a dict", result(pyval.None{}, pyval.Extend(dict, nil)), `raise 'dict' object has no attribute 'extend'`},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, c.got, c.want)
		}
	}
}
