package hook_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"mulligan/pkg/hook"
	"mulligan/pkg/messages"
)

func rules(t *testing.T, noted hook.Noted, list ...hook.Rule) *hook.Chain {
	t.Helper()
	c, err := hook.Compile(list, noted)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pay(input string) hook.Call {
	return hook.CallOf(messages.Call{
		ID: "c", Ref: "r-7", Run: messages.NamedRun("night shift"), Tool: "pay", OriginalTool: "charge", Queue: "money", Lane: messages.LaneHigh,
		Effect: messages.Unsafe, Attempt: 1, Dispatch: 2, Labels: messages.Labels{"team": "blue"}, Task: "pay the bill",
	}, []byte(input))
}

// An expression sees everything that there is to know of a call.
func TestS6_T7_AVetoByExpression(t *testing.T) {
	for when, vetoes := range map[string]bool{
		`tool == "pay"`:                                      true,
		`tool == "pay" && input.amount > 1000`:               true,
		`input.amount > 1500.5`:                              false,
		`input.to matches "^ACC-[0-9]+$"`:                    true,
		`input.items[1].sku == "b" and len(input.items) < 3`: true,
		`queue == "money" && lane == "high"`:                 true,
		`run == "night shift" && ref == "r-7"`:               true,
		`effect == "unsafe" && original_tool == "charge"`:    true,
		`attempt == 1 && dispatch == 2`:                      true,
		`labels.team == "blue" && labels.none == ""`:         true,
		`task contains "bill"`:                               true,
		`size > 20 && size < 100`:                            true,
		`tool in ["mail", "sms"]`:                            false,
		`tool == "mail" && input.amount > 1000`:              false,
		`(input.missing ?? 0) > 5`:                           false,
	} {
		c := rules(t, nil, hook.Rule{Name: "rule", When: when, Veto: "no"})
		v := c.Before(t.Context(), pay(`{"amount":1500,"to":"ACC-12","items":[{"sku":"a"},{"sku":"b"}]}`))
		if (v != nil) != vetoes || v != nil && (v.Reason != "no" || v.Err != nil) {
			t.Errorf("%s: %+v, want a veto: %v", when, v, vetoes)
		}
	}
}

// What cannot be decided is vetoed, but only by a rule that comes to it.
func TestS6_T7_AnExpressionThatCannotBeDecidedVetoes(t *testing.T) {
	c := rules(t, nil, hook.Rule{Name: "rule", When: `tool == "pay" && input.amount > 1000`, Veto: "no"})
	large := `{"amount":1,"x":"` + strings.Repeat("x", hook.MaxInput) + `"}`
	gone := pay("")
	gone.Input, gone.Size = nil, 300_000
	for name, tc := range map[string]struct {
		call hook.Call
		want string
	}{
		"missing": {pay(`{}`), "<nil> > int"},
		"text":    {pay(`{"amount":"much"}`), "string > int"},
		"huge":    {pay(`{"amount":123456789012345678901234567890}`), "string > int"},
		"array":   {pay(`[1]`), "not a JSON object"},
		"garbage": {pay(`{"amount`), "not JSON"},
		"large":   {pay(large), "expressions look into 1048576 at most"},
		"gone":    {gone, "not stored any more"},
	} {
		v := c.Before(t.Context(), tc.call)
		if v == nil || v.Err == nil || !strings.Contains(v.Text(), tc.want) || !strings.Contains(v.Text(), `hook "rule" could not say`) {
			t.Errorf("%s: %+v, want %s", name, v, tc.want)
		}
		tc.call.Tool = "mail"
		if v := c.Before(t.Context(), tc.call); v != nil {
			t.Errorf("%s: the rule is not for this tool: %+v", name, v)
		}
	}
	apart := pay(`{}`)
	apart.Task, apart.TaskApart = "", true
	if v := rules(t, nil, hook.Rule{Name: "rule", When: `task contains "x"`, Veto: "no"}).Before(t.Context(), apart); v == nil || v.Err == nil {
		t.Errorf("%+v", v)
	}
}

// What rules may spend on regular expressions is bounded for all together.
func TestS6_T7_MatchingIsBoundedForAllRules(t *testing.T) {
	var list []hook.Rule
	for i := range 40 {
		list = append(list, hook.Rule{Name: fmt.Sprint("r", i), When: `input.x matches "x{900}"`, Veto: "no"})
	}
	v := rules(t, nil, list...).Before(t.Context(), pay(`{"x":"`+strings.Repeat("a", 5000)+`"}`))
	if v == nil || v.Err == nil || !strings.Contains(v.Text(), "too much work") || v.Hook == "r0" {
		t.Errorf("%+v", v)
	}
}

// An input is read once, however many rules look into it.
func TestAnInputIsReadOnce(t *testing.T) {
	big := pay(`{"list":[` + strings.Repeat(`{"a":"b"},`, 2000) + `{}],"amount":5}`)
	cost := func(n int) float64 {
		var list []hook.Rule
		for i := range n {
			list = append(list, hook.Rule{Name: fmt.Sprint("r", i), When: "input.amount > 9", Veto: "no"})
		}
		c := rules(t, nil, list...)
		return testing.AllocsPerRun(5, func() { c.Before(t.Context(), big) })
	}
	if one, ten := cost(1), cost(10); ten > 2*one {
		t.Errorf("%v allocations for ten rules, %v for one", ten, one)
	}
}

func TestANoteSeesHowAnAttemptEnded(t *testing.T) {
	a := hook.Failed(pay(`{"amount":5}`), messages.Failure{Code: messages.CodeTimeout, Error: "took too long", Ambiguous: true, Executed: true,
		Duration: messages.Millis(1500 * time.Millisecond), Worker: "w1"})
	ok := hook.Succeeded(pay(`{"amount":5}`), messages.Result{Duration: messages.Millis(2 * time.Second), Worker: "w2"})
	late := ok
	late.Late = true
	for when, want := range map[string][]bool{
		`outcome == "failed" && code == "timeout"`:                              {true, false, false},
		`error contains "too long" && took_ms >= 1500 && ambiguous && executed`: {true, false, false},
		`outcome == "succeeded" && took_ms == 2000 && worker == "w2"`:           {false, true, true},
		`late`:                              {false, false, true},
		`tool == "pay" && input.amount < 9`: {true, true, true},
	} {
		var got []bool
		c := rules(t, func(hook.Rule, hook.Attempt, error) { got[len(got)-1] = true }, hook.Rule{Name: "n", When: when, Note: "look"})
		for _, x := range []hook.Attempt{a, ok, late} {
			got = append(got, false)
			if err := c.After(t.Context(), x); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	var failed error
	c := rules(t, func(_ hook.Rule, _ hook.Attempt, err error) { failed = err }, hook.Rule{Name: "n", When: `input.none > 3`, Note: "look"})
	if err := c.After(t.Context(), a); err != nil || failed == nil {
		t.Errorf("a note that cannot be decided says nothing: %v", failed)
	}
}

func TestRulesNameWhatIsWrongAndTheWayOut(t *testing.T) {
	for document, want := range map[string]string{
		`{"hooks":[{"name":"x y","when":"true","veto":"no"}]}`:                                              `hook 1: name "x y" must be letters`,
		`{"hooks":[{"name":"a","when":"true","veto":"no"},{"name":"a","when":"true","note":"n"}]}`:          `hook 2: name "a" is that of another hook`,
		`{"hooks":[{"name":"a","when":"true"}]}`:                                                            `hook 1 (a): veto, note: neither is set`,
		`{"hooks":[{"name":"a","when":"true","veto":"v","note":"n"}]}`:                                      `hook 1 (a): veto and note: a hook has one of them`,
		`{"hooks":[{"name":"a","when":"","veto":"v"}]}`:                                                     `hook 1 (a): when "": is empty; write an expression`,
		`{"hooks":[{"name":"a","when":"tool","veto":"v"}]}`:                                                 `hook 1 (a): when "tool": expected bool, but got string`,
		`{"hooks":[{"name":"a","when":"tol == \"x\"","veto":"v"}]}`:                                         `unknown name tol`,
		`{"hooks":[{"name":"a","when":"code == \"timeout\"","veto":"v"}]}`:                                  `how an attempt ended is known to a note, not to a veto`,
		`{"hooks":[{"name":"a","if":"true","veto":"v"}]}`:                                                   `hook 1: json: unknown field "if"; a hook has name, priority, when, and veto or note`,
		`{"hooks":[{"name":"a","when":"true","veto":"` + strings.Repeat("x", 1001) + `"}]}`:                 `hook 1 (a): veto, note: 1001 bytes; shorten to 1000`,
		`{"hooks":[{"name":"a","when":"true","veto":"v"},{"name":"b","when":"1","veto":"v"},{"name":"c"}]}`: `hook 3 (c): veto, note`,
		`{"hooks":[{"name":"a","when":"tool matches input.x","veto":"v"}]}`:                                 `must be written out`,
		`{"hooks":{}}`: `policies: json`,
	} {
		if _, err := hook.FromDocument(json.RawMessage(document), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", document, err, want)
		}
	}
	for _, document := range []string{``, `{}`, `null`, `{"pool":{"max_retries":1},"hooks":[]}`} {
		if c, err := hook.FromDocument(json.RawMessage(document), nil); err != nil || c.Vetoes() || c.Observes() {
			t.Errorf("%q: %v", document, err)
		}
	}
}

func TestARuleSaysWhichToolsItMayConcern(t *testing.T) {
	for when, concerns := range map[string]bool{
		`true`:                                  true,
		`tool == "pay"`:                         true,
		`"pay" == tool && input.x > 1`:          true,
		`tool == "mail"`:                        false,
		`input.x > 1 && tool == "mail" && true`: false,
		`tool == "mail" || input.x > 1`:         true,
		`tool in ["mail", "pay"]`:               true,
		`tool in ["mail", "sms"]`:               false,
		`tool != "pay" and size > 3`:            false,
		`tool != "mail"`:                        true,
		`not (tool == "pay")`:                   true, // nobody looks deeper
		`tool ==`:                               true,
	} {
		if got := (hook.Rule{When: when}).MayConcern("pay"); got != concerns {
			t.Errorf("%s: %v, want %v", when, got, concerns)
		}
	}
}

func TestRulesThatConcernAToolAreInTheirOrder(t *testing.T) {
	list := []hook.Rule{{Name: "c", Priority: 2, When: "true"}, {Name: "a", When: `tool == "pay"`}, {Name: "x", When: `tool == "mail"`}, {Name: "b", When: "size > 3"}}
	var names string
	for _, r := range hook.Concerning(list, "pay") {
		names += r.Name
	}
	if names != "abc" {
		t.Error(names)
	}
}

// The examples of docs/hooks.md are rules that compile.
func TestTheExamplesOfThePageCompile(t *testing.T) {
	page, err := os.ReadFile("../../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		var d map[string]any
		if err := yaml.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		c, err := hook.FromDocument(raw, nil)
		if err != nil {
			t.Error(err)
		}
		n += len(c.Names())
	}
	if n < 4 {
		t.Errorf("%d examples", n)
	}
}

// Whatever a rule says and whatever a call is: an error, a veto or none.
func FuzzRule(f *testing.F) {
	for i, when := range []string{`tool == "pay"`, `input.a > 1`, `input.a[0].b matches "x+"`, `labels.team in ["a"]`, `len(task) % attempt == 0`,
		`number(input.a) > 2 ?? false`, `match(string(input), "(a*)*b")[1] == "a"`, `1 / 0 > 1`, `input["a"]["b"]()`, `$env.tool == ""`, `read_input() == input`} {
		f.Add(when, fmt.Sprintf(`{"a":%d}`, i), "pay", "a task", i)
	}
	f.Fuzz(func(t *testing.T, when, input, tool, task string, attempt int) {
		var noted []error
		c := hook.CallOf(messages.Call{Tool: tool, Task: task, Attempt: attempt, Labels: messages.Labels{"team": task}}, []byte(input))
		list := []hook.Rule{{Name: "v", When: when, Veto: "no"}}
		if veto, err := hook.Compile(list, nil); err == nil {
			if v := veto.Before(t.Context(), c); v != nil && (v.Text() == "" || len(v.Text()) > 2000) {
				t.Errorf("%q", v.Text())
			}
		}
		list[0].Veto, list[0].Note = "", "look"
		if note, err := hook.Compile(list, func(_ hook.Rule, _ hook.Attempt, err error) { noted = append(noted, err) }); err == nil {
			if err := note.After(t.Context(), hook.Attempt{Call: c, Error: task}); err != nil || len(noted) > 1 {
				t.Error(err, noted)
			}
		}
		_ = list[0].MayConcern(tool)
	})
}

func BenchmarkVeto(b *testing.B) {
	for _, n := range []int{0, 1, 10} {
		list := make([]hook.Rule, n)
		for i := range list {
			list[i] = hook.Rule{Name: fmt.Sprintf("r%d", i), When: `tool == "pay" && input.amount > 1000`, Veto: "no"}
		}
		c, err := hook.Compile(list, nil)
		if err != nil {
			b.Fatal(err)
		}
		call := pay(`{"amount":12,"to":"ACC-12"}`)
		b.Run(fmt.Sprintf("%d rules", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c.Before(b.Context(), call) != nil {
					b.Fatal("vetoed")
				}
			}
		})
	}
}
