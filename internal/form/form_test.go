package form

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mulligan/internal/schema"
)

func TestCanonicalNumbers(t *testing.T) {
	for _, same := range [][]string{
		{"1", "1.0", "1.000", "1e0", "10e-1", "0.1E+1"},
		{"0", "-0", "0.0", "0e9"},
		{"9007199254740993", "9007199254740993.0"},
		{"100", "1e2", "1E2"},
		{"-12.5", "-1.25e1"},
	} {
		for _, s := range same {
			if got, want := Canonical(json.Number(s)), Canonical(json.Number(same[0])); got != want {
				t.Errorf("%s is %s, %s is %s", s, got, same[0], want)
			}
		}
	}
	for _, other := range [][2]string{{"9007199254740993", "9007199254740992"}, {"1", "-1"}, {"1.5", "15"}, {"1e2", "1e3"}, {"1e999999999", "1e999999998"}} {
		if Canonical(json.Number(other[0])) == Canonical(json.Number(other[1])) {
			t.Errorf("%s and %s are one", other[0], other[1])
		}
	}
}

func TestNear(t *testing.T) {
	for _, p := range [][2]string{
		{"orderId", "order_id"}, {"order-id", "order_id"}, {"dob", "date_of_birth"}, {"id", "payment_id"}, {"zip", "zip_code"},
		{"desc", "description"}, {"lat", "latitude"}, {"lng", "longitude"}, {"q", "query"}, {"qty", "quantity"}, {"path", "file_path"},
		{"oder_id", "order_id"}, {"item_id", "item_ids"}, {"adress", "address"}, {"email", "email_address"}, {"max_res", "max_results"},
	} {
		if !Near(p[0], p[1]) || !Near(p[1], p[0]) {
			t.Errorf("%s and %s are not near", p[0], p[1])
		}
	}
	for _, p := range [][2]string{
		{"min_price", "max_price"}, {"date1", "date2"}, {"from", "to"}, {"from_account", "to_account"}, {"source", "target"}, {"", ""}, {"a", "b"},
		{"id", "date"}, {"name", "amount"}, {"buyer", "seller"}, {"user_id", "order_id"}, {"id", "item_description"}, {"credit", "debit"},
		{strings.Repeat("a", 200), strings.Repeat("a", 199)},
	} {
		if Near(p[0], p[1]) || Near(p[1], p[0]) {
			t.Errorf("%s and %s are near", p[0], p[1])
		}
	}
}

func TestNearest(t *testing.T) {
	from := []string{"economy", "business", "basic_economy", "buy", "bury", "item1", "item2"}
	for _, c := range []struct {
		s, want   string
		exact, ok bool
	}{
		{"Economy", "economy", true, true}, {"basic economy", "basic_economy", true, true}, {"BASIC-ECONOMY", "basic_economy", true, true},
		{"econmy", "economy", false, true}, {"bussines", "business", false, true},
		{"buyy", "", false, false}, {"first", "", false, false}, {"", "", false, false}, {"item3", "", false, false}, {"b", "", false, false},
	} {
		got, exact, ok := Nearest(c.s, from)
		if got != c.want || exact != c.exact || ok != c.ok {
			t.Errorf("%q: %q %v %v", c.s, got, exact, ok)
		}
	}
	if _, _, ok := Nearest("A", []string{"a", "A ", "-a"}); ok {
		t.Error("chose among three that are equal but for marks")
	}
}

func TestCoreRefusesWhatIsNotOneWholeObject(t *testing.T) {
	for _, c := range []struct {
		in, core string
		ok       bool
	}{
		{`{"a":1}`, `{"a":1}`, true},
		{"Here you are: ```json\n{'a': 1}\n```", `{'a': 1}`, true},
		{"<tool_call>{\"a\":1}</tool_call>", `{"a":1}`, true},
		{`{"a": "he said "hi" there"}`, `{"a": "he said "hi" there"}`, true},
		{`{}{"a":1}`, `{}{"a":1}`, true},
		{`{"a":1} and then I shall stop`, "", false},
		{`{"a":1}{"b":2}`, "", false},
		{`{"a":1`, "", false},
		{`{"a":{"b":1}`, "", false},
		{`{"a":[{"b":1}, {"c":`, "", false},
		{`{"a":"x}`, "", false},
		{`nothing`, "", false},
		{`}{`, "", false},
		{``, "", false},
	} {
		core, ok := Core(c.in)
		if ok != c.ok || ok && core != c.core {
			t.Errorf("%q: %q %v", c.in, core, ok)
		}
	}
}

func TestFaithful(t *testing.T) {
	for _, c := range []struct {
		raw, repaired string
		want          bool
	}{
		{`{'b': 'x', "a": True, c: None,}`, `{"a":true,"b":"x","c":null}`, true},
		{`{"a": New York, "n": 12.50}`, `{"a":"New York","n":12.50}`, true},
		{`{"a": "he said "hi" there"}`, `{"a":"he said \"hi\" there"}`, true},
		{`{"a": "x\ny"}`, `{"a":"x\ny"}`, true},
		{`{"a": ["x" "y"]}`, `{"a":["x","y"]}`, true},
		{`{"from": 'A', "to": 'B'}`, `{"from":"B","to":"A"}`, false},
		{`{"a": ["x" "y"]}`, `{"a":["y","x"]}`, false},
		{`{"n": 9007199254740993,}`, `{"n":9007199254740992}`, false},
		{`{"n": 5,}`, `{"n":-5}`, false},
		{`{"a": 1, "b": 2,}`, `{"a":1}`, false},
		{`{"a": 1,}`, `{"a":1,"b":2}`, false},
		{`{"a": "x "y" z"}`, `{"a":"x","y":"z"}`, false},
		{`{"a": 'abc'}`, `{"a":"ABC"}`, false},
		{`{'a': '{x} [y], z'}`, `{"a":"{x} [y], z"}`, true},
		{`{'a': "{\"b\": 1}"}`, `{"a":"{\"b\": 1}"}`, true},
		{`{'a': "{\"b\": 1}"}`, `{"a":"{\"b\": 1"}`, false},
		{`{a: x{y}}`, `{"a":"x{y"}`, false},
		{`{"a": "x""b": "y"}`, `{"a":"x\"","b":"y"}`, false},
		{`{"a": , "b": "y"}`, `{"a":"b\": \"y"}`, false},
		{`{"a": NaN}`, `{"a":"NaN"}`, false},
		{`{"a": [-Infinity, undefined]}`, `{"a":["-Infinity","undefined"]}`, false},
		{`{"a": "NaN", b: 'undefined'}`, `{"a":"NaN","b":"undefined"}`, true},
	} {
		v, err := Decode([]byte(c.repaired))
		if err != nil {
			t.Fatal(err)
		}
		if got := Faithful(c.raw, v); got != c.want {
			t.Errorf("%s as %s: %v", c.raw, c.repaired, got)
		}
	}
}

func TestRelaxed(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{'a': True, "b": None, c: [1, 2.50, -3e4,], }`, `{"a":true,"b":null,"c":[1,2.50,-3e4]}`},
		{`{'note': 'a {b} [c], "d"'}`, `{"note":"a {b} [c], \"d\""}`},
		{`{'key': "{\"key\": 1}", 'it\'s': 'x\u00e9\ud83d\ude00'}`, `{"it's":"xé😀","key":"{\"key\": 1}"}`},
		{"{\"a\": \"x\ny\",\n 'b': (1, 2),\n}", `{"a":"x\ny","b":[1,2]}`},
		{`{"n": 9007199254740993}`, `{"n":9007199254740993}`},
		{`{}`, `{}`},
	} {
		v, ok := Relaxed(c.in)
		b, err := Encode(v)
		if !ok || err != nil || string(b) != c.want {
			t.Errorf("%s: %s, %v, want %s", c.in, b, ok, c.want)
		}
	}
	for _, in := range []string{
		``, `[1]`, `1`, `{`, `{"a"}`, `{"a":}`, `{"a":1 "b":2}`, `{"a" 1}`, `{"a":b}`, `{"a":'x}`, `{"a":1}}`, `{"a":1} x`, `{"a":1,"a":2}`, `{"a":("x")}`,
		`{"a":1_000}`, `{"a":.5}`, `{"a":+1}`, `{"a":01}`, `{,}`, `{"a":[,]}`, `{"a":"x"y"}`, "{\"a\":\"\xff\"}", `{"a":"\x41"}`, `{"a":"\u12"}`, `{"a":NaN}`, `{"a":1 /* x */}`, "{\"a\":1 // x\n}", "{\"a\":1} # x",
		strings.Repeat(`{"a":`, 9999),
	} {
		if v, ok := Relaxed(in); ok {
			t.Errorf("%.40s: %v", in, v)
		}
	}
}

func TestSubstance(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(`{"properties":{
		"order_id":{"type":"string"},"amount":{"type":"number"},"ids":{"type":"array","items":{"type":"string"}},"flag":{"type":"boolean"},
		"cabin":{"enum":["economy","business"]},"day":{"type":"string"},"from":{"type":"string"},"to":{"type":"string"},"kind":{"const":"k"},
		"list":{"type":"array","items":{"type":"object","properties":{"dob":{"type":"string"}}}},"opts":{"type":"object"},"note":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, old, new string
		form           bool
	}{
		{"nothing", `{"order_id":"W1"}`, `{"order_id":"W1"}`, true},
		{"number from text", `{"amount":"12.50"}`, `{"amount":12.5}`, true},
		{"text from number", `{"order_id":17}`, `{"order_id":"17"}`, true},
		{"list of one", `{"ids":"a"}`, `{"ids":["a"]}`, true},
		{"list in text", `{"ids":"[\"a\",\"b\"]"}`, `{"ids":["a","b"]}`, true},
		{"one of a list", `{"order_id":["W1"]}`, `{"order_id":"W1"}`, true},
		{"boolean", `{"flag":"True"}`, `{"flag":true}`, true},
		{"case of a listed value", `{"cabin":"Economy"}`, `{"cabin":"economy"}`, true},
		{"name", `{"orderId":"W1"}`, `{"order_id":"W1"}`, true},
		{"name and type", `{"orderIds":"W1","id":7}`, `{"ids":["W1"],"order_id":"7"}`, true}, // the values say which
		{"nested name", `{"list":[{"date_of_birth":"x"}]}`, `{"list":[{"dob":"x"}]}`, true},
		{"mark", `{"order_id":"W1"}`, `{"order_id":"#W1"}`, true},
		{"quotes", `{"order_id":"'W1' "}`, `{"order_id":"W1"}`, true},
		{"date", `{"day":"May 7, 2024"}`, `{"day":"2024-05-07"}`, true},
		{"silent null", `{"order_id":"W1","note":null}`, `{"order_id":"W1"}`, true},
		{"constant", `{}`, `{"kind":"k"}`, true},
		{"JSON in text and back", `{"opts":{"a":1}}`, `{"opts":"{\"a\": 1}"}`, true},

		{"id", `{"order_id":"W1"}`, `{"order_id":"W2"}`, false},
		{"case of an id", `{"order_id":"w1"}`, `{"order_id":"W1"}`, false},
		{"amount", `{"amount":12.5}`, `{"amount":125}`, false},
		{"sign", `{"amount":"-5"}`, `{"amount":5}`, false},
		{"leading zeros", `{"order_id":7}`, `{"order_id":"007"}`, false},
		{"zeros lost", `{"amount":"007"}`, `{"amount":7}`, false},
		{"point in text", `{"order_id":"1.5"}`, `{"order_id":"15"}`, false},
		{"big number", `{"amount":"9007199254740993"}`, `{"amount":9007199254740992}`, false},
		{"another listed value", `{"cabin":"economy"}`, `{"cabin":"business"}`, false},
		{"swap", `{"from":"A","to":"B"}`, `{"from":"B","to":"A"}`, false},
		{"far name", `{"receiver":"A"}`, `{"to":"A"}`, false},
		{"known name", `{"from":"A"}`, `{"to":"A"}`, false},
		{"added", `{"from":"A"}`, `{"from":"A","to":"B"}`, false},
		{"dropped", `{"from":"A","dry_run":true}`, `{"from":"A"}`, false},
		{"fewer elements", `{"ids":["a","b"]}`, `{"ids":["a"]}`, false},
		{"order of elements", `{"ids":["a","b"]}`, `{"ids":["b","a"]}`, false},
		{"ambiguous date", `{"day":"05/07/2024"}`, `{"day":"2024-05-07"}`, false},
		{"other date", `{"day":"May 7, 2024"}`, `{"day":"2024-05-08"}`, false},
	} {
		old, err1 := Decode([]byte(c.old))
		new, err2 := Decode([]byte(c.new))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got := Substance(old, new, s.Root(), ""); (got == "") != c.form {
			t.Errorf("%s: %s to %s: %q", c.name, c.old, c.new, got)
		}
	}
}

// Without a schema that names it, the error may say how a parameter is called.
func TestSubstanceOfANameThatTheErrorNames(t *testing.T) {
	old, new := map[string]any{"date_of_birth": "x"}, map[string]any{"dob": "x"}
	if why := Substance(old, new, schema.Node{}, "dob: field required"); why != "" {
		t.Error(why)
	}
	for _, said := range []string{"", "the dobby is required"} {
		if Substance(old, new, schema.Node{}, said) == "" {
			t.Errorf("%q names it", said)
		}
	}
	if Substance(old, map[string]any{"dob": "y"}, schema.Node{}, "dob: field required") == "" {
		t.Error("the value changed")
	}
}

func TestUnwrap(t *testing.T) {
	for _, c := range []struct {
		in string
		ok bool
	}{
		{`{"name":"t","arguments":{"a":1}}`, true},
		{`{"tool":"t","parameters":"{\"a\":1}"}`, true},
		{`{"name":"other","arguments":{"a":1}}`, false},
		{`{"name":"t","arguments":{"a":1},"x":1}`, false},
		{`{"name":"t","arguments":[1]}`, false},
		{`["t"]`, false},
	} {
		v, err := Decode([]byte(c.in))
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := Unwrap("t", v); ok != c.ok || ok && m["a"] != json.Number("1") {
			t.Errorf("%s: %v %v", c.in, m, ok)
		}
	}
}

// Whatever letters or digits of a value change, that is substance.
func TestAChangedIdIsSubstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[#@]?[A-Za-z0-9][A-Za-z0-9_.-]{0,12}`).Draw(t, "id")
		other := rapid.OneOf(
			rapid.StringMatching(`[#@]?[A-Za-z0-9][A-Za-z0-9_.-]{0,12}`),
			rapid.Custom(func(t *rapid.T) string { // one letter changed
				b := []byte(id)
				i := rapid.IntRange(0, len(b)-1).Draw(t, "i")
				b[i] = rapid.SampledFrom([]byte("abcXYZ0189")).Draw(t, "c")
				return string(b)
			})).Draw(t, "other")
		if Bare(id) == Bare(other) {
			t.Skip("the same id")
		}
		if _, same := Decode([]byte(id)); same == nil && IsNumber(id) && IsNumber(other) && Canonical(json.Number(id)) == Canonical(json.Number(other)) {
			t.Skip("the same number")
		}
		old := map[string]any{"order_id": id, "x": map[string]any{"l": []any{id}}}
		new := map[string]any{"order_id": other, "x": map[string]any{"l": []any{id}}}
		if Substance(old, new, schema.Node{}, "") == "" {
			t.Fatalf("%q to %q is called form", id, other)
		}
		new = map[string]any{"order_id": id, "x": map[string]any{"l": []any{other}}}
		if Substance(old, new, schema.Node{}, "") == "" {
			t.Fatalf("%q to %q is called form", id, other)
		}
	})
}

func FuzzForm(f *testing.F) {
	f.Add(`{'a': 1, "b": [x, "y]}`, `{"a":1}`)
	f.Add("```json\n{\"a\": \"\\u00e9\"}\n```", `{"a":"é"}`)
	f.Fuzz(func(t *testing.T, raw, other string) {
		core, ok := Core(raw)
		if ok && (!strings.HasPrefix(core, "{") || !strings.HasSuffix(core, "}")) {
			t.Fatalf("core %q", core)
		}
		v, err := Decode([]byte(other))
		if err != nil {
			return
		}
		_ = Faithful(raw, v)
		if m, ok := v.(map[string]any); ok { // whatever is JSON is read the same
			if got, ok := Relaxed(other); ok && !Equal(m, got) {
				t.Fatalf("%q is read as %v", other, got)
			}
		}
		if m, ok := Relaxed(raw); ok {
			if _, err := Encode(m); err != nil {
				t.Fatal(err)
			}
		}
		b, err := Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(b)
		if err != nil || !Equal(v, again) || Substance(v, again, schema.Node{}, "") != "" {
			t.Fatalf("%q does not survive: %q, %v", other, b, err)
		}
	})
}
