package runstate

import "github.com/google/uuid"

// ID is a call's id in the fewest bytes: a million of them take 16 MB.
type ID [16]byte

// IDOf gives the short form of a call id; the zero one for what is none.
func IDOf(call string) ID {
	u, err := uuid.Parse(call)
	if err != nil {
		return ID{}
	}
	return ID(u)
}

// String is the usual form.
func (i ID) String() string { return uuid.UUID(i).String() }
