package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mulligan/internal/pace"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

const (
	defaultOfferLease = 30 * time.Second // when the coordinator names none
	offerTries        = 3                // refusals before a worker gives up to start
	withdrawTimeout   = 5 * time.Second
	offerQuiet        = 2 * time.Second // how long nobody hears that no coordinator answers
)

// refusedOffer is a coordinator's answer, as opposed to none.
type refusedOffer struct{ text string }

func (e *refusedOffer) Error() string { return "the offer was refused: " + e.text }

// served are the tools that a worker serves at a time. It does not change.
type served struct {
	tools map[string]*tool.Tool
	specs []messages.ToolSpec
}

func newServed(tools []*tool.Tool) *served {
	s := &served{tools: make(map[string]*tool.Tool, len(tools))}
	for _, t := range tools {
		s.tools[t.Name()] = t
		s.specs = append(s.specs, t.Spec())
	}
	return s
}

// begin makes the first offer, and returns what keeps it alive.
func (w *Worker) begin(ctx context.Context) (keep func(context.Context), err error) {
	if w.cfg.Live != nil {
		f := &following{w: w}
		f.first(ctx)
		return f.run, nil
	}
	lease, err := w.offer(ctx)
	return func(ctx context.Context) { w.renew(ctx, lease) }, err
}

// offer makes the first offer and returns its lease. It waits for a
// coordinator as long as ctx lasts, but a refusal is final after a few tries:
// a queue or schema in conflict does not mend itself, nor do tools whose
// schemas together exceed a message.
func (w *Worker) offer(ctx context.Context) (time.Duration, error) {
	refusals := 0
	begun := time.Now()
	for p := pauses(); ; {
		lease, err := w.requestOffer(ctx, false)
		if err == nil {
			return lease, nil
		}
		var refused *refusedOffer
		if errors.As(err, &refused) {
			refusals++
		}
		if refusals == offerTries || errors.Is(err, messages.ErrTooLarge) {
			return 0, fmt.Errorf("worker %s: %w", w.cfg.Name, err)
		}
		level := slog.LevelDebug // a coordinator that starts beside this worker is no news
		if refused != nil || time.Since(begun) > offerQuiet {
			level = slog.LevelWarn
		}
		w.log.Log(ctx, level, "the tools are not offered yet", "error", err)
		if !p.Wait(ctx) {
			return 0, context.Cause(ctx)
		}
	}
}

// renew keeps the offer alive until ctx is done, asking three times in each lease.
func (w *Worker) renew(ctx context.Context, lease time.Duration) {
	for p := pauses(); ; {
		if !pace.Sleep(ctx, lease/3) {
			return
		}
		for {
			next, err := w.requestOffer(ctx, false)
			if err == nil {
				lease, p = next, pauses()
				break
			}
			if ctx.Err() != nil {
				return
			}
			w.log.Warn("the offer was not renewed", "error", err)
			if !p.Wait(ctx) {
				return
			}
		}
	}
}

// withdraw takes the offer back. Where that fails it lapses by itself.
func (w *Worker) withdraw(ctx context.Context) {
	if w.cfg.KeepOffer {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, withdrawTimeout)
	defer cancel()
	if _, err := w.requestOffer(ctx, true); err != nil {
		w.log.Warn("the offer was not withdrawn; it lapses by itself", "error", err)
	}
}

func (w *Worker) requestOffer(ctx context.Context, withdraw bool) (time.Duration, error) {
	body, err := messages.EncodeService(messages.OfferRequest{
		Worker: w.cfg.Name, Tools: w.serving.Load().specs, Replace: w.cfg.Replace || w.cfg.Live != nil, Withdraw: withdraw,
	})
	if err != nil {
		return 0, err
	}
	answer, err := w.broker.Request(ctx, messages.EndpointOffer, body)
	if err != nil {
		return 0, err
	}
	reply, err := messages.DecodeService[messages.OfferReply](answer)
	if err != nil {
		return 0, err
	}
	if reply.Error != "" {
		return 0, &refusedOffer{reply.Error}
	}
	if reply.Lease <= 0 {
		return defaultOfferLease, nil
	}
	return reply.Lease.Duration(), nil
}
