package messages

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestPlainTextsReadAsTheParserReadsThem(t *testing.T) {
	for _, v := range []string{`""`, `"a b"`, `"`, ``, `"\n"`, `"a"b"`, `"é"`, `"\u0041"`, "\"\x7f\"", "\"\t\"", `x"a"`} {
		checkPlain(t, v)
	}
	rapid.Check(t, func(t *rapid.T) { checkPlain(t, rapid.String().Draw(t, "v")) })
	rapid.Check(t, func(t *rapid.T) { checkPlain(t, `"`+rapid.String().Draw(t, "v")+`"`) })
}

func checkPlain(t rapid.TB, v string) {
	t.Helper()
	got, ok := unquotePlain(v)
	if !ok {
		return
	}
	var want string
	if err := json.Unmarshal([]byte(v), &want); err != nil || want != got {
		t.Fatalf("%q reads as %q, the parser says %q, %v", v, got, want, err)
	}
}

func TestACallIDHasOneForm(t *testing.T) {
	good := func(id string) bool {
		u, err := uuid.Parse(id)
		return err == nil && u.String() == id && u.Version() == 7 && u.Variant() == uuid.RFC4122
	}
	id := NewCallID()
	if CheckCallID(id) != nil {
		t.Fatalf("%s is refused", id)
	}
	for i := range len(id) {
		for _, c := range []byte("07f9aA-g{ ") {
			b := []byte(id)
			b[i] = c
			if changed := string(b); (CheckCallID(changed) == nil) != good(changed) {
				t.Errorf("%q: %v", changed, CheckCallID(changed))
			}
		}
	}
	for _, bad := range []string{"", id[1:], id + "0", "{" + id + "}", "urn:uuid:" + id} {
		if CheckCallID(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
