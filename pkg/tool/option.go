package tool

import (
	"encoding/json"
	"time"

	"mulligan/pkg/messages"
)

// Option declares something about a tool. What cannot be used is reported by
// [Tool.Err] and refused by the worker.
type Option func(*messages.ToolSpec)

// Effect declares what repeating the tool does (S7.1). Without it the tool is
// unsafe: the one mistake that costs only retries.
func Effect(e messages.Effect) Option { return func(s *messages.ToolSpec) { s.Effect = e } }

// Timeout bounds one execution, unless the call brings its own. Zero means
// the worker's default, 60 s unless configured. A time-out is an ambiguous
// failure (S7.3), so choose it well above what the tool usually takes.
func Timeout(d time.Duration) Option {
	return func(s *messages.ToolSpec) { s.Timeout = messages.Millis(d) }
}

// Queue names the queue that the tool's calls wait in; default "default".
// Tools that are deployed together share one: a worker must serve every tool
// of its queues.
func Queue(name string) Option { return func(s *messages.ToolSpec) { s.Queue = name } }

// Description says to a model what the tool does.
func Description(text string) Option { return func(s *messages.ToolSpec) { s.Description = text } }

// Version tells two deployments of the tool apart.
func Version(v string) Option { return func(s *messages.ToolSpec) { s.Version = v } }

// Schema replaces the JSON Schema of the input that [New] infers.
func Schema(schema json.RawMessage) Option {
	return func(s *messages.ToolSpec) { s.Schema = schema }
}
