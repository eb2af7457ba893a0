package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// marshal writes v without escaping for HTML, which would multiply the size
// of tool output for nothing.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// encodeJSON writes a body that decodeJSON reads: what a reader would refuse
// is an error here, where it can still be put right, and not for ever after in
// a stream or bucket.
func encodeJSON(what string, v any) ([]byte, error) {
	if c, ok := v.(checked); ok {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	b, err := marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return b, nil
}

// jsonMessage makes a message with v as its body.
func jsonMessage(subject, what string, v any) (Message, error) {
	b, err := encodeJSON(what, v)
	return Message{Subject: subject, Header: Header{HeaderVersion: {Version}}, Body: b}, err
}

// checked is a body with demands beyond the types of its fields: a closed set
// whose field is missing, a name that cannot stand in a subject.
type checked interface{ check() error }

// decodeJSON reads a body into a struct whose field Version must be ours. What
// cannot be read, or is of another version, is looked at once more for its version
// alone, so that a body of another version is called that, and not broken.
func decodeJSON(what string, b []byte, dst any) error {
	err := json.Unmarshal(b, dst)
	if into := reflect.ValueOf(dst).Elem(); err != nil || into.FieldByName("Version").String() != Version {
		var v struct {
			Version string `json:"version"`
		}
		if verr := json.Unmarshal(b, &v); verr != nil {
			err = verr
		} else if v.Version != Version {
			into.SetZero()
			return &VersionError{What: what + ": version", Version: v.Version}
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, brief(err))
	}
	if c, ok := dst.(checked); ok {
		if err := c.check(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// brief keeps the error of a decoder from repeating all that it could not read,
// such as a number of a million digits.
func brief(err error) error {
	const most = 500
	if text := err.Error(); len(text) > most {
		return errors.New(truncateText(text, most) + "…")
	}
	return err
}
