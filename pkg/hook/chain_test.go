package hook_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mulligan/pkg/hook"
	"mulligan/pkg/messages"
)

func vetoing(name string, priority int, reason string, asked *[]string) hook.Hook {
	return hook.Hook{Name: name, Priority: priority, Before: func(context.Context, hook.Call) (string, error) {
		*asked = append(*asked, name)
		return reason, nil
	}}
}

func chain(t *testing.T, hooks ...hook.Hook) *hook.Chain {
	t.Helper()
	c, err := hook.NewChain(hooks...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Lower priorities first, equal ones in their order, and nobody after a veto.
func TestS6_T7_TheLowestPriorityIsAskedFirst(t *testing.T) {
	var asked []string
	c := chain(t, vetoing("late", 9, "no from late", &asked), vetoing("first", -1, "", &asked), vetoing("tie-a", 3, "", &asked),
		vetoing("tie-b", 3, "no from b", &asked), vetoing("zero", 0, "", &asked))
	v := c.Before(t.Context(), hook.Call{Tool: "t"})
	if want := []string{"first", "zero", "tie-a", "tie-b"}; !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	if v == nil || v.Hook != "tie-b" || v.Text() != "no from b" || v.Said() != `vetoed by hook "tie-b": no from b` {
		t.Errorf("%+v", v)
	}
	if got := c.Names(); !slices.Equal(got, []string{"first", "zero", "tie-a", "tie-b", "late"}) {
		t.Error(got)
	}
}

// However many there are.
func TestTiesKeepTheirOrder(t *testing.T) {
	var asked, want []string
	var all []hook.Hook
	for i := range 60 {
		all = append(all, vetoing(fmt.Sprint("h", i), 1-i%2, "", &asked))
	}
	for _, odd := range []int{1, 0} {
		for i := odd; i < 60; i += 2 {
			want = append(want, fmt.Sprint("h", i))
		}
	}
	chain(t, all...).Before(t.Context(), hook.Call{})
	if !slices.Equal(asked, want) {
		t.Errorf("%v", asked)
	}
}

// A guard that is broken keeps the door shut, and says whose fault it is.
func TestS6_T7_AHookThatCannotBeAskedVetoes(t *testing.T) {
	for name, before := range map[string]func(context.Context, hook.Call) (string, error){
		"error": func(context.Context, hook.Call) (string, error) { return "", errors.New("the list is not there") },
		"panic": func(context.Context, hook.Call) (string, error) { panic("the list is not there") },
		"nil": func(_ context.Context, c hook.Call) (string, error) {
			panic(fmt.Sprint("the list is not there", c.Labels["x"]))
		},
	} {
		v := chain(t, hook.Hook{Name: "guard", Before: before}).Before(t.Context(), hook.Call{})
		if v == nil || v.Hook != "guard" || v.Err == nil || !strings.Contains(v.Text(), `hook "guard" could not say`) ||
			!strings.Contains(v.Text(), "the list is not there") || v.Said() != v.Text() {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestAReasonIsBounded(t *testing.T) {
	long := strings.Repeat("é", 5000)
	c := chain(t, hook.Hook{Name: "h", Before: func(context.Context, hook.Call) (string, error) { return long + "\xff", nil }})
	if got := c.Before(t.Context(), hook.Call{}).Text(); len(got) > 2000 || !strings.HasPrefix(long, got) {
		t.Errorf("%d bytes", len(got))
	}
}

func TestHooksChangeNothingThatOthersSee(t *testing.T) {
	input, labels := []byte(`{"a":1}`), messages.Labels{"team": "a"}
	spoil := func(c hook.Call) {
		c.Input[0] = 'X'
		c.Labels["team"] = "spoilt"
	}
	var seen []string
	look := func(c hook.Call) { seen = append(seen, string(c.Input)+c.Labels["team"]) }
	c := chain(t,
		hook.Hook{Name: "spoil", Before: func(_ context.Context, c hook.Call) (string, error) { spoil(c); return "", nil },
			After: func(_ context.Context, a hook.Attempt) { spoil(a.Call) }},
		hook.Hook{Name: "look", Before: func(_ context.Context, c hook.Call) (string, error) { look(c); return "", nil },
			After: func(_ context.Context, a hook.Attempt) { look(a.Call) }})
	call := hook.Call{Input: input, Labels: labels}
	if v := c.Before(t.Context(), call); v != nil {
		t.Error(v)
	}
	if err := c.After(t.Context(), hook.Attempt{Call: call}); err != nil {
		t.Error(err)
	}
	look(call)
	if want := []string{`{"a":1}a`, `{"a":1}a`, `{"a":1}a`}; !slices.Equal(seen, want) {
		t.Errorf("%q", seen)
	}
}

// One observer that panics does not keep the next from being told.
func TestAllObserversAreTold(t *testing.T) {
	var told []string
	c := chain(t,
		hook.Hook{Name: "bad", Priority: 1, After: func(context.Context, hook.Attempt) { panic("oh") }},
		hook.Hook{Name: "good", Priority: 2, After: func(_ context.Context, a hook.Attempt) { told = append(told, a.Tool+string(a.Code)) }})
	err := c.After(t.Context(), hook.Attempt{Call: hook.Call{Tool: "t"}, Code: messages.CodePanic})
	if err == nil || !strings.Contains(err.Error(), `hook "bad": panic: oh`) || !slices.Equal(told, []string{"tpanic"}) {
		t.Error(err, told)
	}
}

func TestAChainNamesTheHookThatCannotBeUsed(t *testing.T) {
	ok := func(context.Context, hook.Call) (string, error) { return "", nil }
	for want, hooks := range map[string][]hook.Hook{
		`hook 1: name "a b" must be letters`:              {{Name: "a b", Before: ok}},
		`hook 2: name "" must be letters`:                 {{Name: "a", Before: ok}, {Before: ok}},
		`hook 2: name "a" is that of another hook`:        {{Name: "a", Before: ok}, {Name: "a", Before: ok}},
		`hook "a" does nothing: give it Before or After`:  {{Name: "a"}},
		fmt.Sprintf("%d hooks; at most", hook.MaxHooks+1): make([]hook.Hook, hook.MaxHooks+1),
	} {
		if _, err := hook.NewChain(hooks...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestNoChainAsksNobody(t *testing.T) {
	var c *hook.Chain
	if c.Vetoes() || c.Observes() || c.UsesTask() || c.UsesInput() || c.Names() != nil {
		t.Error("a chain of none does something")
	}
	n := testing.AllocsPerRun(1000, func() {
		if c.Before(t.Context(), hook.Call{}) != nil || c.After(t.Context(), hook.Attempt{}) != nil {
			t.Error("vetoed")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
