package serve

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Request is the body of POST /call.
type Request struct {
	// Run and Call say whose state is meant and who asks; both are needed.
	Run  string `json:"run"`
	Call string `json:"call"`
	// Key is the idempotency key, if there is one. It is only recorded.
	Key string `json:"key,omitempty"`
	// Tool is the full name, such as "retail/get_order_details".
	Tool string `json:"tool"`
	// Input holds the arguments.
	Input json.RawMessage `json:"input"`
}

// Answer is the body of a 200. The tool was executed, and this is what it gave.
type Answer struct {
	Output  string `json:"output"`
	IsError bool   `json:"is_error"`
}

// Refusal is the body of any other status. Nothing was executed.
type Refusal struct {
	Error string `json:"error"`
}

// Address is what a server prints when it is ready, as one line of JSON.
type Address struct {
	// Addr is host and port.
	Addr string `json:"addr"`
	// URL is what a client is given.
	URL string `json:"url"`
	PID int    `json:"pid"`
}

// maxName bounds the names in a request, since the server remembers them.
const maxName = 1024

// Validate names the field that is missing or too long.
func (r Request) Validate() error {
	for _, f := range []struct {
		name, value string
		needed      bool
	}{{"run", r.Run, true}, {"call", r.Call, true}, {"tool", r.Tool, true}, {"key", r.Key, false}} {
		if f.needed && f.value == "" {
			return fmt.Errorf("field %q is missing", f.name)
		}
		if len(f.value) > maxName {
			return fmt.Errorf("field %q has %d bytes; at most %d are taken", f.name, len(f.value), maxName)
		}
	}
	if len(r.Input) == 0 {
		return errors.New(`field "input" is missing; a tool without arguments takes {}`)
	}
	return nil
}
