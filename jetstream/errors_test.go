package jetstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/pkg/messages"
)

func TestTranslate(t *testing.T) {
	api := func(code int, text string) error {
		return &natsjs.APIError{Code: 503, ErrorCode: natsjs.ErrorCode(code), Description: text}
	}
	foreign := errors.New("foreign")
	for _, c := range []struct {
		from, to error
	}{
		{api(10077, "maximum messages per subject exceeded"), messages.ErrExists},
		{api(10077, "maximum bytes exceeded"), messages.ErrFull},
		{api(10077, "maximum messages exceeded"), messages.ErrFull},
		{api(10023, "insufficient resources"), messages.ErrFull},
		{api(10047, "insufficient storage resources available"), messages.ErrFull},
		{api(10071, "wrong last sequence: 5"), messages.ErrConflict},
		{api(10164, "wrong last sequence"), messages.ErrConflict},
		{api(10037, "no message found"), messages.ErrNotFound},
		{api(10059, "stream not found"), messages.ErrNotFound},
		{api(10054, "message size exceeds maximum allowed"), messages.ErrTooLarge},
		{api(10097, "header size exceeds maximum allowed of 64k"), messages.ErrTooLarge},
		{nats.ErrMaxPayload, messages.ErrTooLarge},
		{fmt.Errorf("wrapped: %w", nats.ErrReconnectBufExceeded), ErrUnreachable},
		{api(10999, "something new"), nil},
		{foreign, nil},
	} {
		got := translate("put", "a.subject", c.from)
		for _, known := range []error{messages.ErrExists, messages.ErrFull, messages.ErrConflict, messages.ErrNotFound, messages.ErrTooLarge, messages.ErrNoResponder, ErrUnreachable} {
			if errors.Is(got, known) != (known == c.to) {
				t.Errorf("%v became %v", c.from, got)
			}
		}
		if !strings.Contains(got.Error(), "a.subject") || c.to == nil && !errors.Is(got, c.from) {
			t.Errorf("%v became %v", c.from, got)
		}
	}
	if translate("put", "x", nil) != nil {
		t.Error("nil became an error")
	}
}

func TestFormatTTL(t *testing.T) {
	for d, want := range map[int64]string{1: "1", 1e9: "1", 1e9 + 1: "2", 3600e9: "3600", int64(messages.Forever): "never"} {
		if got := formatTTL(time.Duration(d)); got != want {
			t.Errorf("%d ns: got %s, want %s", d, got, want)
		}
	}
}

func TestCheckServer(t *testing.T) {
	for version, ok := range map[string]bool{"2.15.2": true, "2.12.0": true, "2.12.0-beta": true, "3.0": true, "2.11.9": false, "1.4.1": false, "": true, "dev": true} {
		if err := checkServer(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}
