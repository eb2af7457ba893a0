package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// decodeInput reads arguments. They must be an object: null would leave the
// zero value of the input behind, which nobody asked for.
func decodeInput(b []byte, dst any) error {
	if first := bytes.TrimLeft(b, " \t\r\n"); len(first) == 0 || first[0] != '{' {
		return errors.New("they are not a JSON object")
	}
	err := json.Unmarshal(b, dst)
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) || !strings.HasPrefix(mismatch.Value, "number") {
		return err
	}
	return json.Unmarshal(plainIntegers(b), dst)
}

const maxEcho = 800 // characters of the arguments that an error shows (S6)

func argumentError(tool string, input []byte, err error) error {
	why := err.Error()
	var mismatch *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &mismatch) && mismatch.Field != "":
		why = fmt.Sprintf("%s is a %s, not %s", mismatch.Field, mismatch.Value, article(mismatch.Type.String()))
	case errors.As(err, &syntax):
		why = fmt.Sprintf("they are not JSON: %v at byte %d", err, syntax.Offset)
	}
	return fmt.Errorf("the arguments of tool %q cannot be used: %s. Given: %s", tool, why, echo(input))
}

func article(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

func echo(input []byte) string {
	s := strings.ToValidUTF8(string(input), "\uFFFD")
	n := 0
	for i := range s {
		if n++; n > maxEcho {
			return s[:i] + "…"
		}
	}
	return s
}

func encodeOutput(v any) (Output, error) {
	switch x := v.(type) {
	case Output:
		return x, nil
	case string:
		return Output{Body: []byte(x)}, nil
	case []byte:
		return Output{Body: x}, nil
	case json.RawMessage:
		return Output{Body: x}, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// The function has returned, so its effect has happened.
		return Output{}, Ambiguous(fmt.Errorf("the output cannot be written as JSON: %w", err))
	}
	return Output{Body: bytes.TrimSuffix(buf.Bytes(), []byte("\n"))}, nil
}
