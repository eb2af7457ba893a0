package replay

import (
	"strings"
	"testing"

	"mulligan/pkg/messages"
)

func failed(n int, digest, key string, effect messages.Effect, ambiguous bool) Dispatch {
	return Dispatch{N: n, Digest: digest, Key: key, Effect: effect, Ambiguous: ambiguous}
}

// What may run again, and with which key. "a" is the original tool and input.
func TestS11_3_S11_4_WhatMayRunAgainAndWithWhichKey(t *testing.T) {
	for name, tc := range map[string]struct {
		o      Original
		digest string
		key    string
		why    string // part of it; empty: it may
	}{
		"a definite failure of an unsafe tool": {o: of(messages.Failed, messages.Unsafe, failed(0, "a", "k", messages.Unsafe, false)), digest: "a"},
		"the same, changed":                    {o: of(messages.Failed, messages.Unsafe, failed(0, "a", "k", messages.Unsafe, false)), digest: "b"},
		"an unsafe tool that may have done it": {o: of(messages.StatusUnknown, messages.Unsafe, failed(0, "a", "k", messages.Unsafe, true)), digest: "a", key: "k", why: "unsafe"},
		"the same, changed by hand":            {o: of(messages.StatusUnknown, messages.Unsafe, failed(0, "a", "k", messages.Unsafe, true)), digest: "b", why: "another"},
		"a keyed tool, the same":               {o: of(messages.Failed, messages.Keyed, failed(0, "a", "k", messages.Keyed, true)), digest: "a", key: "k"},
		"a keyed tool, a later key":            {o: of(messages.Failed, messages.Keyed, failed(0, "b", "k0", messages.Keyed, false), failed(1, "a", "k1", messages.Keyed, true)), digest: "a", key: "k1"},
		"a keyed tool, definite after it":      {o: of(messages.Failed, messages.Keyed, failed(0, "a", "k", messages.Keyed, true), failed(1, "a", "k", messages.Keyed, false)), digest: "a", key: "k"},
		"a keyed tool, changed":                {o: of(messages.Failed, messages.Keyed, failed(0, "a", "k", messages.Keyed, true)), digest: "b", why: "dispatch 0 may have had its effect, which was another"},
		"a keyed tool that surely failed":      {o: of(messages.Failed, messages.Keyed, failed(0, "a", "k", messages.Keyed, false)), digest: "a"},
		"an idempotent tool, the same":         {o: of(messages.Failed, messages.Idempotent, failed(0, "a", "k", messages.Idempotent, true)), digest: "a", key: "k"},
		"an idempotent tool, changed":          {o: of(messages.Failed, messages.Idempotent, failed(0, "a", "k", messages.Idempotent, true)), digest: "b", why: "another"},
		"a tool that only reads":               {o: of(messages.Failed, messages.ReadOnly, failed(0, "a", "k", messages.ReadOnly, true)), digest: "b"},
		"a success of an unsafe tool":          {o: of(messages.Succeeded, messages.Unsafe), digest: "a", why: "it succeeded, and the tool is unsafe"},
		"a success of a keyed tool":            {o: of(messages.Succeeded, messages.Keyed), digest: "a", why: "keyed"},
		"a success after a doubt gives no key": {o: of(messages.Succeeded, messages.Keyed, failed(0, "a", "k", messages.Keyed, true)), digest: "a", why: "keyed"},
		"a success of an idempotent tool":      {o: of(messages.Succeeded, messages.Idempotent), digest: "a"},
		"the same, changed input":              {o: of(messages.Succeeded, messages.Idempotent), digest: "b", why: "it succeeded"},
		"a success of a reading tool":          {o: of(messages.Succeeded, messages.ReadOnly), digest: "b"},
		"a success after its end":              {o: late(of(messages.Failed, messages.Unsafe, failed(0, "a", "k", messages.Unsafe, false))), digest: "a", why: "after its end"},
		"unknown, and nothing more is known":   {o: of(messages.StatusUnknown, messages.Unsafe), digest: "a", why: "story is gone"},
		"a failure that nobody can read":       {o: of(messages.Failed, messages.Keyed, failed(0, "", "", messages.Unsafe, true)), digest: "a", why: "another"},
		"an unsafe call cancelled in time":     {o: of(messages.Cancelled, messages.Unsafe), digest: "a"},
		"a keyed call cancelled at work":       {o: of(messages.Cancelled, messages.Keyed), digest: "a", key: "first"},
		"the same, then changed":               {o: of(messages.Expired, messages.Keyed), digest: "b", why: "may have been running"},
		"cancelled in its second attempt":      {o: at(1, of(messages.Cancelled, messages.Keyed, failed(0, "a", "k", messages.Keyed, false))), digest: "a", why: "may have been running"},
		"cancelled after its first attempt":    {o: of(messages.Cancelled, messages.Keyed, failed(0, "a", "k", messages.Keyed, false)), digest: "a", key: "k"},
		"cancelled while reading":              {o: of(messages.Cancelled, messages.ReadOnly), digest: "b"},
	} {
		key, why := repetition(&tc.o, tc.digest, "a")
		if key != tc.key || (why == "") != (tc.why == "") || !strings.Contains(why, tc.why) {
			t.Errorf("%s: key %q, why %q; want %q, %q", name, key, why, tc.key, tc.why)
		}
	}
}

func of(s messages.Status, e messages.Effect, ds ...Dispatch) Original {
	return Original{Result: messages.Result{Status: s}, Effect: e, Call: messages.Call{Key: "first"}, Dispatches: ds}
}

func late(o Original) Original {
	o.LateSuccess = true
	return o
}

func at(n int, o Original) Original {
	o.Dispatch = n
	return o
}
