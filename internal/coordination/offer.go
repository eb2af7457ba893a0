package coordination

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// mostTools bounds what one worker may offer, so that its offer fits a message.
const mostTools = 1000

// offerEntry is an offer as it stands in TOOLS, with what tells a renewal from
// a new offer: a renewal never changes what is registered, or two versions of
// a worker would take turns for as long as both live.
type offerEntry struct {
	messages.Offer
	Digest string `json:"digest"`
}

// offer answers EndpointOffer: it registers tools, renews their lease, or
// withdraws them.
func (c *Coordinator) offer(ctx context.Context, request []byte) []byte {
	req, err := messages.DecodeService[messages.OfferRequest](request)
	if err == nil {
		if req.Withdraw {
			err = c.withdraw(ctx, req)
		} else {
			err = c.register(ctx, req)
		}
	}
	reply := messages.OfferReply{Lease: messages.Millis(c.cfg.OfferLease)}
	if err != nil {
		reply = messages.OfferReply{Error: err.Error()}
		c.log.Warn("an offer was refused", "worker", req.Worker, "error", err)
	}
	return encodeReply(reply)
}

func encodeReply[T messages.OfferReply | messages.ChunkReply | messages.CancelReply | messages.AnswerReply |
	messages.PolicyReply | messages.BreakerReply | messages.RunReply | messages.QueueReply](v T) []byte {
	b, err := messages.EncodeService(v)
	if err != nil { // replies hold texts and numbers only
		panic(err)
	}
	return b
}

func (c *Coordinator) register(ctx context.Context, req messages.OfferRequest) error {
	if err := checkOffer(req.Tools); err != nil {
		return err
	}
	before, err := c.loadOffer(ctx, req.Worker)
	if err != nil {
		return err
	}
	digest, err := digestOf(req.Tools)
	if err != nil {
		return err
	}
	renewal := before != nil && before.Digest == digest
	if !renewal {
		if err := c.ensureQueues(ctx, req.Tools); err != nil {
			return err
		}
	}
	for _, spec := range req.Tools {
		if err := c.registerTool(ctx, spec, req, renewal); err != nil {
			return err
		}
	}
	if err := c.saveOffer(ctx, req, digest); err != nil || before == nil || renewal {
		return err
	}
	return c.drop(ctx, req.Worker, slices.DeleteFunc(before.Tools, func(name string) bool {
		return slices.ContainsFunc(req.Tools, func(spec messages.ToolSpec) bool { return spec.Name == name })
	}))
}

func checkOffer(tools []messages.ToolSpec) error {
	if len(tools) == 0 {
		return errors.New("the offer names no tool")
	}
	if len(tools) > mostTools {
		return fmt.Errorf("the offer names %d tools, the limit is %d: offer them from several workers", len(tools), mostTools)
	}
	seen := make(map[string]bool, len(tools))
	for _, spec := range tools {
		if err := spec.Validate(); err != nil {
			return err
		}
		if seen[spec.Name] {
			return fmt.Errorf("tool %q is offered twice", spec.Name)
		}
		seen[spec.Name] = true
		if _, err := schema.Compile(spec.Schema); err != nil {
			return fmt.Errorf("tool %q: %w", spec.Name, err)
		}
	}
	return nil
}

func digestOf(tools []messages.ToolSpec) (string, error) {
	b, err := json.Marshal(tools)
	if err != nil {
		return "", fmt.Errorf("the offer: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

func (c *Coordinator) loadOffer(ctx context.Context, worker string) (*offerEntry, error) {
	e, err := c.broker.Load(ctx, messages.BucketTools, messages.OfferKey(worker))
	if errors.Is(err, messages.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the registry cannot be read: %w", err)
	}
	var o offerEntry
	if err := json.Unmarshal(e.Value, &o); err != nil {
		return nil, nil //nolint:nilerr // unreadable: as if it were new
	}
	return &o, nil
}

func (c *Coordinator) saveOffer(ctx context.Context, req messages.OfferRequest, digest string) error {
	o := offerEntry{Offer: messages.Offer{Worker: req.Worker, At: time.Now().UTC()}, Digest: digest}
	for _, spec := range req.Tools {
		o.Tools = append(o.Tools, spec.Name)
	}
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("the offer: %w", err)
	}
	return wrap("the registry cannot be written", c.broker.Put(ctx, messages.BucketTools, messages.OfferKey(req.Worker), b, c.cfg.OfferLease))
}

// ensureQueues makes the consumers before anybody is told of the tools.
func (c *Coordinator) ensureQueues(ctx context.Context, tools []messages.ToolSpec) error {
	var made []string
	for _, spec := range tools {
		if slices.Contains(made, spec.Queue) {
			continue
		}
		if err := c.settings.ensure(ctx, spec.Queue); err != nil {
			return fmt.Errorf("queue %q cannot be made: %w", spec.Queue, err)
		}
		made = append(made, spec.Queue)
	}
	return nil
}

// registerTool writes the tool's entry unless it says this already.
func (c *Coordinator) registerTool(ctx context.Context, spec messages.ToolSpec, req messages.OfferRequest, renewal bool) error {
	if t, p := c.registry.known(spec.Name); renewal && p != unknownTool && !t.Withdrawn {
		return nil
	}
	for {
		old, rev, err := c.loadTool(ctx, spec.Name)
		if err != nil {
			return err
		}
		next := messages.Tool{Spec: spec, Registered: time.Now().UTC()}
		if old != nil {
			write, err := c.replaces(old, &next, req, renewal)
			if err != nil || !write {
				return err
			}
		}
		b, err := json.Marshal(next)
		if err != nil {
			return fmt.Errorf("tool %q: %w", spec.Name, err)
		}
		_, err = c.broker.Save(ctx, messages.BucketTools, messages.ToolKey(spec.Name), b, rev, 0)
		if errors.Is(err, messages.ErrConflict) {
			continue
		}
		if err != nil {
			return fmt.Errorf("tool %q cannot be registered: %w", spec.Name, err)
		}
		c.log.Info("tool registered", "tool", spec.Name, "queue", next.Spec.Queue, "effect", string(next.Spec.Effect), "worker", req.Worker)
		c.tellWeaker(next.Spec, c.policies.Effect(next.Spec))
		return nil
	}
}

func (c *Coordinator) loadTool(ctx context.Context, name string) (*messages.Tool, uint64, error) {
	e, err := c.broker.Load(ctx, messages.BucketTools, messages.ToolKey(name))
	if errors.Is(err, messages.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("the registry cannot be read: %w", err)
	}
	var t messages.Tool
	if err := json.Unmarshal(e.Value, &t); err != nil {
		return nil, e.Revision, nil //nolint:nilerr // unreadable: replaced
	}
	t.Spec = t.Spec.WithDefaults()
	return &t, e.Revision, nil
}

// replaces says whether next may take the place of old, and whether it has to.
// A renewal only brings back what was withdrawn, as it was.
func (c *Coordinator) replaces(old, next *messages.Tool, req messages.OfferRequest, renewal bool) (bool, error) {
	name := old.Spec.Name
	if renewal {
		next.Spec, next.Registered = old.Spec, old.Registered
		return old.Withdrawn, nil
	}
	newer := req.Replace || next.Spec.Version != "" && next.Spec.Version != old.Spec.Version
	if old.Spec.Queue != next.Spec.Queue {
		if _, p := c.registry.known(name); p == liveTool || !newer {
			return false, fmt.Errorf("tool %q is registered in queue %q, and a tool belongs to one queue: offer it there, "+
				"or stop its workers and replace it", name, old.Spec.Queue)
		}
	}
	same := old.Spec.Effect == next.Spec.Effect && sameSchema(old.Spec.Schema, next.Spec.Schema)
	if !same && !newer {
		return false, fmt.Errorf("tool %q is registered with another schema or effect (registered: effect %s): "+
			"offer it under a new version, or with replace", name, old.Spec.Effect)
	}
	if same && old.Spec.Queue == next.Spec.Queue {
		next.Registered = old.Registered // of what calls depend on
	}
	a, b := old.Spec, next.Spec
	a.Schema, b.Schema = nil, nil
	equal, err := equalJSON(a, b)
	return !equal || !same || old.Withdrawn, err
}

// sameSchema compares as JSON: a worker may print its schema differently.
func sameSchema(a, b json.RawMessage) bool {
	return recovery.Digest("", orNull(a)) == recovery.Digest("", orNull(b))
}

func orNull(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	return b
}

func equalJSON(a, b messages.ToolSpec) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	y, err := json.Marshal(b)
	return string(x) == string(y), err
}

// withdraw takes a worker's offer back, then marks the tools that nobody else
// offers: in this order, so that of two that go together one sees it.
func (c *Coordinator) withdraw(ctx context.Context, req messages.OfferRequest) error {
	o, err := c.loadOffer(ctx, req.Worker)
	if err != nil || o == nil {
		return err
	}
	if err := c.broker.Delete(ctx, messages.BucketTools, messages.OfferKey(req.Worker)); err != nil {
		return fmt.Errorf("the offer cannot be withdrawn: %w", err)
	}
	return c.drop(ctx, req.Worker, o.Tools)
}

// drop marks those of the tools as withdrawn that a worker does not offer any
// more, and nobody else does.
func (c *Coordinator) drop(ctx context.Context, worker string, tools []string) error {
	if len(tools) == 0 {
		return nil
	}
	others, err := c.offered(ctx, worker)
	if err != nil {
		return err
	}
	for _, name := range tools {
		if others[name] {
			continue
		}
		if err := c.markWithdrawn(ctx, name); err != nil {
			return err
		}
		c.log.Info("tool withdrawn", "tool", name, "worker", worker)
	}
	return nil
}

// offered are the tools that workers other than this one offer.
func (c *Coordinator) offered(ctx context.Context, worker string) (map[string]bool, error) {
	entries, err := c.broker.Entries(ctx, messages.BucketTools, "offer.>")
	if err != nil {
		return nil, fmt.Errorf("the registry cannot be read: %w", err)
	}
	names := make(map[string]bool)
	for _, e := range entries {
		var o messages.Offer
		if json.Unmarshal(e.Value, &o) != nil || o.Worker == worker {
			continue
		}
		for _, name := range o.Tools {
			names[name] = true
		}
	}
	return names, nil
}

func (c *Coordinator) markWithdrawn(ctx context.Context, name string) error {
	for {
		t, rev, err := c.loadTool(ctx, name)
		if err != nil || t == nil || t.Withdrawn {
			return err
		}
		t.Withdrawn = true
		b, err := json.Marshal(t)
		if err != nil {
			return fmt.Errorf("tool %q: %w", name, err)
		}
		_, err = c.broker.Save(ctx, messages.BucketTools, messages.ToolKey(name), b, rev, 0)
		if errors.Is(err, messages.ErrConflict) {
			continue
		}
		return wrap("the tool cannot be withdrawn", err)
	}
}
