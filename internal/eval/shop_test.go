package eval

import (
	"encoding/json"
	"strings"
	"testing"

	"mulligan/examples/shop/corpus"
)

// asked is a call of a run of the shop, with its place.
func asked(seq int, tool, input string, failed bool) corpus.Call {
	return corpus.Call{Domain: "tau-retail", Run: "r", Seq: seq, Tool: tool, Input: json.RawMessage(input), IsError: failed}
}

// A proposal is executed only on the state in which the call failed.
func TestShopTries(t *testing.T) {
	shop, err := OpenShop("../../examples/shop/data")
	if err != nil {
		t.Fatal(err)
	}
	const (
		order  = `{"order_id":"#W1000001"}`
		bare   = `{"order_id":"W1000001"}`
		cancel = `{"order_id":"#W1000001","reason":"no longer needed"}`
	)
	cancelled := asked(1, "cancel_pending_order", cancel, false)
	inPart := cancelled
	inPart.InputCut = true
	elsewhere := asked(1, "get_order_details", bare, true)
	elsewhere.Domain = "tau2-retail"
	lost := asked(2, "get_order_details", bare, true)
	for name, tc := range map[string]struct {
		run       corpus.Run
		tool      string
		input     string
		why, says string
	}{
		"accepted":            {corpus.Run{cancelled, lost}, "get_order_details", order, "", `"status": "cancelled"`},
		"refused":             {corpus.Run{cancelled, asked(2, "cancel_pending_order", bare, true)}, "cancel_pending_order", cancel, "", "Error: non-pending order"},
		"another tool":        {corpus.Run{asked(1, "get_orders", order, true)}, "get_order_details", order, "", `"status": "pending"`},
		"a reader that erred": {corpus.Run{asked(1, "get_order_details", order, true), lost}, "get_order_details", order, "", `"status": "pending"`},
		"made up and failed":  {corpus.Run{asked(1, "search", order, true), lost}, "get_order_details", order, "", `"status": "pending"`},
		"made up and done":    {corpus.Run{asked(1, "merge_orders", order, false), lost}, "get_order_details", order, "r#0, merge_orders, did something else", ""},
		"written otherwise":   {corpus.Run{asked(1, "cancel_pending_order", cancel, true), lost}, "get_order_details", order, "did something else", ""},
		"written in part":     {corpus.Run{inPart, lost}, "get_order_details", order, "did something else", ""},
		"a gap":               {corpus.Run{cancelled, asked(3, "get_order_details", bare, true)}, "get_order_details", order, "no call between 1 and 3", ""},
		"no failure":          {corpus.Run{asked(1, "get_order_details", order, true)}, "get_order_details", bare, "does not fail on it", ""},
		"not the shop's":      {corpus.Run{lost}, "search", order, "not at hand", ""},
		"another domain":      {corpus.Run{elsewhere}, "get_order_details", order, "not at hand", ""},
	} {
		answer, why := shop.try(failure{tc.run, len(tc.run) - 1}, &Proposal{Tool: tc.tool, Input: []byte(tc.input)})
		if tc.why == "" && why != "" || !strings.Contains(why, tc.why) || !strings.Contains(answer.Output, tc.says) {
			t.Errorf("%s: %.200q, not executed since %q", name, answer.Output, why)
		}
	}
}

// The record speaks only where the call succeeded and nobody had spoken.
func TestAsRecorded(t *testing.T) {
	p := &Proposal{Tool: "feed", Input: []byte(`{"n":1}`)}
	same := corpus.Later{Tool: "feed", Input: json.RawMessage(`{"n":1.0}`)}
	failed, spoken, other := same, same, same
	failed.IsError, spoken.UserSpoke, other.Tool = true, true, "fed"
	for name, tc := range map[string]struct {
		labels corpus.Labels
		want   bool
	}{
		"nothing":      {corpus.Labels{}, false},
		"next":         {corpus.Labels{Next: &same}, true},
		"later":        {corpus.Labels{Next: &other, FixedBy: &same}, true},
		"failed":       {corpus.Labels{Next: &failed}, false},
		"after a word": {corpus.Labels{Next: &spoken, FixedBy: &spoken}, false},
		"another tool": {corpus.Labels{Next: &other}, false},
	} {
		if got := asRecorded(corpus.Call{Labels: tc.labels}, p); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
