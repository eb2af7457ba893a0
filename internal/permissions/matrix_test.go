package permissions_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"mulligan/internal/permissions"
)

// operation is something that a principal may try.
type operation struct {
	group, what string
	may         []permissions.Role // for whom it works
	refused     []permissions.Role // whom the permissions let through, and the stream does not
	try         func(h hand) outcome
}

func (o operation) expected(r permissions.Role) outcome {
	switch {
	case slices.Contains(o.may, r):
		return worked
	case slices.Contains(o.refused, r):
		return refused
	}
	return denied
}

// TestPermissionMatrix has every role try every operation on a server with the
// configuration that is computed. What is expected stands at each operation;
// the table of docs/security.md is what was seen.
func TestPermissionMatrix(t *testing.T) {
	one := start(t, permissions.Config)
	table := try(t, one, operations())
	// The same with two accounts, but that nobody outside goes round the lists.
	apart := start(t, permissions.ConfigApart)
	if again := try(t, apart, operations()); again != table {
		t.Error("two accounts allow what one does not, or less")
	}
	table += try(t, one, around("Round the lists", permissions.Roles()))
	table += try(t, apart, around("Round the lists, with --apart", roles{c, imp}))
	const page, begin, end = "../../docs/security.md", "<!-- matrix -->\n", "<!-- end of matrix -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	held(t, page, head+begin+table+"\n"+end+tail)
}

// try has every role try operations, and writes what was seen as a table.
func try(t *testing.T, b *broker, operations []operation) string {
	t.Helper()
	hands := map[permissions.Role]hand{}
	for _, r := range permissions.Roles() {
		hands[r] = hand{broker: b, name: string(r), nc: b.connect(string(r))}
	}
	var table strings.Builder
	group := ""
	for _, o := range operations {
		if o.group != group {
			group = o.group
			heading(&table, group)
		}
		row := "| " + o.what
		for _, r := range permissions.Roles() {
			got := o.try(hands[r])
			if want := o.expected(r); got != want {
				t.Errorf("%s, %s, the %s: %s, want %s", o.group, o.what, r, got, want)
			}
			row += " | " + string(got)
		}
		table.WriteString(row + " |\n")
	}
	return table.String()
}

func heading(b *strings.Builder, group string) {
	fmt.Fprintf(b, "\n| %s |", group)
	for _, r := range permissions.Roles() {
		fmt.Fprintf(b, " %s |", r)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(permissions.Roles())+1) + "\n")
}

// Words of the table for sets of roles.
const (
	c = permissions.Coordinator
	w = permissions.Worker
	r = permissions.Reflector
	s = permissions.Submitter
	v = permissions.Observer
	h = permissions.Human
	o = permissions.Operator

	imp = permissions.Importer
)

type roles = []permissions.Role

func operations() []operation {
	return slices.Concat(requests(), taking(), writing(), rollups(), schedules(), reading(), following(), administering(), inboxes())
}
