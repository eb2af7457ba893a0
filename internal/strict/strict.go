// Package strict reads JSON that people write. It stands apart, since a worker
// that others write needs it and not what checks schemas.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Decode reads one JSON value into dst, a pointer. A field that dst does not
// have is an error, since a typing error must not become a default, and so is
// what follows the value.
func Decode(raw []byte, dst any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(dst); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows the value, at byte %d", dec.InputOffset())
	}
	return nil
}
