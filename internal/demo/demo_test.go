package demo

import (
	"testing"

	"mulligan/pkg/messages"
)

func TestToolsAreUsable(t *testing.T) {
	for _, tl := range Tools() {
		if err := tl.Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestCasesAreAboutFortyAndNamed(t *testing.T) {
	cases, refs := Cases(), make(map[string]bool)
	if len(cases) < 38 || len(cases) > 45 {
		t.Fatalf("%d cases", len(cases))
	}
	ends := make(map[messages.Status]int)
	for _, c := range cases {
		if refs[c.Call.Ref] || c.Call.Ref == "" {
			t.Errorf("ref %q is not unique", c.Call.Ref)
		}
		refs[c.Call.Ref] = true
		ends[c.Expect]++
		if (c.Wrong == "") != (c.Expect == messages.Succeeded && !c.Recovered) {
			t.Errorf("%s: what is wrong is %q, and it should end %s", c.Call.Ref, c.Wrong, c.Expect)
		}
	}
	for _, s := range []messages.Status{messages.Succeeded, messages.Failed, messages.StatusUnknown, messages.Refused} {
		if ends[s] == 0 {
			t.Errorf("no call ends %s", s)
		}
	}
}
