package tools_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"mulligan/examples/shop/data"
	"mulligan/examples/shop/store"
	"mulligan/examples/shop/tools"
)

// smallShop is a shop over the small data.
func smallShop(t testing.TB, witness tools.Witness) *tools.Shop {
	t.Helper()
	db, err := store.Load(data.Small())
	if err != nil {
		t.Fatal(err)
	}
	return tools.New(store.NewRuns(db, 100_000), witness)
}

// ok executes a call that must succeed.
func ok(t testing.TB, shop *tools.Shop, run, tool, input string) string {
	t.Helper()
	output, isError := shop.Call(run, tool, []byte(input))
	if isError {
		t.Fatalf("%s(%s): %s", tool, input, output)
	}
	return output
}

// field reads a path such as "payment_methods.card.balance" or "items.0.price"
// out of an answer, as JSON.
func field(t testing.TB, output, path string) string {
	t.Helper()
	raw := json.RawMessage(output)
	for step := range strings.SplitSeq(path, ".") {
		var list []json.RawMessage
		var object map[string]json.RawMessage
		var i int
		if json.Unmarshal(raw, &list) == nil {
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(list) {
				t.Fatalf("%s: no item %s in %s", path, step, raw)
			}
			raw = list[i]
			continue
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			t.Fatalf("%s: %v in %s", path, err, raw)
		}
		value, found := object[step]
		if !found {
			t.Fatalf("%s: no field %q in %s", path, step, raw)
		}
		raw = value
	}
	return string(raw)
}

func expect(t testing.TB, output string, fields map[string]string) {
	t.Helper()
	for path, want := range fields {
		if got := field(t, output, path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func TestSpecs(t *testing.T) {
	specs := tools.Tools()
	count := make(map[string]int)
	names := make(map[string]bool)
	for _, s := range specs {
		count[s.Domain+" "+s.Effect]++
		if names[s.Name] || !strings.HasPrefix(s.Name, s.Domain+"/") || s.Description == "" || !json.Valid(s.Schema) {
			t.Errorf("bad specification: %+v", s)
		}
		names[s.Name] = true
	}
	for kind, want := range map[string]int{
		"retail read_only": 9, "retail unsafe": 7, "airline read_only": 8, "airline unsafe": 6,
	} {
		if count[kind] != want {
			t.Errorf("%d tools are %s, not %d", count[kind], kind, want)
		}
	}
	if len(specs) != 30 {
		t.Errorf("there are %d tools", len(specs))
	}
}

func TestUnknownTool(t *testing.T) {
	shop := smallShop(t, nil)
	for tool, want := range map[string]string{
		"retail/buy_everything":    "Unknown action buy_everything",
		"airline/cancel_order":     "Unknown action cancel_order",
		"bank/calculate":           "Unknown action bank/calculate",
		"calculate":                "Unknown action calculate",
		"retail/list_all_airports": "Unknown action list_all_airports",
	} {
		if got, isError := shop.Call("r", tool, []byte("{}")); got != want || !isError {
			t.Errorf("%s: %q (error %t)", tool, got, isError)
		}
	}
}

func TestArgumentsAsPythonSeesThem(t *testing.T) {
	shop := smallShop(t, nil)
	for _, c := range []struct{ tool, input, want string }{
		{"retail/calculate", `{}`, `Calculate.invoke() missing 1 required positional argument: 'expression'`},
		{"retail/cancel_pending_order", `{}`, `CancelPendingOrder.invoke() missing 2 required positional arguments: 'order_id' and 'reason'`},
		{"retail/return_delivered_order_items", `{}`, `ReturnDeliveredOrderItems.invoke() missing 3 required positional arguments: 'order_id', 'item_ids', and 'payment_method_id'`},
		{"airline/update_reservation_baggages", `{"payment_id":"x"}`, `UpdateReservationBaggages.invoke() missing 3 required positional arguments: 'reservation_id', 'total_baggages', and 'nonfree_baggages'`},
		{"retail/get_order_details", `{"id":"#W1","order":2}`, `GetOrderDetails.invoke() got an unexpected keyword argument 'id'`},
		{"airline/list_all_airports", `{"x":1}`, `ListAllAirports.invoke() got an unexpected keyword argument 'x'`},
		{"retail/think", `{"thought":"t","data":1}`, `tau_bench.envs.retail.tools.think.Think.invoke() got multiple values for keyword argument 'data'`},
		{"retail/get_order_details", `{"order_id":["#W1000001"]}`, `unhashable type: 'list'`},
		{"retail/get_order_details", `{"order_id":1}`, `order not found`},
		{"retail/find_user_id_by_email", `{"email":null}`, `'NoneType' object has no attribute 'lower'`},
		{"retail/calculate", `{"expression":7}`, `'int' object is not iterable`},
		{"retail/calculate", `{"expression":["1","+1"]}`, `invalid characters in expression`},
		{"retail/calculate", `{"expression":["1","+"]}`, `eval() arg 1 must be a string, bytes or code object`},
		{"retail/calculate", `{"expression":[1]}`, `'in <string>' requires string as left operand, not int`},
		{"retail/calculate", `[]`, `the arguments must be a JSON object, not a list`},
		{"retail/calculate", `{"expression":`, `the arguments are no JSON: JSON, byte 14: a JSON value is missing`},
		{"retail/modify_pending_order_items", `{"order_id":"#W1000001","item_ids":"3","new_item_ids":[],"payment_method_id":"x"}`, `3 not found`},
		{"retail/modify_pending_order_items", `{"order_id":"#W1000001","item_ids":[],"new_item_ids":5,"payment_method_id":"x"}`, `object of type 'int' has no len()`},
		{"retail/modify_pending_order_items", `{"order_id":"#W1000001","item_ids":["\ud83d"],"new_item_ids":[],"payment_method_id":"x"}`, "\ufffd not found"},
		{"airline/search_onestop_flight", `{"origin":"JFK","destination":"SEA","date":"2024-05-xx"}`, `invalid literal for int() with base 10: 'xx'`},
		{"airline/search_onestop_flight", `{"origin":"JFK","destination":"SEA","date":20}`, `'int' object is not subscriptable`},
	} {
		got, isError := shop.Call("r", c.tool, []byte(c.input))
		if got != "Error: "+c.want || !isError {
			t.Errorf("%s(%s): got %q, want %q", c.tool, c.input, got, "Error: "+c.want)
		}
	}
}

func TestSharedTools(t *testing.T) {
	shop := smallShop(t, nil)
	for _, domain := range []string{tools.Retail, tools.Airline} {
		for _, c := range []struct{ tool, input, want string }{
			{"/think", `{"thought":"hm"}`, ""},
			{"/transfer_to_human_agents", `{"summary":"s"}`, "Transfer successful"},
			{"/calculate", `{"expression":"544.29 - 471.82"}`, "72.47"},
		} {
			if got := ok(t, shop, "r", domain+c.tool, c.input); got != c.want {
				t.Errorf("%s%s: got %q", domain, c.tool, got)
			}
		}
	}
}

// ledger is a witness that can be out of order.
type ledger struct {
	mu      sync.Mutex
	commits []tools.Commit
	err     error
}

func (l *ledger) Committed(c tools.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.commits = append(l.commits, c)
	}
	return l.err
}

const cancelFirst = `{"order_id":"#W1000001","reason":"no longer needed"}`

func TestWitnessSeesChangesOnly(t *testing.T) {
	l := &ledger{}
	shop := smallShop(t, l)
	do := func(tool, input string) tools.Answer {
		a, err := shop.Do(tools.Request{Run: "r", Call: "c", Key: "k", Tool: tool, Input: []byte(input)})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	do("retail/get_order_details", `{"order_id":"#W1000001"}`)
	do("retail/cancel_pending_order", `{"order_id":"#W1000001","reason":"bored"}`)
	if len(l.commits) != 0 {
		t.Fatalf("a lookup and a failure were recorded: %+v", l.commits)
	}
	do("retail/cancel_pending_order", cancelFirst)
	if second := do("retail/cancel_pending_order", cancelFirst); second.Output != "Error: non-pending order cannot be cancelled" {
		t.Errorf("the second cancellation says %q", second.Output)
	}
	if len(l.commits) != 1 {
		t.Fatalf("%d changes were recorded", len(l.commits))
	}
	c := l.commits[0]
	if c.Run != "r" || c.Call != "c" || c.Key != "k" || c.Tool != "retail/cancel_pending_order" || string(c.Input) != cancelFirst {
		t.Errorf("the change was recorded as %+v", c)
	}
}

func TestNothingChangesUnwitnessed(t *testing.T) {
	full := errors.New("disk full")
	l := &ledger{err: full}
	shop := smallShop(t, l)
	request := tools.Request{Run: "r", Call: "c", Tool: "retail/cancel_pending_order", Input: []byte(cancelFirst)}
	if _, err := shop.Do(request); !errors.Is(err, full) {
		t.Errorf("the error is %v", err)
	}
	expect(t, ok(t, shop, "r", "retail/get_order_details", `{"order_id":"#W1000001"}`), map[string]string{"status": `"pending"`})
	l.err = nil
	if a, err := shop.Do(request); err != nil || a.IsError {
		t.Errorf("afterwards: %+v, %v", a, err)
	}
}

func TestTooManyRuns(t *testing.T) {
	db, err := store.Load(data.Small())
	if err != nil {
		t.Fatal(err)
	}
	shop := tools.New(store.NewRuns(db, 1), nil)
	ok(t, shop, "a", "retail/think", `{"thought":""}`)
	_, err = shop.Do(tools.Request{Run: "b", Tool: "retail/think", Input: []byte(`{"thought":""}`)})
	if !errors.Is(err, store.ErrTooManyRuns) {
		t.Errorf("a run too many gives %v", err)
	}
}

// Of many bookings at once in one run each gets an id of its own, as if they
// had come one after the other.
func TestOneRunAtOnce(t *testing.T) {
	shop := smallShop(t, nil)
	var mu sync.Mutex
	ids := make(map[string]int)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			output, isError := shop.Call("r", "airline/book_reservation", []byte(booking))
			if isError {
				t.Error(output)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[field(t, output, "reservation_id")]++
		})
	}
	wg.Wait()
	if len(ids) != 3 {
		t.Errorf("the bookings got the ids %v", ids)
	}
}
