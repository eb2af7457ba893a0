package calls

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// What a pace allows is submitted, in the order of the file, and no more of it.
func TestRunKeepsItsPace(t *testing.T) {
	pool := newPool()
	var order []string
	pool.end = func(s messages.Submission) *messages.Result {
		order = append(order, s.Ref)
		return &messages.Result{Status: messages.Succeeded, Attempts: 1}
	}
	most, asked := 0, 0
	pace := func(_ time.Time, submitted int, s Summary) (int, time.Duration, error) {
		asked++
		under := submitted - s.Ended()
		most = max(most, under)
		switch {
		case submitted < 3:
			return 3 - submitted, 0, nil
		case s.Ended() < 3:
			return 0, 0, nil
		case asked%2 == 0:
			return 0, time.Millisecond, nil
		}
		return 10 - under, 0, nil
	}
	res := run(t, t.Context(), pool, write(t, echo(50)), false, Options{Pace: pace})
	if res.err != nil || res.summary.Succeeded != 50 {
		t.Fatalf("%+v, %v", res.summary, res.err)
	}
	if got := strings.Join(order, " "); !strings.HasPrefix(got, "0 1 2 3 4 ") || len(order) != 50 || most > 10 {
		t.Errorf("%d under way at most, in the order %s", most, got)
	}
}

// A pace that says no ends the run; a later one goes on, and repeats nothing.
func TestRunEndsWithItsPace(t *testing.T) {
	pool, path, stop := newPool(), write(t, echo(50)), errors.New("too many failed")
	first := run(t, t.Context(), pool, path, false, Options{Order: OrderDone, Pace: func(_ time.Time, submitted int, s Summary) (int, time.Duration, error) {
		switch {
		case submitted < 20:
			return 20 - submitted, 0, nil
		case s.Ended() < 20:
			return 0, 0, nil
		}
		return 0, 0, stop
	}})
	if !errors.Is(first.err, stop) || len(pool.accepted) != 20 || len(first.lines) != 20 {
		t.Fatalf("%v, %d submitted, %d lines", first.err, len(pool.accepted), len(first.lines))
	}
	again := run(t, t.Context(), pool, path, false, Options{Pace: func(_ time.Time, submitted int, _ Summary) (int, time.Duration, error) {
		if submitted < 20 {
			t.Errorf("a later session begins with %d submitted", submitted)
		}
		return 7, 0, nil
	}})
	if again.err != nil || again.summary.Succeeded != 50 || len(pool.accepted) != 50 {
		t.Errorf("%+v, %v, %d submitted", again.summary, again.err, len(pool.accepted))
	}
	for call, n := range pool.runs {
		if n != 1 {
			t.Errorf("call %s ran %d times", call, n)
		}
	}
}

func TestInputsAreFoundByTheirIds(t *testing.T) {
	path := write(t, echo(3)+`{"ref":"k","tool":"pay","key":"order-7","input":{"i":9}}`+"\n")
	if _, err := OpenInputs(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a journal: %v", err)
	}
	pool := newPool()
	res := run(t, t.Context(), pool, path, false, Options{})
	if res.err != nil {
		t.Fatal(res.err)
	}
	in, err := OpenInputs(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, l := range res.lines {
		s, ok, err := in.Call(l.Call)
		if want := pool.accepted[l.Call]; err != nil || !ok || s.Ref != l.Ref || string(s.Input) != string(want.Input) || s.Key != want.Key || s.Call != l.Call {
			t.Errorf("call %s: %+v, %v, %v", l.Ref, s, ok, err)
		}
	}
	if pool.accepted[res.lines[3].Call].Key != "order-7" {
		t.Error("the key of a line is not submitted")
	}
	if _, ok, err := in.Call("01890000-0000-7000-8000-000000000001"); ok || err != nil {
		t.Errorf("a call of another file: %v, %v", ok, err)
	}
}
