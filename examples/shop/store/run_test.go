package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"mulligan/examples/shop/pyval"
	"mulligan/examples/shop/store"
	"pgregory.net/rapid"
)

const order = "#W1000001"

func setStatus(tx *store.Tx, status string) {
	record, _ := tx.Edit(store.RetailOrders, order)
	record.Set("status", pyval.Str(status))
}

func status(t *testing.T, run *store.Run) (s string) {
	t.Helper()
	read(t, run, func(tx *store.Tx) {
		record, _ := tx.Get(store.RetailOrders, order)
		s = text(record, "status")
	})
	return s
}

func TestRunsDoNotSeeEachOther(t *testing.T) {
	runs := small(t, 2)
	a, b := open(t, runs, "a"), open(t, runs, "b")
	read(t, a, func(tx *store.Tx) { setStatus(tx, "changed") })
	if got := status(t, a); got != "changed" {
		t.Errorf("run a sees %q of its own change", got)
	}
	if got := status(t, b); got != "pending" {
		t.Errorf("run b sees %q", got)
	}
	if again := open(t, runs, "a"); status(t, again) != "changed" {
		t.Error("run a starts afresh when it is opened again")
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	run := open(t, small(t, 1), "a")
	broken := errors.New("broken")
	err := run.Do(func(tx *store.Tx) error {
		setStatus(tx, "half done")
		tx.Put(store.RetailOrders, "#new", &pyval.Dict{})
		if record, _ := tx.Get(store.RetailOrders, order); text(record, "status") != "half done" {
			t.Error("a transaction does not see its own change")
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if got := status(t, run); got != "pending" {
		t.Errorf("the status is %q after a failure", got)
	}
	read(t, run, func(tx *store.Tx) {
		if _, ok := tx.Get(store.RetailOrders, "#new"); ok {
			t.Error("the added record is still there after a failure")
		}
		if _, ok := tx.Edit(store.RetailOrders, "#unknown"); ok {
			t.Error("an unknown record can be edited")
		}
	})
}

func TestTooManyRuns(t *testing.T) {
	runs := small(t, 1)
	open(t, runs, "a")
	if _, err := runs.Open("b"); !errors.Is(err, store.ErrTooManyRuns) {
		t.Errorf("a run beyond the limit gives %v", err)
	}
	open(t, runs, "a")
}

func TestCallsOfARunAreSerialised(t *testing.T) {
	runs := small(t, 2)
	const each = 200
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			run, err := runs.Open(fmt.Sprint(i % 2))
			if err != nil {
				t.Error(err)
				return
			}
			for range each {
				if err := run.Do(addOne); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, id := range []string{"0", "1"} {
		read(t, open(t, runs, id), func(tx *store.Tx) {
			record, _ := tx.Get(store.RetailOrders, order)
			if got := text(record, "count"); got != fmt.Sprint(4*each) {
				t.Errorf("run %s counted to %s, not to %d", id, got, 4*each)
			}
		})
	}
}

func addOne(tx *store.Tx) error {
	record, _ := tx.Edit(store.RetailOrders, order)
	old, ok := record.Get("count")
	if !ok {
		old = pyval.NewInt(0)
	}
	sum, err := pyval.Arith(pyval.Add, old, pyval.NewInt(1))
	record.Set("count", sum)
	return err
}

// A run behaves as a full copy of the data of which a failed transaction was
// never begun, in what it holds and in its order.
func TestRunAgainstCopy(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		run := open(t, small(t, 1), "a")
		model := &pyval.Dict{}
		read(t, run, func(tx *store.Tx) {
			for id, record := range tx.All(store.RetailUsers) {
				model.Set(id, record.Clone())
			}
		})
		failure := errors.New("failure")
		for range rapid.IntRange(1, 6).Draw(rt, "transactions") {
			fails := rapid.Bool().Draw(rt, "fails")
			draft := model.Clone()
			err := run.Do(func(tx *store.Tx) error {
				changeSome(rt, tx, draft)
				check(rt, tx, draft)
				if fails {
					return failure
				}
				return nil
			})
			if (err != nil) != fails {
				rt.Fatalf("the transaction gave %v", err)
			}
			if !fails {
				model = draft
			}
			read(t, run, func(tx *store.Tx) { check(rt, tx, model) })
		}
	})
}

func changeSome(rt *rapid.T, tx *store.Tx, model *pyval.Dict) {
	ids := []string{"ada_sample_1001", "bo_sample_1002", "new_1", "new_2", "new_3"}
	for range rapid.IntRange(0, 4).Draw(rt, "changes") {
		id := rapid.SampledFrom(ids).Draw(rt, "id")
		value := pyval.NewInt(rapid.Int64Range(0, 9).Draw(rt, "value"))
		if record, ok := tx.Edit(store.RetailUsers, id); ok {
			record.Set("x", value)
			own, _ := model.Get(id)
			own.(*pyval.Dict).Set("x", value)
			continue
		}
		tx.Put(store.RetailUsers, id, record(value))
		model.Set(id, record(value))
	}
}

func record(value pyval.Value) *pyval.Dict {
	d := &pyval.Dict{}
	d.Set("x", value)
	return d
}

func check(rt *rapid.T, tx *store.Tx, model *pyval.Dict) {
	seen := &pyval.Dict{}
	for id, record := range tx.All(store.RetailUsers) {
		if _, twice := seen.Get(id); twice {
			rt.Fatalf("record %s comes twice", id)
		}
		seen.Set(id, record)
	}
	if got, want := pyval.Dumps(seen), pyval.Dumps(model); got != want {
		rt.Fatalf("the run holds %s, not %s", got, want)
	}
	for range tx.All(store.RetailUsers) {
		break // an iteration that is left early must not go on
	}
}
