package pyval

import "fmt"

// Error is an exception of the modelled program. Its text is what str() of the
// exception gives, without the name of its class.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

func raise(format string, args ...any) error {
	return &Error{Text: fmt.Sprintf(format, args...)}
}

// KeyError is the exception for a key that an object does not hold.
func KeyError(key Value) error { return &Error{Text: Repr(key)} }

// Unhashable is the exception for a list or an object used as a key.
func Unhashable(v Value) error { return raise("unhashable type: '%s'", v.pyType()) }

func noAttribute(v Value, name string) error {
	return raise("'%s' object has no attribute '%s'", v.pyType(), name)
}
