package permissions

import (
	"fmt"
	"strings"

	"mulligan/pkg/messages"
)

// Config is a block of NATS configuration with an account of the pool and its
// users, to be included into that of a server.
func Config(pool messages.Pool, users []User) string {
	var b strings.Builder
	b.WriteString(preface(pool))
	fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n", strings.ToUpper(pool.Prefix()))
	writeBlock(&b, "users", Users(pool, users))
	b.WriteString("  }\n}\n")
	return b.String()
}

func preface(pool messages.Pool) string {
	return "# Who may do what in the pool " + pool.Prefix() + ", as mulligan admin permissions prints it.\n" +
		"# What is not listed is denied. Give each principal the inbox prefix that stands\n# at its user: who can read an inbox can read the answers that come to it.\n\n"
}

func writeBlock(b *strings.Builder, name, text string) {
	fmt.Fprintf(b, "    %s: [\n%s    ]\n", name, indent(text, "      "))
}

// Users are the users alone, for a list of users that is there.
func Users(pool messages.Pool, users []User) string {
	var b strings.Builder
	for _, u := range users {
		fmt.Fprintf(&b, "{\n  # %s\n  nkey: %s\n  permissions {\n", u.about(), u.key(pool))
		writeList(&b, "publish", u.Publish)
		writeList(&b, "subscribe", u.Subscribe)
		b.WriteString("  }\n}\n")
	}
	return b.String()
}

func (u User) about() string {
	what := string(u.Role)
	if u.Name != what {
		what = u.Name + ", a " + what
	}
	if len(u.Queues) > 0 {
		var quoted []string
		for _, q := range u.Queues {
			quoted = append(quoted, fmt.Sprintf("%+q", q)) // a name may hold the end of a line
		}
		what += " of " + strings.Join(quoted, ", ")
	}
	return what + "; --inbox-prefix " + u.InboxPrefix
}

// key is the public key, or the variable of the environment that holds it.
func (u User) key(pool messages.Pool) string {
	if u.NKey != "" {
		return u.NKey
	}
	name := strings.ReplaceAll(pool.Prefix()+"_"+u.Name+"_nkey", "-", "_")
	return "$" + strings.ToUpper(name)
}

func writeList(b *strings.Builder, name string, subjects []string) {
	fmt.Fprintf(b, "    %s: [\n", name)
	for _, s := range subjects {
		fmt.Fprintf(b, "      %q\n", s)
	}
	b.WriteString("    ]\n")
}

func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	return b.String()
}
