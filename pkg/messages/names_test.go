package messages_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mulligan/pkg/messages"
)

// anyText draws valid UTF-8 with a liking for what breaks subjects, headers and quoting.
func anyText() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]string{
		".", "/", " ", "*", ">", "=", "==", "=2E", "\r\n", "\n", "\t", "\x00", "\x7f", "\"", `\`, "<", "&", "\u2028", "\u00e9", "日本", "😀", "\ufeff", "\ufffd", "_", "-", "a",
	})
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.Bool().Draw(t, "plain") {
			return rapid.String().Draw(t, "text")
		}
		return strings.Join(rapid.SliceOf(odd).Draw(t, "parts"), "")
	})
}

// anyBytes draws names as bytes, valid UTF-8 or not.
func anyBytes() *rapid.Generator[string] {
	return rapid.OneOf(anyText(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
}

func TestToken(t *testing.T) {
	long := strings.Repeat("a", 65)
	for _, tc := range []struct{ name, token string }{
		{"", "="},
		{"echo", "echo"},
		{"A-z_09", "A-z_09"},
		{long[:64], long[:64]},
		{long, "=" + long},
		{"a.b", "=a=2Eb"},
		{"a/b", "=a=2Fb"},
		{"a b", "=a=20b"},
		{"=a", "==3Da"},
		{"日", "==E6=97=A5"},
		{"*", "==2A"},
		{"_", "_"},
	} {
		if got := messages.Token(tc.name); got != tc.token {
			t.Errorf("Token(%q) = %q, want %q", tc.name, got, tc.token)
		}
		if back, err := messages.Name(tc.token); err != nil || back != tc.name {
			t.Errorf("Name(%q) = %q, %v, want %q", tc.token, back, err, tc.name)
		}
	}
}

// TestTokenIsReversible: every name has its own token, which may stand in a
// subject, a bucket key and a consumer's name.
func TestTokenIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := anyBytes().Draw(t, "name")
		token := messages.Token(name)
		if strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-=") != "" || token == "" {
			t.Fatalf("Token(%q) = %q holds what no subject may", name, token)
		}
		back, err := messages.Name(token)
		if err != nil || back != name {
			t.Fatalf("Name(Token(%q)) = %q, %v", name, back, err)
		}
	})
}

// TestNameIsCanonical: the other way, no two tokens are one name.
func TestNameIsCanonical(t *testing.T) {
	piece := rapid.SampledFrom([]string{"=", "a", "Z", "_", "-", "2", "E", "=2E", "=2e", "=41", "==", "=FF", ".", "é"})
	rapid.Check(t, func(t *rapid.T) {
		token := strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), "")
		name, err := messages.Name(token)
		if err == nil && messages.Token(name) != token {
			t.Fatalf("Name(%q) = %q, whose token is %q", token, name, messages.Token(name))
		}
	})
}

func TestNameRefuses(t *testing.T) {
	for _, token := range []string{"", "a.b", "a b", "=plain", "=a=2eb", "=a=2", "=a=", "=a=GG", "=a=41", strings.Repeat("a", 65), "*", ">", "/x"} {
		if name, err := messages.Name(token); err == nil {
			t.Errorf("Name(%q) = %q, want an error", token, name)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{"fine/name with. all", ""},
		{strings.Repeat("é", 256), ""},
		{"", "tool is empty"},
		{strings.Repeat("é", 257), "tool is 514 bytes long, the limit is 512"},
		{"ab\xffcd", "tool is not valid UTF-8 at byte 2 (0xff)"},
	} {
		err := messages.CheckName("tool", tc.name, messages.MaxName)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("CheckName(%.20q) = %v, want %q", tc.name, err, tc.want)
		}
	}
}
