//go:build unix

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// Tools are those of the pool: one for each effect, all of the same body. Their
// only effect is an entry with the witness.
func Tools(witness, worker string) []*tool.Tool {
	w := &reporter{url: "http://" + witness + "/", worker: worker, http: &http.Client{Timeout: 30 * time.Second}}
	var out []*tool.Tool
	for name, effect := range map[string]messages.Effect{
		"read": messages.ReadOnly, "idem": messages.Idempotent, "keyed": messages.Keyed, "unsafe": messages.Unsafe,
	} {
		run := func(ctx context.Context, o Order) ([]byte, error) { return w.carryOut(ctx, name, o) }
		out = append(out, tool.New(name, run, tool.Effect(effect), tool.Timeout(20*time.Second), tool.Schema(json.RawMessage(orderSchema))))
	}
	return out
}

// orderSchema tells of the parameters of an [Order] that may be got wrong.
const orderSchema = `{"type":"object","properties":{"bytes":{"type":"integer"}}}`

// reporter tells the witness.
type reporter struct {
	url, worker string
	http        *http.Client
}

func (w *reporter) carryOut(ctx context.Context, name string, o Order) ([]byte, error) {
	c := tool.FromContext(ctx)
	select {
	case <-time.After(time.Duration(o.Ms) * time.Millisecond):
	case <-ctx.Done():
		return nil, tool.Definite(context.Cause(ctx)) // nothing was done, and the tool knows it
	}
	switch age := time.Since(messages.CallTime(c.ID)); {
	case age < time.Duration(o.BusyMs)*time.Millisecond:
		return nil, tool.RateLimited(errors.New("busy"), time.Duration(o.BusyMs)*time.Millisecond-age)
	case o.Die:
		os.Exit(7)
	case o.Hopeless:
		return nil, errors.New("the order does not exist")
	case o.Fail > c.Attempt && o.RetryMs > 0 && c.Dispatch == 0:
		return nil, tool.RetryAfter(errors.New("busy"), time.Duration(o.RetryMs)*time.Millisecond, true)
	case o.Fail > c.Attempt && o.RetryMs == 0:
		return nil, errors.New("connection reset by peer")
	}
	if err := w.report(Effect{Call: c.ID, Dispatch: c.Dispatch, Attempt: c.Attempt, Tool: name, Key: c.Key, Worker: w.worker, At: time.Now().UTC()}); err != nil {
		return nil, tool.Ambiguous(err)
	}
	switch {
	case o.Lose:
		return nil, tool.ConnectionLost(errors.New("the answer was lost"))
	case o.Bites > 0:
		return nil, tool.Ambiguous(errors.New("unknown parameter 'bites', did you mean 'bytes'?"))
	}
	return bytes.Repeat([]byte("y"), max(o.Bytes, 2)), nil
}

func (w *reporter) report(e Effect) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	res, err := w.http.Post(w.url, "application/json", bytes.NewReader(b)) //nolint:noctx // an effect that has begun is not taken back
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the witness answered %s", res.Status)
	}
	return nil
}
