package messages

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// NewCallID returns a fresh call id: a UUIDv7, whose own time says how old a
// submission is (protocol section 4).
func NewCallID() string { return uuid.Must(uuid.NewV7()).String() }

// CheckCallID tells why id is not a call id.
func CheckCallID(id string) error {
	if !isUUID7(id) {
		return fmt.Errorf("call id %q is not a UUID of version 7 in its usual form", truncateText(id, 60))
	}
	return nil
}

// isUUID7 knows one form of one version, with lower-case digits, so that a call
// has one subject.
func isUUID7(id string) bool {
	return isUUID(id) && id[14] == '7' && strings.IndexByte("89ab", id[19]) >= 0
}

// isUUID knows the usual form: 36 characters, lower-case digits.
func isUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// CallTime is the time in a call id, to the millisecond; zero if id is not one.
func CallTime(id string) time.Time {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return time.Time{}
	}
	ms := int64(u[0])<<40 | int64(u[1])<<32 | int64(u[2])<<24 | int64(u[3])<<16 | int64(u[4])<<8 | int64(u[5])
	return time.UnixMilli(ms).UTC()
}

// Run is the run of a call in the form that stands in subjects and keys. It is
// either named by its submitter, or unnamed: then it holds the id of what was
// submitted together, only so that those results can be followed with one
// filter; calls of an unnamed run never affect each other (S5.5).
type Run string

// NamedRun gives the run that a submitter called name.
func NamedRun(name string) Run { return Run(Token(name)) }

// UnnamedRun gives the run of calls that were submitted without one; batch is
// a UUID. Its '/' stands in no token.
func UnnamedRun(batch string) Run { return Run("/" + batch) }

// Named says whether the submitter named the run; only such a run is ended by
// a hard end of one of its calls.
func (r Run) Named() bool { return r != "" && !strings.HasPrefix(string(r), "/") }

// Name is what the submitter called the run, empty for an unnamed one.
func (r Run) Name() string {
	if !r.Named() {
		return ""
	}
	n, err := Name(string(r))
	if err != nil {
		return ""
	}
	return n
}

// Check tells why r cannot stand in a subject.
func (r Run) Check() error {
	if batch, ok := strings.CutPrefix(string(r), "/"); ok {
		if !isUUID(batch) {
			return fmt.Errorf("run %q: an unnamed run is '/' and a UUID in its usual form", truncateText(string(r), 60))
		}
		return nil
	}
	name, err := Name(string(r))
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return CheckName("run", name, MaxName)
}
