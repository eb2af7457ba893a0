package pyval_test

import (
	"fmt"
	"slices"
	"testing"

	"mulligan/examples/shop/pyval"
	"pgregory.net/rapid"
)

// A Dict behaves as a plain map beside a plain list of keys, below and above
// the size from which it keeps an index.
func TestDictAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &pyval.Dict{}
		var keys []string
		values := make(map[string]int)
		for i, op := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 80).Draw(t, "ops") {
			key := fmt.Sprint(rapid.IntRange(0, 25).Draw(t, "key"))
			switch op {
			case 0:
				d.Delete(key)
				delete(values, key)
				keys = slices.DeleteFunc(keys, func(k string) bool { return k == key })
			default:
				d.Set(key, pyval.NewInt(int64(i)))
				if _, ok := values[key]; !ok {
					keys = append(keys, key)
				}
				values[key] = i
			}
			checkDict(t, d, keys, values)
		}
		checkDict(t, d.Clone(), keys, values)
	})
}

func checkDict(t *rapid.T, d *pyval.Dict, keys []string, values map[string]int) {
	var got []string
	for k, v := range d.All() {
		got = append(got, k)
		if pyval.Text(v) != fmt.Sprint(values[k]) {
			t.Fatalf("%s holds %s, not %d", k, pyval.Text(v), values[k])
		}
		if w, ok := d.Get(k); !ok || !pyval.Equal(v, w) {
			t.Fatalf("Get(%s) = %v, %t", k, w, ok)
		}
	}
	if !slices.Equal(got, keys) || d.Len() != len(keys) {
		t.Fatalf("keys are %v, not %v", got, keys)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	original := decode(t, `{"list":[1,{"a":2}],"n":null}`)
	before := pyval.Dumps(original)
	clone := pyval.Clone(original).(*pyval.Dict)
	list, _ := clone.Get("list")
	inner := list.(*pyval.List).Items[1].(*pyval.Dict)
	inner.Set("a", pyval.Str("changed"))
	list.(*pyval.List).Items[0] = pyval.None{}
	clone.Set("n", pyval.Bool(true))
	if after := pyval.Dumps(original); after != before {
		t.Errorf("the original became %s", after)
	}
}
