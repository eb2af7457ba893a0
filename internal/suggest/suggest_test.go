package suggest_test

import (
	"fmt"
	"testing"

	"mulligan/internal/suggest"
)

func TestS6_T4_UnknownToolNamesTheOneThatWasMeant(t *testing.T) {
	served := []string{"get_order", "cancel_order", "math.add"}
	for asked, want := range map[string]string{
		"get_ordr":  "tool 'get_ordr' is not available. Did you mean 'get_order'?",
		"Get-Order": "tool 'Get-Order' is not available. Did you mean 'get_order'?",
		"math_add":  "tool 'math_add' is not available. Did you mean 'math.add'?",
		"weather":   "tool 'weather' is not available",
	} {
		if got := suggest.ToolNotAvailable(asked, served); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestS6_T5_ToolServedByNobodyListsTenNames(t *testing.T) {
	var served []string
	for i := range 10 {
		served = append(served, fmt.Sprintf("t%02d", i))
	}
	list := "t00, t01, t02, t03, t04, t05, t06, t07, t08, t09"
	if got, want := suggest.ToolNotFound("weather", served), "Tool not found: weather. Available: "+list; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	served = append(served, "t10", "t11", "wheather")
	want := "Tool not found: weather. Available: " + list + "... (and 3 more). Did you mean 'wheather'?"
	if got := suggest.ToolNotFound("weather", served); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := suggest.ToolNotFound("weather", nil); got != "Tool not found: weather." {
		t.Errorf("%q", got)
	}
}

func TestNeighboursThatChangedPlacesAreOneMistake(t *testing.T) {
	for name, want := range map[string]string{"ehco": "echo", "ecoh": "echo", "echo": "", "hceo": "", "oche": ""} {
		if got := suggest.Nearest(name, []string{"echo"}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
