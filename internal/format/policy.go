package format

import (
	"bytes"
	"encoding/json"
	"fmt"

	"mulligan/pkg/recovery"
)

// policy reads what a call wants to hold for itself (docs/policies.md), in one
// line, as it travels.
func policy(raw []byte, dst *json.RawMessage) error {
	if err := onceEach(raw); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return fmt.Errorf("policy: %w", syntaxError(err))
	}
	if _, err := recovery.CallValues(line.Bytes()); err != nil {
		return err // which begins with the name of the field
	}
	*dst = line.Bytes()
	return nil
}

// onceEach says which field of an object is given twice. What is no object is
// no business of it.
func onceEach(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil //nolint:nilerr // told by who reads it
	}
	for seen := map[string]bool{}; d.More(); {
		t, err := d.Token()
		if err != nil {
			return syntaxError(err)
		}
		name, _ := t.(string)
		if seen[name] {
			return fmt.Errorf("%s is given twice; give it once", excerpt([]byte(name)))
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return syntaxError(err)
		}
	}
	return nil
}
