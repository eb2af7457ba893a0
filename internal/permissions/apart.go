package permissions

import (
	"fmt"
	"slices"
	"strings"

	"mulligan/pkg/messages"
)

// ConfigApart is Config with two accounts: one that holds the streams, with the
// coordinators and importers, and one for everybody else, who reach it through imports. The
// answer to a request goes to the account of whoever asked, where there is no
// stream, so that nobody has it stored (see docs/security.md).
func ConfigApart(pool messages.Pool, users []User) string {
	inside := slices.DeleteFunc(slices.Clone(users), func(u User) bool { return !u.Role.inside() })
	outside := slices.DeleteFunc(slices.Clone(users), func(u User) bool { return u.Role.inside() })
	home := strings.ToUpper(pool.Prefix())
	others := home + "_USERS"
	var exports, imports []string
	for _, s := range shared(pool) {
		exports = append(exports, fmt.Sprintf("{ %s: %q, accounts: [%s]%s }", s.kind, s.subject, others, s.more))
		imports = append(imports, fmt.Sprintf("{ %s: { account: %s, subject: %q } }", s.kind, home, s.subject))
	}
	var b strings.Builder
	b.WriteString(preface(pool))
	fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n", home)
	writeBlock(&b, "users", Users(pool, inside))
	writeBlock(&b, "exports", strings.Join(exports, "\n")+"\n")
	fmt.Fprintf(&b, "  }\n  %s {\n", others)
	writeBlock(&b, "users", Users(pool, outside))
	writeBlock(&b, "imports", strings.Join(imports, "\n")+"\n")
	b.WriteString("  }\n}\n")
	return b.String()
}

// inside says that a role stands in the account of the streams: it is trusted as
// they are, and writes more than the passages let through.
func (r Role) inside() bool { return r == Coordinator || r == Importer }

// passage is a subject that leads from one account to the other.
type passage struct{ kind, subject, more string }

// shared are the passages. They are as wide as they may be together: what one
// user may stands in its lists.
func shared(pool messages.Pool) []passage {
	var out []passage
	service := func(more string, subjects ...string) {
		for _, s := range subjects {
			out = append(out, passage{"service", s, more})
		}
	}
	for _, k := range []string{
		messages.KindResult, messages.KindStart, messages.KindFailure, messages.KindDecision,
		messages.KindSettled, messages.KindLate, messages.KindPayload,
	} {
		service("", pool.Prefix()+"."+k+".>")
	}
	// Without INFO the server answers for an account that has no streams.
	service("", pool.ServiceSubject("*"), "$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.*",
		"$JS.API.CONSUMER.CREATE.*.*", "$JS.API.CONSUMER.DELETE.*.*", "$JS.API.CONSUMER.INFO.*.*", "$JS.ACK.>")
	const many = `, response_type: "stream"` // answers of more than one message
	service(many, "$JS.API.CONSUMER.MSG.NEXT.*.*", "$JS.API.DIRECT.GET.*")
	return append(out, passage{"stream", pool.LiveResultsFilter("*"), ""})
}
