package strict

import (
	"strings"
	"testing"
)

func TestDecodeIsStrict(t *testing.T) {
	var v struct {
		A int `json:"a"`
	}
	if err := Decode([]byte(` {"a": 3} `), &v); err != nil || v.A != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	for text, says := range map[string]string{
		`{"a": 1, "b": 2}`: `unknown field "b"`, `{"a": 1} {}`: "something follows", `{"a": 1}]`: "something follows", `{"a": "x"}`: "string", ``: "EOF",
	} {
		if err := Decode([]byte(text), &v); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
