package permissions_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"mulligan/internal/permissions"
	"mulligan/pkg/messages"
)

var update = flag.Bool("update", false, "write the files that hold what is computed anew")

// held compares a file with what it is to hold, or writes it.
func held(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what it must hold; look at what go test ./internal/permissions -update makes of it", path)
	}
}

func users(t *testing.T, pool messages.Pool, change func(*permissions.Principal)) []permissions.User {
	t.Helper()
	var out []permissions.User
	for _, r := range permissions.Roles() {
		p := permissions.Principal{Role: r}
		if change != nil {
			change(&p)
		}
		u, err := permissions.Of(pool, p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

// The configuration that is shipped is what the command prints.
func TestTheShippedConfigurationIsTheComputedOne(t *testing.T) {
	pool := messages.Pool{}
	held(t, "../../deploy/nats/permissions.conf", permissions.Config(pool, users(t, pool, nil)))
	held(t, "../../deploy/nats/permissions-apart.conf", permissions.ConfigApart(pool, users(t, pool, nil)))
}

// No list of a pool names anything of another one, and nobody may all.
func TestListsStayInTheirPool(t *testing.T) {
	pool, err := messages.NewPool("other")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range users(t, pool, nil) {
		for _, s := range slices.Concat(u.Publish, u.Subscribe) {
			ours := strings.HasPrefix(s, "other.") || strings.Contains(s, "OTHER_") || strings.HasPrefix(s, "_I.") ||
				(s == "$JS.API.INFO" || s == "_R_.>") && u.Role == permissions.Coordinator
			if !ours {
				t.Errorf("the %s may %s", u.Role, s)
			}
		}
	}
}
