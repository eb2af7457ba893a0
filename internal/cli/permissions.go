package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"
	"github.com/spf13/cobra"

	"mulligan/internal/permissions"
	"mulligan/pkg/messages"
)

// permissionsOptions have names of their own, since a flag is also set by a
// variable of its name: --nkey is the seed of whoever connects.
type permissionsOptions struct {
	roles, queues, keys        []string
	principal, inboxes, folder string
	apart                      bool
}

func (a *app) permissionsCommand() *cobra.Command {
	var o permissionsOptions
	c := &cobra.Command{
		Use:   "permissions",
		Short: "Print the NATS users of a pool and what each may do",
		Long: `Permissions prints a block of NATS configuration: an account for the pool, and in it a
user for each role with the subjects that it may publish and subscribe to. What is not
listed is denied. The roles are coordinator, worker, reflector, submitter (submits and
cancels), observer (reads), human (answers parked calls), operator (all that people do,
policies and breakers among it) and importer (brings runs in from files). With --role it prints these users alone, for a
list that is there: one for the workers of each queue, such as of another team.

With --apart users other than coordinators stand in an account of their own, which keeps
them from having the server store its answers where they may not publish.

The key of a user comes from --public-key or --generate, or stands as a variable of the
environment of the server, such as $MULLIGAN_WORKER_NKEY. It connects to nobody.`,
		Example: `  mulligan admin permissions > permissions.conf
  mulligan admin permissions --apart --generate keys
  mulligan admin permissions --role worker --principal mailer --queue mail
  mulligan admin permissions --generate keys -o json
  mulligan admin permissions --role observer --public-key observer=UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.permissions(o) },
	}
	f := c.Flags()
	a.conn.poolFlag(f)
	f.StringSliceVar(&o.roles, "role", nil, "role whose user is printed; may be given several times (default all)")
	f.StringArrayVar(&o.queues, "queue", nil, "queue that the worker serves; may be given several times (default all)")
	f.StringVar(&o.principal, "principal", "", "name of the one user that is printed, where several have its role")
	f.StringVar(&o.inboxes, "inboxes", permissions.DefaultInbox, "what the inbox prefix of every user begins with, the same for all of a pool")
	f.StringArrayVar(&o.keys, "public-key", nil, "public nkey of the user of a role, as ROLE=U…; may be given several times")
	f.BoolVar(&o.apart, "apart", false, "put users other than coordinators into an account of their own")
	f.StringVar(&o.folder, "generate", "", "folder in which the seeds of users without a key are made, one file each")
	return c
}

func (a *app) permissions(o permissionsOptions) error {
	pool, err := messages.NewPool(a.conn.pool)
	if err != nil {
		return withCode(exitUsage, err)
	}
	principals, err := o.principals()
	if err != nil {
		return withCode(exitUsage, err)
	}
	var users []permissions.User
	for _, p := range principals {
		u, err := permissions.Of(pool, p)
		if err != nil {
			return withCode(exitUsage, err)
		}
		users = append(users, u)
	}
	if o.apart && len(o.roles) > 0 {
		return usage("--apart: users alone are in no account; leave --role out")
	}
	if o.folder != "" {
		if err := a.makeSeeds(o.folder, users); err != nil {
			return withCode(exitUsage, err)
		}
	}
	if a.json() {
		return a.printJSON(users)
	}
	_, err = fmt.Fprint(a.Out, o.form()(pool, users))
	return err
}

// form is what is printed of the users.
func (o permissionsOptions) form() func(messages.Pool, []permissions.User) string {
	switch {
	case len(o.roles) > 0:
		return permissions.Users
	case o.apart:
		return permissions.ConfigApart
	}
	return permissions.Config
}

// principals are those that the flags ask for.
func (o permissionsOptions) principals() ([]permissions.Principal, error) {
	roles := permissions.Roles()
	if len(o.roles) > 0 {
		roles = nil
	}
	for _, s := range o.roles {
		r, err := permissions.ParseRole(s)
		if err != nil {
			return nil, err
		}
		if slices.Contains(roles, r) {
			return nil, fmt.Errorf("--role %s is given twice; print a second user of it on its own, with --principal", r)
		}
		roles = append(roles, r)
	}
	switch {
	case o.principal != "" && len(roles) != 1:
		return nil, fmt.Errorf("--principal %s names one user, and %d are printed: give one --role", o.principal, len(roles))
	case len(o.queues) > 0 && !slices.Contains(roles, permissions.Worker):
		return nil, fmt.Errorf("--queue %s: no worker is printed; give --role worker", o.queues[0])
	}
	keys, err := o.publicKeys(roles)
	if err != nil {
		return nil, err
	}
	var out []permissions.Principal
	for _, r := range roles {
		p := permissions.Principal{Role: r, Name: o.principal, Inbox: o.inboxes, NKey: keys[r]}
		if r == permissions.Worker {
			p.Queues = o.queues
		}
		out = append(out, p)
	}
	return out, nil
}

// publicKeys says nothing of a value that is no public key: it may be a seed.
func (o permissionsOptions) publicKeys(roles []permissions.Role) (map[permissions.Role]string, error) {
	keys := map[permissions.Role]string{}
	for _, k := range o.keys {
		name, key, ok := strings.Cut(k, "=")
		switch role := permissions.Role(name); {
		case !ok:
			return nil, errors.New("--public-key: give a role and its key, such as worker=U…")
		case !slices.Contains(roles, role):
			return nil, fmt.Errorf("--public-key of %q: no user of this role is printed", oneLine(name, 60))
		case keys[role] != "":
			return nil, fmt.Errorf("--public-key: %s has two", role)
		case !nkeys.IsValidPublicUserKey(key):
			return nil, fmt.Errorf("--public-key of %s: not the public nkey of a user, which begins with U", role)
		default:
			keys[role] = key
		}
	}
	return keys, nil
}

// makeSeeds gives a key to each user that has none. A seed that is there is
// never replaced: its user would lose the pool.
func (a *app) makeSeeds(folder string, users []permissions.User) error {
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(a.Dir, folder)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("--generate: %w", err)
	}
	for i, u := range users {
		if u.NKey != "" {
			continue
		}
		path := filepath.Join(folder, u.Name+".nk")
		key, err := makeSeed(path)
		if err != nil {
			return fmt.Errorf("--generate: the seed of %s: %w", u.Name, err)
		}
		users[i].NKey = key
		if _, err := fmt.Fprintf(a.Err, "%s: --nkey %s --inbox-prefix %s\n", u.Name, path, u.InboxPrefix); err != nil {
			return err
		}
	}
	return nil
}

func makeSeed(path string) (publicKey string, err error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	defer user.Wipe()
	seed, err := user.Seed()
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	if _, err = f.Write(append(seed, '\n')); err != nil {
		_ = f.Close()
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return user.PublicKey()
}
