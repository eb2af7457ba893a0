package policies_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"mulligan/internal/policies"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func TestAFileIsReadStrictly(t *testing.T) {
	for text, says := range map[string]string{
		"pool: {breaker: off}\n":                      "",
		"pool: {max_retries: 2}\n":                    "",
		"{\"pool\": {\"max_retries\": 2}}\n":          "",
		"# all as shipped\n{}\n":                      "",
		"":                                            "the file is empty",
		"# nothing\n":                                 "the file is empty",
		"pool: {max_retries: 2\n":                     "not YAML",
		"pool: {max_retries: 2}\n---\npool: {}\n":     "more than one document",
		"pool:\n  jitter: 0\n  jitter: 1\n":           `"jitter" already defined`,
		`{"pool": {"jitter": 0, "jitter": 1}}`:        `"jitter" is given twice`,
		"pool: &p {jitter: 0}\nqueues: {q: *p}\n":     "may not use the aliases of YAML",
		"pool: {max_retris: 2}\n":                     `did you mean "max_retries"`,
		"tools:\n  send_mail: {max_retries: -1}\n":    `tool "send_mail"`,
		"- pool\n":                                    "a document has pool, queues, tools",
		strings.Repeat("#", 2<<20):                    "the limit is 1048576",
		"rules: [{name: a, when: 'true', wen: 1}]\n":  `unknown field "wen"`,
		"rules: [{name: a, when: 'tool =='}]\n":       "rules: rule 1 (a): when",
		"rules: [{name: a, when: 'tool == \"x\"'}]\n": "",
		"hooks: [{name: a, when: 'true'}]\n":          "hooks: hook 1 (a): veto, note: neither is set",
		"hooks: [{name: a, when: 'tool == \"x\"', veto: no}, {nam: b}]\n": "hooks: hook 2",
	} {
		_, _, err := policies.Parse([]byte(text))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v, want %q", text, err, says)
		}
	}
}

// What a person writes reaches the pool as it is: no number and no date turns
// into another.
func TestValuesOfAFileStayAsTheyAre(t *testing.T) {
	raw, d, err := policies.Parse([]byte("pool: {prompt_template: '2026-01-02', multiplier: 1.50}\nrules: [{name: d, when: 'true', patch: [{op: add, path: /at, value: 2026-01-02}, {op: add, path: /n, value: 9007199254740993}, {op: add, path: /v, value: {s: \"1\", f: 1.50, h: 0x10, l: [true, ~]}}]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(d.Pool["multiplier"]) + string(d.Pool["prompt_template"]); got != `1.50"2026-01-02"` {
		t.Error(got)
	}
	for _, want := range []string{`"value":"2026-01-02"`, `"value":9007199254740993`, `"value":{"f":1.50,"h":16,"l":[true,null],"s":"1"}`} {
		if !bytes.Contains(raw, []byte(want)) {
			t.Errorf("%s is not in %s", want, raw)
		}
	}
	if raw, _, err = policies.Parse([]byte(`{"pool":{"prompt_template":"\ud83d\ude00 é"}}`)); err != nil || !json.Valid(raw) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestDiffTellsEachValue(t *testing.T) {
	read := func(text string) recovery.Document {
		_, d, err := policies.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	was := read(`{"pool": {"jitter": 0.2, "max_retries": 3}, "tools": {"b": {"max_retries": 1}, "a": {"effect": "keyed"}}, "rules": [{"name": "r", "when": "true \u0026\u0026 1 \u003e 0"}]}`)
	is := read(`{"pool": {"jitter":   0.2, "max_retries": 2}, "queues": {"q": {"ask_user": "park"}}, "tools": {"a": {"effect": "unsafe"}}, "rules": []}`)
	var got []string
	for _, c := range policies.Diff(was, is) {
		got = append(got, c.String())
	}
	want := []string{
		`~ pool: max_retries 3 -> 2`,
		`+ queue "q": ask_user "park"`,
		`~ tool "a": effect "keyed" -> "unsafe"`,
		`- tool "b": max_retries 1`,
		`- rules: r (1) {"name":"r","when":"true && 1 > 0"}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if d := policies.Diff(was, was); d != nil {
		t.Errorf("to itself: %v", d)
	}
}

func TestSameDoesNotLookAtNotation(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"pool": {"a": 1, "b": 2}}`, `{"pool":{"b":2,"a":1}}`, true},
		{``, `null`, true},
		{`{}`, `null`, false},
		{`{"pool":{"a":1}}`, `{"pool":{"a":2}}`, false},
		{`{"pool":{"a":9007199254740993}}`, `{"pool":{"a":9007199254740992}}`, false},
	} {
		if policies.Same(json.RawMessage(c.a), json.RawMessage(c.b)) != c.same {
			t.Errorf("%s and %s", c.a, c.b)
		}
	}
}

// entry is what CONTROL holds, as a watch brings it.
func entry(revision uint64, document string) messages.Entry {
	value := fmt.Sprintf(`{"version":"1","document":%s,"by":"ops","at":"2026-01-02T03:04:05Z"}`, document)
	return messages.Entry{Key: messages.PolicyKey, Value: []byte(value), Revision: revision}
}

func book(t *testing.T, base string) (*policies.Book, *bytes.Buffer) {
	t.Helper()
	_, d, err := policies.Parse([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	b, err := policies.NewBook(d, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b, &log
}

func TestABookKeepsTheLastGoodDocument(t *testing.T) {
	b, log := book(t, `{"pool": {"max_retries": 4}}`)
	retries := func(want int) {
		t.Helper()
		if got := b.For("q", "t", nil).Retries(); got != want {
			t.Errorf("%d retries, want %d", got, want)
		}
	}
	retries(4)
	b.Apply(entry(7, `{"tools":{"t":{"max_retries":1}}}`))
	retries(1)
	for _, bad := range []messages.Entry{
		entry(8, `{"tools":{"t":{"max_retries":2,"weather":"fair"}}}`), // a field of a newer version
		entry(9, `{"moons":{}}`),
		entry(10, `{"rules":[{"name":"x","when":"newer_function()"}]}`),
		entry(10, `{"hooks":[{"name":"x","when":"newer_function()","veto":"no"}]}`),
		{Key: messages.PolicyKey, Value: []byte(`{`), Revision: 11},
		{Key: messages.PolicyKey, Value: []byte(`{"version":"2","document":{}}`), Revision: 11},
	} {
		log.Reset()
		b.Apply(bad)
		retries(1)
		if revision := b.Revision(); revision != 7 || !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), fmt.Sprintf("revision=%d", bad.Revision)) {
			t.Errorf("revision %d, log %s", revision, log)
		}
	}
	b.Apply(entry(12, `{"pool":{"max_retries":0}}`))
	retries(0)
	b.Apply(entry(13, `null`))
	retries(4)
	b.Apply(entry(14, `{"pool":{"max_retries":2}}`))
	b.Apply(messages.Entry{Key: messages.PolicyKey, Deleted: true, Revision: 15})
	retries(4)
	b.Apply(messages.Entry{Key: "call.r.c", Value: []byte(`{}`), Revision: 16}) // a cancellation
	if revision := b.Revision(); revision != 15 {
		t.Errorf("revision %d", revision)
	}
}

func TestABookHasTheHooksOfItsDocument(t *testing.T) {
	b, _ := book(t, `{"hooks":[{"name":"base","when":"true","veto":"no"}]}`)
	hooks := func(want ...string) {
		t.Helper()
		if got := b.Hooks().Names(); !slices.Equal(got, want) {
			t.Errorf("hooks %q, want %q", got, want)
		}
	}
	hooks("base")
	b.Apply(entry(1, `{"hooks":[{"name":"new","when":"true","veto":"no"}]}`))
	hooks("new")
	b.Apply(entry(2, `{"hooks":[{"name":"bad","when":"newer_function()","veto":"no"}]}`))
	hooks("new")
	b.Apply(entry(3, `{}`))
	hooks()
	b.Apply(entry(4, `null`))
	hooks("base")
}

func TestABookWithoutAUsableBaseIsRefused(t *testing.T) {
	for want, d := range map[string]recovery.Document{
		"policies: hooks: hook 1 (x)": {Hooks: []json.RawMessage{json.RawMessage(`{"name":"x","when":"nobody()","veto":"no"}`)}},
		"policies: rules: rule 1 (x)": {Rules: []json.RawMessage{json.RawMessage(`{"name":"x","when":"nobody()","cause":"c"}`)}},
	} {
		if _, err := policies.NewBook(d, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestABookGivesTheEffectThatPoliciesSay(t *testing.T) {
	b, _ := book(t, `{}`)
	mail := messages.ToolSpec{Name: "send", Queue: "mail", Effect: messages.Unsafe}
	other := messages.ToolSpec{Name: "other", Queue: "q", Effect: messages.Idempotent}
	if b.SaysEffects() || b.Effect(mail) != messages.Unsafe {
		t.Error("nobody said anything")
	}
	b.Apply(entry(1, `{"queues":{"mail":{"effect":"idempotent"}},"tools":{"read":{"effect":"read_only"}}}`))
	if b.Effect(mail) != messages.Idempotent || b.Effect(other) != messages.Idempotent ||
		b.Effect(messages.ToolSpec{Name: "read", Queue: "mail", Effect: messages.Unsafe}) != messages.ReadOnly {
		t.Errorf("%s, %s", b.Effect(mail), b.Effect(other))
	}
	b.Apply(entry(2, `{}`))
	if b.SaysEffects() || b.Effect(mail) != messages.Unsafe {
		t.Error("it still holds")
	}
}

// What a call brings was checked when it was submitted. A call of another
// version may bring what this one does not know; it is then left out.
func TestACallThatBringsNonsenseHasThePolicyOfItsTool(t *testing.T) {
	b, log := book(t, `{"tools": {"t": {"max_retries": 1}}}`)
	if got := b.For("q", "t", json.RawMessage(`{"max_retries":2}`)).Retries(); got != 2 {
		t.Errorf("%d retries", got)
	}
	for _, raw := range []string{`{"weather":"fair"}`, `{"effect":"read_only"}`, `{`} {
		log.Reset()
		if p := b.For("q", "t", json.RawMessage(raw)); p.Retries() != 1 || p.Effect != "" || !strings.Contains(log.String(), "cannot be used as it is") {
			t.Errorf("%s: %+v, log %s", raw, p, log)
		}
	}
}

// A document is seen as a whole or not at all, by all who ask at the same time.
func TestABookIsNeverHalfOld(t *testing.T) {
	b, _ := book(t, `{}`)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 3000 {
				if i == 0 {
					b.Apply(entry(uint64(n+1), fmt.Sprintf(`{"pool":{"max_retries":%d,"initial_backoff_ms":%d}}`, n%5, n%5+1)))
					continue
				}
				p := b.For("q", fmt.Sprint("t", n), nil)
				if ms := p.InitialBackoff.Duration().Milliseconds(); ms != 500 && int(ms) != *p.MaxRetries+1 {
					t.Errorf("half of a document: %d retries after %d ms", *p.MaxRetries, ms)
				}
			}
		})
	}
	all.Wait()
	if p := b.For("q", "t", nil); *p.MaxRetries != 2999%5 {
		t.Errorf("%d retries of a document that is gone", *p.MaxRetries)
	}
}
