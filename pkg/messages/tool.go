package messages

import (
	"encoding/json"
	"fmt"
	"time"
)

// ToolSpec is what a tool declares about itself.
type ToolSpec struct {
	Name        string          `json:"name"`
	Queue       string          `json:"queue"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // JSON Schema of the input; none means any object
	Effect      Effect          `json:"effect"`
	Timeout     Millis          `json:"timeout_ms,omitempty"` // of one execution; 0 means the worker's default
	Version     string          `json:"version,omitempty"`
}

// WithDefaults fills the queue "default" and the effect unsafe, and takes a
// schema of null for none.
func (t ToolSpec) WithDefaults() ToolSpec {
	if t.Queue == "" {
		t.Queue = "default"
	}
	if t.Effect == "" {
		t.Effect = Unsafe
	}
	if string(t.Schema) == "null" {
		t.Schema = nil
	}
	return t
}

// Validate names the field that cannot be used. It does not compile the schema.
func (t ToolSpec) Validate() error {
	if err := CheckName("tool name", t.Name, MaxName); err != nil {
		return err
	}
	if err := CheckName("queue", t.Queue, MaxQueueName); err != nil {
		return fmt.Errorf("tool %q: %w", t.Name, err)
	}
	if err := checkEnum("effect", t.Effect, Effects()); err != nil {
		return fmt.Errorf("tool %q: %w", t.Name, err)
	}
	if t.Timeout < 0 {
		return fmt.Errorf("tool %q: timeout_ms is %d; give 0 for the worker's default, or more", t.Name, t.Timeout.Duration().Milliseconds())
	}
	if len(t.Schema) > 0 && !json.Valid(t.Schema) {
		return fmt.Errorf("tool %q: schema is not JSON", t.Name)
	}
	if len(t.Schema) > MaxInline {
		return fmt.Errorf("tool %q: schema is %d bytes long, the limit is %d", t.Name, len(t.Schema), MaxInline)
	}
	return nil
}

// Tool is the entry of the registry: key [ToolKey] in TOOLS.
type Tool struct {
	Spec ToolSpec `json:"spec"`
	// Withdrawn: the last offer was taken back, not merely late; its calls fail
	// with tool_not_found (S6).
	Withdrawn  bool      `json:"withdrawn,omitempty"`
	Registered time.Time `json:"registered"`
}

// Offer is the lease under which a worker serves tools: key [OfferKey] in
// TOOLS, gone when it is not renewed.
type Offer struct {
	Worker string    `json:"worker"`
	Tools  []string  `json:"tools"`
	At     time.Time `json:"at"`
}

// OfferRequest registers tools, renews their lease, or withdraws it; body of EndpointOffer.
type OfferRequest struct {
	Version  string     `json:"version"`
	Worker   string     `json:"worker"`
	Tools    []ToolSpec `json:"tools"`
	Replace  bool       `json:"replace,omitempty"`  // a changed schema or effect may replace the registered one
	Withdraw bool       `json:"withdraw,omitempty"` // this worker stops serving them
}

// OfferReply answers an OfferRequest. An empty Error means that every tool is registered.
type OfferReply struct {
	Version string `json:"version"`
	Error   string `json:"error,omitempty"`
	Lease   Millis `json:"lease_ms,omitempty"` // renew well within it
}

// CancelRequest ends a call, or with an empty call its whole run; body of EndpointCancel.
type CancelRequest struct {
	Version string `json:"version"`
	Run     Run    `json:"run"`
	Call    string `json:"call,omitempty"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// CancelReply answers a CancelRequest: the wish is durable, or Error says why not.
type CancelReply struct {
	Version string `json:"version"`
	Error   string `json:"error,omitempty"`
	Ended   Status `json:"ended,omitempty"` // the call had ended before
}

// service are the requests and replies of the service in JSON.
type service interface {
	OfferRequest | OfferReply | ChunkReply | CancelRequest | CancelReply | AnswerRequest | AnswerReply |
		BreakerRequest | BreakerReply | PolicyRequest | PolicyReply | RunRequest | RunReply | QueueRequest | QueueReply
}

// EncodeService writes a request or reply of the service, except a [Chunk].
func EncodeService[T service](v T) ([]byte, error) {
	switch x := any(&v).(type) {
	case *AnswerRequest:
		x.Version = Version
	case *AnswerReply:
		x.Version = Version
	case *BreakerRequest:
		x.Version = Version
	case *BreakerReply:
		x.Version = Version
	case *PolicyRequest:
		x.Version = Version
		if len(x.Document) == 0 {
			x.Document = json.RawMessage("null")
		}
	case *QueueRequest:
		x.Version = Version
	case *QueueReply:
		x.Version = Version
	case *PolicyReply:
		x.Version = Version
	case *OfferRequest:
		x.Version = Version
	case *OfferReply:
		x.Version = Version
	case *ChunkReply:
		x.Version = Version
	case *CancelRequest:
		x.Version = Version
	case *CancelReply:
		x.Version = Version
	case *RunRequest:
		x.Version = Version
	case *RunReply:
		x.Version = Version
	}
	return encodeJSON(fmt.Sprintf("%T", v), &v)
}

// DecodeService reads what [EncodeService] writes. Tools of an offer get their
// defaults and are not validated.
func DecodeService[T service](b []byte) (T, error) {
	var v T
	return v, decodeJSON(fmt.Sprintf("%T", v), b, &v)
}

func (o *OfferRequest) check() error {
	for i := range o.Tools {
		o.Tools[i] = o.Tools[i].WithDefaults()
	}
	return CheckName("worker", o.Worker, MaxName)
}

func (c *CancelRequest) check() error {
	if c.Call != "" {
		if err := CheckCallID(c.Call); err != nil {
			return err
		}
	}
	return c.Run.Check()
}

// Keys of TOOLS, CONTROL and RUNS.

// ToolKey is the key of a tool's entry in TOOLS.
func ToolKey(name string) string { return "tool." + Token(name) }

// OfferKey is the key of a worker's offer in TOOLS.
func OfferKey(worker string) string { return "offer." + Token(worker) }

// ControlCallKey is the key in CONTROL that tells workers to stop a call; its value is a [Cancel].
func ControlCallKey(run Run, call string) string { return "call." + string(run) + "." + call }

// ControlRunKey is the key in CONTROL that tells workers to stop a run; its value is a [Cancel].
func ControlRunKey(run Run) string { return "run." + string(run) }

// RunKey is the key of a run in RUNS; its value is a [RunEntry].
func RunKey(run Run) string { return "run." + string(run) }

// BatchKey is the key in RUNS of an accepted chunk of a batch, and of small ones
// that came with it; its value is a [BatchEntry].
func BatchKey(batch string, chunk int) string { return fmt.Sprintf("batch.%s.%d", batch, chunk) }

// BatchEntry lists the accepted calls of a chunk, or of several small ones.
type BatchEntry struct {
	Calls []BatchCall `json:"calls"`
	At    time.Time   `json:"at"`
}

// BatchCall is one accepted call of a batch.
type BatchCall struct {
	Call string `json:"call"`
	Run  Run    `json:"run"`
	Ref  string `json:"ref,omitempty"`
}
