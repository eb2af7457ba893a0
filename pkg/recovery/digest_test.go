package recovery_test

import (
	"testing"

	"mulligan/pkg/recovery"
)

func TestS3_6_DigestIsOfToolAndCanonicalInput(t *testing.T) {
	same := []string{`{"a":1,"b":[1.50,"é"]}`, ` { "b" : [ 1.5, "\u00e9" ], "a" : 1.0 } `, `{"a":10e-1,"b":[15e-1,"é"]}`}
	for _, s := range same {
		if recovery.Digest("t", []byte(s)) != recovery.Digest("t", []byte(same[0])) {
			t.Errorf("%s differs", s)
		}
	}
	seen := map[string]string{}
	for _, c := range [][2]string{
		{"t", `{"a":1}`}, {"u", `{"a":1}`}, {"t", `{"a":2}`}, {"t", `{"a":"1"}`}, {"t", `{"a":[1]}`}, {"t", `{"a":null}`}, {"t", `{}`}, {"t", ``}, {"t", `{`},
		{"t", `{"a":9007199254740993}`}, {"t", `{"a":9007199254740992}`}, {"t", `{"a":1e400}`}, {"t", `{"a":1e401}`}, {"t", `{"a":"A"}`}, {"t", `{"A":"A"}`},
		{`t"=`, `{"a":1}`}, {"t", `[1,2]`}, {"t", `[2,1]`}, {"t", "\xff"}, {"t", "\xfe"},
	} {
		d := recovery.Digest(c[0], []byte(c[1]))
		if was, ok := seen[d]; ok {
			t.Errorf("%v has the digest of %s", c, was)
		}
		seen[d] = c[0] + c[1]
	}
}
