package messages

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// What is written and read by hand is what encoding/json writes and reads.
func TestTextIsJSON(t *testing.T) {
	var every strings.Builder
	for r := range rune(utf8.MaxRune + 1) {
		every.WriteRune(r) // a surrogate becomes U+FFFD
	}
	for _, s := range []string{"", "plain", `{"p":"x\ny"}`, "\u2028\u2029\u202a\u2027", "a\u2028", "\\", `\u0041`, every.String()} {
		want, err := marshal(bodyJSON{Text: &s})
		if err != nil {
			t.Fatal(err)
		}
		if got := appendText(nil, []byte(s)); !bytes.Equal(got, want) {
			t.Errorf("%.80q is written as %.80q, not as %.80q", s, got, want)
		}
		if got, ok := plainText(want); ok && string(got) != s {
			t.Errorf("%.80q is read as %.80q", want, got)
		}
	}
}

func TestTextThatIsReadByHand(t *testing.T) {
	for _, c := range []struct {
		json string
		ok   bool
	}{
		{`{"text":""}`, true},
		{`{"text":"a \"word\" \\ \n\t\r\b\f é"}`, true},
		{`{"text":"\u0041"}`, false},
		{`{"text":"\/"}`, false},
		{`{"text":"a","payload":null}`, false},
		{`{ "text":"a"}`, false},
		{`{"text":"a" }`, false},
		{`{"text":"a\"}`, false},
		{"{\"text\":\"a\nb\"}", false},
		{"{\"text\":\"\xff\"}", false},
		{`{"base64":"YQ=="}`, false},
		{`{}`, false},
	} {
		got, ok := plainText([]byte(c.json))
		if ok != c.ok {
			t.Errorf("%s: read by hand: %v", c.json, ok)
		}
		if !ok {
			continue
		}
		var want bodyJSON
		if err := json.Unmarshal([]byte(c.json), &want); err != nil || want.Text == nil || *want.Text != string(got) {
			t.Errorf("%s is read as %q", c.json, got)
		}
	}
}
