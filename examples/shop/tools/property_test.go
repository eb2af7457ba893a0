package tools_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mulligan/examples/shop/tools"
	"pgregory.net/rapid"
)

// someJSON draws any JSON value, often an id that the small data knows.
func someJSON(depth int) *rapid.Generator[any] {
	known := rapid.SampledFrom([]any{
		"#W1000001", "#W1000002", "#W1000003", "#W1000005", "ada_sample_1001", "ada_sample_2001", "bo_sample_2002",
		"MUL4A1", "MUL5B2", "MUL001", "MUL003", "2024-05-20", "2024-05-21", "SFO", "JFK", "economy", "business", "yes",
		"credit_card_1000001", "gift_card_1000002", "gift_card_1000004", "gift_card_2000002", "certificate_2000003",
		"3000000011", "3000000012", "3000000021", "3000000022", "no longer needed",
	})
	plain := rapid.SampledFrom([]any{nil, true, false, 0, 1, 2, -1, 99, 0.5, 1e17, "", "x", "é", json.Number("100000000000000000000000")})
	if depth == 0 {
		return rapid.OneOf(known, known, plain)
	}
	inner := someJSON(depth - 1)
	names := []string{"flight_number", "date", "payment_id", "amount", "price", "x"}
	return rapid.OneOf(known, known, plain,
		rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(inner, 0, 3).Draw(t, "list") }),
		rapid.Custom(func(t *rapid.T) any {
			return rapid.MapOfN(rapid.SampledFrom(names), inner, 0, 4).Draw(t, "object")
		}))
}

// everything is the state of a run as its lookups show it.
func everything(shop *tools.Shop, run string) string {
	var b strings.Builder
	look := func(tool, param string, ids ...string) {
		for _, id := range ids {
			output, _ := shop.Call(run, tool, fmt.Appendf(nil, "{%q:%q}", param, id))
			b.WriteString(output + "\n")
		}
	}
	look("retail/get_user_details", "user_id", "ada_sample_1001", "bo_sample_1002", "cy_sample_1003", "di_sample_1004")
	look("retail/get_order_details", "order_id", "#W1000001", "#W1000002", "#W1000003", "#W1000004", "#W1000005", "#W1000006", "#W1000007")
	look("retail/get_product_details", "product_id", "2000000001", "2000000002", "2000000003")
	look("airline/get_user_details", "user_id", "ada_sample_2001", "bo_sample_2002")
	look("airline/get_reservation_details", "reservation_id", "MUL4A1", "MUL5B2", "MUL6C3", "HATHAT", "HATHAU", "HATHAV")
	return b.String()
}

// Whatever the arguments, a tool answers; it changes something only if it is a
// writer that succeeds, which is exactly when the witness hears of it; and the
// data of other runs stays fresh.
func TestAnyArguments(t *testing.T) {
	l := &ledger{}
	shop := smallShop(t, l)
	fresh := everything(shop, "fresh")
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		run := fmt.Sprint("run ", runs)
		before := everything(shop, run)
		for range rapid.IntRange(1, 8).Draw(rt, "calls") {
			spec := rapid.SampledFrom(tools.Tools()).Draw(rt, "tool")
			input := someInput(rt, spec)
			commits := len(l.commits)
			output, isError := shop.Call(run, spec.Name, input)
			after := everything(shop, run)
			committed := len(l.commits) > commits
			if wanted := !isError && spec.Effect == tools.Unsafe; committed != wanted {
				rt.Fatalf("%s(%s) = %s: witnessed %t", spec.Name, input, output, committed)
			}
			if !committed && after != before {
				rt.Fatalf("%s(%s) = %s changed the state", spec.Name, input, output)
			}
			if isError != (strings.HasPrefix(output, "Error: ")) {
				rt.Fatalf("%s(%s) = %s, error %t", spec.Name, input, output, isError)
			}
			before = after
		}
	})
	if everything(shop, "fresh") != fresh || everything(shop, "another") != fresh {
		t.Error("a run saw the changes of others")
	}
}

func someInput(rt *rapid.T, spec tools.Spec) []byte {
	var schema struct{ Required []string }
	if err := json.Unmarshal(spec.Schema, &schema); err != nil {
		rt.Fatal(err)
	}
	in := make(map[string]any)
	for _, name := range schema.Required {
		if !rapid.Custom(func(t *rapid.T) bool { return rapid.IntRange(0, 30).Draw(t, "left out") == 30 }).Draw(rt, "gap") {
			in[name] = someJSON(2).Draw(rt, name)
		}
	}
	input, err := json.Marshal(in)
	if err != nil {
		rt.Fatal(err)
	}
	return input
}

// FuzzCall throws bytes at every tool.
func FuzzCall(f *testing.F) {
	shop := smallShop(f, nil)
	for i, s := range tools.Tools() {
		f.Add(uint8(i), []byte(`{}`))
		if s.Name == "airline/book_reservation" {
			f.Add(uint8(i), []byte(booking))
		}
	}
	specs := tools.Tools()
	names := make([]string, 0, len(specs))
	for _, s := range specs {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	f.Fuzz(func(t *testing.T, tool uint8, input []byte) {
		shop.Call("r", names[int(tool)%len(names)], input)
	})
}
