package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"mulligan/internal/catalogue"
	"mulligan/internal/secrets"
)

// veiled answers with a value in which what looks like a secret is withheld, as
// `mulligan explain` does.
func (x *exchange) veiled(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	var f *secrets.Finder // of the looks alone
	x.raw(http.StatusOK, []byte(f.Hide(buf.String())))
	return nil
}

// health says whether the gateway can reach its pool.
func (x *exchange) health() error {
	if err := x.g.cfg.Healthy(); err != nil {
		return fail(http.StatusServiceUnavailable, codeNotReady, "the pool cannot be reached for now").after(time.Second)
	}
	return x.json(http.StatusOK, map[string]string{"status": "ok"})
}

// getTools lists the tools that the token may call.
func (x *exchange) getTools() error {
	if err := x.parameters(); err != nil {
		return err
	}
	warn := func(format string, args ...any) { x.g.cfg.Log.Warn("tools: " + fmt.Sprintf(format, args...)) }
	all, _, err := catalogue.Read(x.ctx(), x.g.cfg.Broker, time.Now(), warn)
	if err != nil {
		return err
	}
	tools := []catalogue.Tool{}
	for _, t := range all {
		if x.who.calls(t.Name, t.Queue) {
			tools = append(tools, t)
		}
	}
	return x.json(http.StatusOK, tools)
}
