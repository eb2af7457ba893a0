package replay

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"mulligan/internal/expression"
	"mulligan/pkg/messages"
)

func TestSelections(t *testing.T) {
	succeeded := func(o *Original) { o.Status, o.Code = messages.Succeeded, "" }
	for name, tc := range map[string]struct {
		sel   Selection
		where string
		o     *Original
		want  bool
	}{
		"a failure":                        {o: original(), want: true},
		"no success":                       {o: original(succeeded)},
		"a success that was asked for":     {sel: Selection{Statuses: []messages.Status{messages.Succeeded}}, o: original(succeeded), want: true},
		"a success that was named":         {sel: Selection{Calls: []string{id}}, o: original(succeeded), want: true},
		"another call":                     {sel: Selection{Calls: []string{"x"}}, o: original()},
		"its run":                          {sel: Selection{Runs: []messages.Run{messages.NamedRun("demo")}}, o: original(), want: true},
		"another run":                      {sel: Selection{Runs: []messages.Run{messages.NamedRun("dem")}}, o: original()},
		"its tool":                         {sel: Selection{Tools: []string{"pay", "book"}}, o: original(), want: true},
		"the tool it was asked for":        {sel: Selection{Tools: []string{"order"}}, o: original(func(o *Original) { o.OriginalTool = "order" }), want: true},
		"another tool":                     {sel: Selection{Tools: []string{"pay"}}, o: original()},
		"its code":                         {sel: Selection{Codes: []messages.Code{messages.CodeToolError}}, o: original(), want: true},
		"another code":                     {sel: Selection{Codes: []messages.Code{messages.CodeTimeout}}, o: original()},
		"a label":                          {sel: Selection{Labels: map[string]string{"team": ""}}, o: original(func(o *Original) { o.Labels = messages.Labels{"team": ""} }), want: true},
		"a label that is not there":        {sel: Selection{Labels: map[string]string{"team": ""}}, o: original()},
		"its text":                         {sel: Selection{Text: regexp.MustCompile("seats? le")}, o: original(func(o *Original) { o.Text = "no seat left" }), want: true},
		"its reason":                       {sel: Selection{Text: regexp.MustCompile("^gave up$")}, o: original(func(o *Original) { o.Reason = "gave up" }), want: true},
		"another text":                     {sel: Selection{Text: regexp.MustCompile("x")}, o: original()},
		"since its end":                    {sel: Selection{Since: epoch}, o: original(), want: true},
		"after its end":                    {sel: Selection{Since: epoch.Add(1)}, o: original()},
		"until its end":                    {sel: Selection{Until: epoch}, o: original()},
		"before its end":                   {sel: Selection{Until: epoch.Add(time.Second)}, o: original(), want: true},
		"its queue":                        {sel: Selection{Queues: []string{"q"}}, o: original(func(o *Original) { o.Queue = "q" }), want: true},
		"another queue":                    {sel: Selection{Queues: []string{"q"}}, o: original()},
		"its reflector":                    {sel: Selection{By: []string{"rules"}}, o: original(func(o *Original) { o.By, o.Rule = "rules", "json-type" }), want: true},
		"its rule":                         {sel: Selection{By: []string{"rules/json-type"}}, o: original(func(o *Original) { o.By, o.Rule = "rules", "json-type" }), want: true},
		"another rule":                     {sel: Selection{By: []string{"rules/json-type"}}, o: original(func(o *Original) { o.By, o.Rule = "rules", "typo" }), want: false},
		"a condition of the result":        {where: `attempts == 1 && tool startsWith "bo" && labels["team"] == ""`, o: original(), want: true},
		"a condition that does not hold":   {where: `attempts > 1`, o: original()},
		"a condition of the story":         {where: `queue == "q" && !ambiguous`, o: original(func(o *Original) { o.Queue = "q" }), want: true},
		"a condition of the input":         {where: `input.to == "ZRH"`, o: original(), want: true},
		"one that does not hold of it":     {where: `input.to == "BSL"`, o: original()},
		"what holds, and what does not":    {sel: Selection{Tools: []string{"book"}, Queues: []string{"q"}}, o: original()},
		"an exhausted call":                {o: original(func(o *Original) { o.Status = messages.Exhausted }), want: true},
		"a cancelled call is no failure":   {o: original(func(o *Original) { o.Status = messages.Cancelled })},
		"a call whose effect may be there": {o: original(func(o *Original) { o.Status = messages.StatusUnknown }), want: true},
	} {
		if tc.where != "" {
			if err := tc.sel.Where(tc.where); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got, err := tc.sel.Result(tc.o, expression.NewWork(1<<20))
		if got && err == nil {
			got, err = tc.sel.Story(tc.o, expression.NewWork(1<<20))
		}
		if err != nil || got != tc.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// What results tell is not looked for in stories.
func TestASelectionKnowsWhatItNeeds(t *testing.T) {
	for where, want := range map[string][2]bool{`attempts > 1`: {}, `queue == "q"`: {true}, `rule == "r"`: {true}, `input.a == 1`: {true, true}} {
		var s Selection
		if err := s.Where(where); err != nil {
			t.Fatal(err)
		}
		if s.NeedsStory() != want[0] || s.NeedsInput() != want[1] {
			t.Errorf("%s: story %v, input %v", where, s.NeedsStory(), s.NeedsInput())
		}
	}
	if !(&Selection{Queues: []string{"q"}}).NeedsStory() || !(&Selection{By: []string{"rules"}}).NeedsStory() || (&Selection{}).NeedsStory() {
		t.Error("a queue or a rule is in no result")
	}
	var s Selection
	if err := s.Where(`input.a == 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Story(original(func(o *Original) { o.Forget() }), expression.NewWork(1)); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Error(err)
	}
}

func TestPatternsLeaveOutWhatDiffers(t *testing.T) {
	for text, want := range map[string]string{
		"order O-99871 does not exist":                                  "order O-# does not exist",
		"order O-7 does not exist\nand more":                            "order O-# does not exist",
		`no "seat" left on 12:30, 4.5 of 9`:                             "no “…” left on #, # of #",
		"call 01890000-0000-7000-8000-000000000001 and 9f86d081884c7d6": "call … and …",
		"":           "",
		"\xff  a\tb": "a b",
	} {
		if got := Pattern(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Pattern(strings.Repeat("word ", 500)); len(got) > 200 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestTallyIsBounded(t *testing.T) {
	var y Tally
	for i := range 3000 {
		y.Add(original(func(o *Original) { o.Tool = fmt.Sprint("tool", i) }))
	}
	y.Add(original())
	groups := y.Tools.Groups()
	if y.Total != 3001 || len(groups) != MaxGroups+1 || groups[0] != (Group{Rest, 2001}) {
		t.Errorf("%d groups of %d, first %v", len(groups), y.Total, groups[0])
	}
	if got := fmt.Sprint(y.Statuses.Groups(), y.Codes.Groups()); got != "[{failed 3001}] [{tool_error 3001}]" {
		t.Error(got)
	}
}
