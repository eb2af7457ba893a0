package secrets

import (
	"strings"
	"testing"
)

func TestHideTakesSecretsOut(t *testing.T) {
	f, err := NewFinder([]string{`card (\d+)`}, "hunter2-and-more", "abc")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"abc, plain words":                               "abc, plain words",
		"it is hunter2-and-more!":                        "it is [withheld]!",
		"card 4711 is refused":                           "card [withheld] is refused",
		`{"password":"opensesame"}`:                      `{"password":"[withheld]"}`,
		`{\"api_key\":\"opensesame\"}`:                   `{\"api_key\":\"[withheld]\"}`,
		"token: missing":                                 "token: missing",
		"password='open sesame', user=joe":               "password='[withheld]', user=joe",
		`{'password': 'open sesame'}`:                    `{'password': '[withheld]'}`,
		`{"password":"open \"se\\same","a":1}`:           `{"password":"[withheld]","a":1}`,
		`{\"token\":\"open \\\"sesame\",\"a\":1}`:        `{\"token\":\"[withheld]\",\"a\":1}`,
		`{"token":"` + strings.Repeat("a b", 400) + `"}`: `{"token":"[withheld]"}`,
		`{"accessToken":"opensesame","dbPassword":7654}`: `{"accessToken":"[withheld]","dbPassword":[withheld]}`,
		`{"max_tokens":20000,"inputTokens":17345}`:       `{"max_tokens":20000,"inputTokens":17345}`,
		"password=\"opensesa…\nnext":                     "password=\"[withheld]\nnext",
		"Set-Cookie: sid=open; session=sesame":           "Set-Cookie: [withheld]",
		"authorization: token opensesame1":               "authorization: token [withheld]",
		"authorization: required for this":               "authorization: required for this",
		"unexpected token: '}' at 5, don't":              "unexpected token: '}' at 5, don't",
		"redis://joe:open@sesame@db/x":                   "redis://[withheld]@db/x",
		"nats://joe:open@a:1,tls://sesame@b:2":           "nats://[withheld]@a:1,tls://[withheld]@b:2",
		"postgres://joe:pw@db/x refused":                 "postgres://[withheld]@db/x refused",
		"Authorization: Bearer abcdefgh12345":            "Authorization: [withheld]",
		"SU" + strings.Repeat("A", 56) + " is no seed":   "[withheld] is no seed",
		"sk-abcdefghijklmnop0 and sk-abcdefghijklmnop1":  "[withheld] and [withheld]",
	} {
		if got := f.Hide(text); got != want && !(strings.HasPrefix(text, "Authorization") && !strings.Contains(got, "abcdefgh")) {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if got := (*Finder)(nil).Hide("pwd=opensesame"); got != "pwd=[withheld]" {
		t.Error(got)
	}
	if _, err := NewFinder([]string{"("}); err == nil {
		t.Error("a broken pattern is taken")
	}
}

func TestAddressHasNoUser(t *testing.T) {
	for text, want := range map[string]string{
		"nats://host:4222":                          "nats://host:4222",
		"host:1,host:2":                             "host:1,host:2",
		"nats://joe:opensesame@host":                "nats://[withheld]@host",
		"nats://opensesame@host:4222":               "nats://[withheld]@host:4222",
		"joe:opensesame@host":                       "[withheld]@host",
		"nats://joe:open%sesame@host":               "nats://[withheld]@host",
		"nats://joe:open/ses@me@host":               "nats://[withheld]@host",
		"nats://joe:open,sesame@host":               "nats://[withheld]@host",
		"nats://joe:open@a:1,tls://sesame@b:2,c:3":  "nats://[withheld]@a:1,tls://[withheld]@b:2,c:3",
		"nats://a:1,joe:opensesame@b:2,nats://c:03": "nats://[withheld]@b:2,nats://c:03",
	} {
		if got := Address(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
