package jetstream

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/internal/excerpt"
	"mulligan/pkg/messages"
)

// Error codes of the JetStream API that mean something to us.
const (
	codeStoreFailed        natsjs.ErrorCode = 10077 // with two kinds of text, see kindOf10077
	codeNoMessage          natsjs.ErrorCode = 10037
	codeNoConsumer         natsjs.ErrorCode = 10014
	codeNoStream           natsjs.ErrorCode = 10059
	codeNameInUse          natsjs.ErrorCode = 10058
	codeWrongSequence      natsjs.ErrorCode = 10071
	codeWrongSequenceConst natsjs.ErrorCode = 10164
	codeResources          natsjs.ErrorCode = 10023
	codeNoMemory           natsjs.ErrorCode = 10028
	codeNoStorage          natsjs.ErrorCode = 10047
	codeAccountResources   natsjs.ErrorCode = 10002
	codeTooManyConsumers   natsjs.ErrorCode = 10026
	codeMessageTooLarge    natsjs.ErrorCode = 10054
	codeHeadersTooLarge    natsjs.ErrorCode = 10097
)

// textPerSubject tells the refusal "there is one already" from a full stream:
// both carry the code 10077 (P7.4).
const textPerSubject = "maximum messages per subject exceeded"

// ErrUnreachable says that there is no connection to the broker, or that it
// refused to let us in. What was asked did not happen.
var ErrUnreachable = errors.New("no connection to the broker")

// ErrRefused stands beside ErrUnreachable where a broker answers, and takes
// neither the token, the key nor the credentials that it was shown.
var ErrRefused = errors.New("it does not take who we say we are")

// ErrNoAnswer and errDisconnected leave open what happened.
var (
	ErrNoAnswer     = errors.New("no answer from the broker in time; it may have happened")
	errDisconnected = errors.New("disconnected from the broker before its answer; it may have happened")
)

// translate turns an error of the client or the server into one of messages,
// once, at the edge. An error that stays foreign means: not known.
func translate(what, subject string, err error) error {
	if err == nil {
		return nil
	}
	var api *natsjs.APIError
	known := error(nil)
	switch {
	case errors.As(err, &api):
		known = translateAPI(api)
	case errors.Is(err, nats.ErrMaxPayload):
		known = messages.ErrTooLarge
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%s %s: no stream answers; is the topology provisioned and its leader up? %w", what, clip(subject), err)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return fmt.Errorf("%s %s: %w", what, clip(subject), ErrUnreachable) // the client's own text speaks of a buffer
	}
	if known != nil {
		return fmt.Errorf("%s %s: %w: %w", what, clip(subject), known, err)
	}
	return fmt.Errorf("%s %s: %w", what, clip(subject), err)
}

func translateAPI(e *natsjs.APIError) error {
	switch e.ErrorCode {
	case codeStoreFailed:
		if strings.Contains(e.Description, textPerSubject) {
			return messages.ErrExists
		}
		return messages.ErrFull
	case codeResources, codeNoMemory, codeNoStorage, codeAccountResources, codeTooManyConsumers:
		return messages.ErrFull
	case codeWrongSequence, codeWrongSequenceConst:
		return messages.ErrConflict
	case codeNoMessage, codeNoConsumer, codeNoStream:
		return messages.ErrNotFound
	case codeMessageTooLarge, codeHeadersTooLarge:
		return messages.ErrTooLarge
	}
	return nil
}

func isCode(err error, code natsjs.ErrorCode) bool {
	var api *natsjs.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}

// forbiddenSubject finds what a permission error is about, empty for another error.
func forbiddenSubject(err error) string {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return ""
	}
	_, rest, ok := strings.Cut(err.Error(), `Publish to "`)
	if !ok {
		return ""
	}
	subject, _, _ := strings.Cut(rest, `"`)
	return subject
}

func clip(subject string) string { return excerpt.Of(subject, 200) }
