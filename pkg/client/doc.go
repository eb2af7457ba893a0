// Package client submits calls to a pool and brings their results back.
//
//	c, err := client.New(pool, client.Config{})
//	defer c.Close()
//	result, err := c.Call(ctx, messages.Submission{Tool: "echo", Input: []byte(`{"text":"hi"}`)})
//
// A call that is accepted ends in exactly one result (S5.1), which stays in
// RESULTS for its retention; a call that is refused was never accepted. Both
// are told apart by type: a [messages.Result] whatever its status, or a
// [*RefusedError]. An error of any other kind means that this client does not
// know; sending the same call again with the same id and run is always safe.
//
// Results are read from the stream, from the position that it had before the
// first submission. Reading live, attaching late and coming back after a lost
// connection are therefore one mechanism, and no result is handed over twice.
package client
