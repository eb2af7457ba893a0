package recovery

import (
	"encoding/json"
	"testing"
)

// What all calls of a file bring lies under what a line says for itself.
func TestTheLineStandsOverTheFile(t *testing.T) {
	for _, c := range []struct{ all, own, want string }{
		{`{"ask_user":"park"}`, ``, `{"ask_user":"park"}`},
		{``, `{"max_retries":1}`, `{"max_retries":1}`},
		{`{"ask_user":"park"}`, `{"max_retries":1}`, `{"ask_user":"park","max_retries":1}`},
		{`{"ask_user":"park"}`, `{"ask_user":"return"}`, `{"ask_user":"return"}`},
		{``, ``, ``},
	} {
		if got := Under(json.RawMessage(c.all), json.RawMessage(c.own)); string(got) != c.want {
			t.Errorf("%s under %s: %s, want %s", c.all, c.own, got, c.want)
		}
	}
}
