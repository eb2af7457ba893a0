package messages

import "time"

// Limits of the protocol. They hold on every path; what exceeds one is refused
// with a text or goes into PAYLOADS, never cut silently.
const (
	// MaxRetries is the hard ceiling of retries of a call, whatever a strategy says (S4.1).
	MaxRetries = 5
	// MaxAttempts is the number of attempts that the ceiling leaves: 0 to 5.
	MaxAttempts = MaxRetries + 1
	// MaxDispatches bounds the dispatch ordinal, with those that spend no attempt (protocol, "n").
	MaxDispatches = 25
	// MaxFreeWaits bounds the dispatches of one attempt that a tool's own retry hint may cause (S6.2).
	MaxFreeWaits = 20
	// MaxMarks is how many start marks a dispatch of a tool that is not unsafe may have before it counts as lost (S4.6).
	MaxMarks = 3

	// MaxInline is the encoded size in bytes up to which a part (input, output) travels in its message.
	MaxInline = 128 << 10
	// MaxPayload is the size in bytes of the largest input or output that is accepted at all.
	MaxPayload = 16 << 20
	// PayloadChunk is the size in bytes of the chunks of a payload.
	PayloadChunk = 512 << 10
	// MaxHeaders is the size in bytes of all headers of a call at its submission, see [CheckHeaders]. What later
	// dispatches and the result add is bounded too, so that no message comes near the broker's own 64 KiB.
	MaxHeaders = 16 << 10
	// MaxTaskHeader is the encoded size in bytes of a task text that travels in a header, see [TaskInHeader].
	MaxTaskHeader = 4 << 10
	// MaxText is the encoded size in bytes of reason and guidance in a result; the whole text is in the story.
	MaxText = 3 << 10
	// MaxLabels bounds the encoded labels of a call, in bytes.
	MaxLabels = 2 << 10
	// MaxErrorText is the encoded size in bytes of the error text in a failure; the output is whole beside it.
	MaxErrorText = 64 << 10
	// MaxStderr is the encoded size in bytes of the tail of stderr in a failure.
	MaxStderr = 16 << 10

	// MaxPolicy bounds the policy that a submission brings, in bytes.
	MaxPolicy = 1 << 10
	// MaxPolicyDocument bounds the policies of a pool, in bytes.
	MaxPolicyDocument = 256 << 10

	// MaxChunkCalls is the number of calls in one request of EndpointSubmit, which keeps a coordinator's work on it short.
	MaxChunkCalls = 256
	// MaxChunkBytes is the size in bytes of one request of EndpointSubmit, well below what a broker lets through by default.
	MaxChunkBytes = 512 << 10

	// RepeatAfter is the age of a call id from which a submission counts as a possible repetition (protocol section 4).
	RepeatAfter = time.Minute
	// MaxShortWait is the delay below which a retry waits beside its trigger instead of in SCHEDULE.
	MaxShortWait = time.Second
)
