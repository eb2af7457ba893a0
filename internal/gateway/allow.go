package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"mulligan/pkg/messages"
)

// calls says whether a token may call a tool of a queue, and see its calls.
func (k *Token) calls(tool, queue string) bool {
	return !k.restricted() || slices.Contains(k.Tools, tool) || slices.Contains(k.Queues, queue)
}

// mayCall says the same of a tool by its name.
func (g *Gateway) mayCall(ctx context.Context, who *Token, tool string) (bool, error) {
	if !who.restricted() || slices.Contains(who.Tools, tool) {
		return true, nil
	}
	if len(who.Queues) == 0 || messages.CheckName("tool", tool, messages.MaxName) != nil {
		return false, nil
	}
	e, err := g.cfg.Broker.Load(ctx, messages.BucketTools, messages.ToolKey(tool))
	if errors.Is(err, messages.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("queue of tool %q: %w", tool, err)
	}
	var t messages.Tool
	if err := json.Unmarshal(e.Value, &t); err != nil {
		return false, fmt.Errorf("queue of tool %q: %w", tool, err)
	}
	return who.calls(tool, t.Spec.Queue), nil
}

// notAllowed says that a tool is not for this token; nil where it is.
func notAllowed(ok bool, tool string) error {
	if ok {
		return nil
	}
	return fail(http.StatusForbidden, codeForbidden, "%s", withheldTool(tool)).about("tool", tool)
}

// withheldTool is also what a model reads.
func withheldTool(tool string) string {
	return fmt.Sprintf("tool '%.200s' is not available to this token", tool)
}

func notEntitled(who *Token, what string) error {
	return fail(http.StatusForbidden, codeForbidden, "token %s may not %s; its entry needs may: [%s]", who.Name, what, what)
}

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// trace is the trace context of the request, for its calls.
func (x *exchange) trace() string {
	if t := x.r.Header.Get("Traceparent"); traceparent.MatchString(t) {
		return t
	}
	return ""
}
