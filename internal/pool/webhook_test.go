package pool

import (
	"context"
	"errors"
	"testing"

	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// A pool in one process tells the webhook of a run that is over, where it was
// given a way to; without one it takes no run that names a webhook.
func TestAPoolTellsWebhooks(t *testing.T) {
	spec := messages.RunSpec{Webhook: "https://example.com/runs"}
	told := make(chan string, 1)
	for _, notify := range []func(context.Context, string, string, []byte) error{
		nil,
		func(_ context.Context, address, _ string, _ []byte) error {
			select {
			case told <- address:
			default:
			}
			return nil
		},
	} {
		p, err := Start(t.Context(), Config{Notify: notify, Tools: []*tool.Tool{tool.New("fails", fails)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, p) })
		b, err := p.Connect(t.Context(), "test")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		c, err := client.New(b, client.Config{By: "test"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		run := messages.NamedRun("told")
		_, err = c.DeclareRun(t.Context(), run, spec)
		if notify == nil {
			var re *client.RunError
			if !errors.As(err, &re) || re.Field != "webhook" || re.Code != messages.CodeBadRun {
				t.Fatalf("without a way to tell: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CloseRun(t.Context(), run, 0); err != nil {
			t.Fatal(err)
		}
		if got := <-told; got != spec.Webhook {
			t.Errorf("told %s", got)
		}
	}
}
