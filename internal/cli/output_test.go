package cli

import "testing"

// What a tool or a model wrote moves no cursor and changes no colour.
func TestOneLineHoldsNoControls(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\tc\r\n": "a b c", "\x1b[31mred": "[31mred", "a\x00b\x7f\u009b2Jc\u0085d": "a b 2Jc d", "  ": "", "ünï": "ünï", "a\u202e1\u200b2\u20283\ufeff": "a 1 2 3", "1234567890ab": "123456789…",
	} {
		if got := oneLine(in, 10); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
