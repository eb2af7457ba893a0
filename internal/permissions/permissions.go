// Package permissions says what each role of a pool may publish and subscribe
// to at NATS, and writes it as configuration. It gives what is allowed and
// nothing else: where a list of allowed subjects stands, NATS denies the rest.
package permissions

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mulligan/pkg/messages"
)

// Role is what a principal is for.
type Role string

// The roles. Observers only read; submitters, humans and operators read the
// same and may ask for what their names say. Importers read it too, and write
// what a run that they bring in consists of.
const (
	Coordinator Role = "coordinator"
	Worker      Role = "worker"
	Reflector   Role = "reflector"
	Submitter   Role = "submitter"
	Observer    Role = "observer"
	Human       Role = "human"
	Operator    Role = "operator"
	Importer    Role = "importer"
)

// Roles are all of them, in the order in which they are written.
func Roles() []Role {
	return []Role{Coordinator, Worker, Reflector, Submitter, Observer, Human, Operator, Importer}
}

// ParseRole reads the name of a role.
func ParseRole(s string) (Role, error) {
	if slices.Contains(Roles(), Role(s)) {
		return Role(s), nil
	}
	return "", fmt.Errorf("role %q: give one of %s", clip(s), names())
}

func names() string {
	var all []string
	for _, r := range Roles() {
		all = append(all, string(r))
	}
	return strings.Join(all, ", ")
}

// DefaultInbox is what the inboxes of all principals begin with.
const DefaultInbox = "_I"

// Principal is who connects.
type Principal struct {
	Role Role
	// Name tells principals of one role apart and ends their inbox prefix:
	// lower-case letters, digits, _ and -, at most 64. Default: the role.
	Name string
	// Inbox is what the inboxes of all principals of the pool begin with, the
	// same for all of them. Default [DefaultInbox].
	Inbox string
	// Queues are those that a worker serves. None means all. No other role has any.
	Queues []string
	// NKey is the public key. Empty: the configuration takes it from the environment.
	NKey string
}

// User is a principal with its permissions. What stands in no list is denied.
type User struct {
	Role        Role     `json:"role"`
	Name        string   `json:"name"`
	NKey        string   `json:"nkey,omitempty"`
	Queues      []string `json:"queues,omitempty"`
	InboxPrefix string   `json:"inbox_prefix"` // as clients take it, without the dot
	Publish     []string `json:"publish"`
	Subscribe   []string `json:"subscribe"`
}

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	inboxForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,3}$`)
	nkeyForm  = regexp.MustCompile(`^U[A-Z2-7]{55}$`)
)

// Of gives the permissions of a principal in a pool. An error names what is
// wrong with it.
func Of(pool messages.Pool, p Principal) (User, error) {
	p.Name, p.Inbox = cmp.Or(p.Name, string(p.Role)), cmp.Or(p.Inbox, DefaultInbox)
	if err := p.check(pool); err != nil {
		return User{}, err
	}
	own := p.Inbox + "." + p.Name
	g := grants{pool: pool}
	g.subscribe(own + ".>")
	switch p.Role {
	case Coordinator:
		g.coordinator(p.Inbox)
	case Worker:
		g.worker(p.Queues)
	case Reflector:
		g.reflector()
	case Importer:
		g.reads()
		g.importer()
	default:
		g.reads()
		g.asks(p.Role)
	}
	return User{
		Role: p.Role, Name: p.Name, NKey: p.NKey, Queues: p.Queues, InboxPrefix: own,
		Publish: g.pub, Subscribe: g.sub,
	}, nil
}

func (p Principal) check(pool messages.Pool) error {
	if _, err := ParseRole(string(p.Role)); err != nil {
		return err
	}
	first, _, _ := strings.Cut(p.Inbox, ".")
	switch {
	case !nameForm.MatchString(p.Name):
		return fmt.Errorf("name %q: give 1 to 64 lower-case letters, digits, _ and -", clip(p.Name))
	case !inboxForm.MatchString(p.Inbox):
		return fmt.Errorf("inbox prefix %q: give one to four tokens of letters, digits, _ and -, with a dot between two", clip(p.Inbox))
	case first == pool.Prefix():
		return fmt.Errorf("inbox prefix %q begins like the subjects of the pool; give another", p.Inbox)
	case p.NKey != "" && !nkeyForm.MatchString(p.NKey):
		return fmt.Errorf("nkey of %s: not the public key of a user, which is U and 55 more characters", p.Name)
	case len(p.Queues) > 0 && p.Role != Worker:
		return fmt.Errorf("queues of %s: only a worker has queues", p.Name)
	}
	var errs []error
	for _, q := range p.Queues {
		errs = append(errs, messages.CheckName("queue", q, messages.MaxQueueName))
	}
	return errors.Join(errs...)
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
