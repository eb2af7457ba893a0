package jetstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/pkg/messages"
)

// A call that fails is read about several times, and an answer to a read is JSON
// with the message in base64. The usual answers are read by hand here, anything
// else by encoding/json, which takes ten times as long.

type getResponse struct {
	Message struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
	Error *natsjs.APIError `json:"error"`
}

// leaderGet is a raw request to STREAM.MSG.GET, which only the stream's leader
// answers. The client's own calls use a direct get where the stream allows it,
// and any replica answers that, perhaps with the past.
func (p *Pool) leaderGet(ctx context.Context, stream string, r getRequest) (messages.Stored, error) {
	subject := r.LastFor + r.NextFor
	body, err := r.encode()
	if err != nil {
		return messages.Stored{}, err
	}
	m, err := p.ask(ctx, apiPrefix+"STREAM.MSG.GET."+stream, nil, body)
	if err != nil {
		return messages.Stored{}, translate("get", subject, err)
	}
	resp, err := readGet(m.Data)
	if err != nil {
		return messages.Stored{}, translate("get", subject, err)
	}
	s, err := resp.stored()
	if err != nil {
		return messages.Stored{}, fmt.Errorf("get %s: %w", clip(subject), err)
	}
	return s, nil
}

func readGet(b []byte) (getResponse, error) {
	if bytes.Equal(b, nothingThere) {
		return getResponse{}, errNothingThere
	}
	r, ok := plainGet(b)
	if ok {
		return r, nil
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("answer of the broker: %w", err)
	}
	if r.Error != nil {
		return r, r.Error
	}
	return r, nil
}

const getType = `{"type":"io.nats.jetstream.api.v1.stream_msg_get_response",`

var (
	nothingThere    = []byte(getType + `"error":{"code":404,"err_code":10037,"description":"no message found"}}`)
	errNothingThere = &natsjs.APIError{Code: 404, ErrorCode: codeNoMessage, Description: "no message found"}
)

// plainGet reads a message that is written as the server writes it: these
// fields, in this order, without an escape.
func plainGet(b []byte) (r getResponse, ok bool) {
	rest, ok := bytes.CutPrefix(b, []byte(getType+`"message":{"subject":"`))
	if !ok {
		return r, false
	}
	var subject, seq, part []byte
	if subject, rest, ok = bytes.Cut(rest, []byte(`","seq":`)); !ok || !isPlain(subject) {
		return r, false
	}
	m := &r.Message
	m.Subject = string(subject)
	if seq, rest, ok = bytes.Cut(rest, []byte(`,"`)); !ok {
		return r, false
	}
	var err error
	if m.Seq, err = strconv.ParseUint(string(seq), 10, 64); err != nil || seq[0] == '0' || seq[0] == '+' {
		return r, false
	}
	for _, f := range []struct {
		name string
		dst  *[]byte
	}{{`hdrs":"`, &m.Header}, {`data":"`, &m.Data}} {
		after, there := bytes.CutPrefix(rest, []byte(f.name))
		if !there {
			continue
		}
		if part, rest, ok = bytes.Cut(after, []byte(`","`)); !ok {
			return r, false
		}
		*f.dst = make([]byte, base64.StdEncoding.DecodedLen(len(part)))
		n, err := base64.StdEncoding.Decode(*f.dst, part)
		if err != nil || bytes.ContainsAny(part, "\r\n") {
			return r, false
		}
		*f.dst = (*f.dst)[:n]
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`time":`)); !ok {
		return r, false
	}
	if rest, ok = bytes.CutSuffix(rest, []byte(`}}`)); !ok {
		return r, false
	}
	return r, m.Time.UnmarshalJSON(rest) == nil
}

// isPlain says that b stands in a JSON string as it is.
func isPlain(b []byte) bool {
	for _, c := range b {
		if c == '"' || c == '\\' || c < 0x20 || c >= 0x7f {
			return false
		}
	}
	return true
}

func (r getResponse) stored() (messages.Stored, error) {
	m := r.Message
	if m.Seq == 0 {
		return messages.Stored{}, errors.New("the broker's answer holds no message")
	}
	h, err := nats.DecodeHeadersMsg(headerBlock(m.Header))
	if err != nil {
		return messages.Stored{}, fmt.Errorf("headers: %w", err)
	}
	return messages.Stored{
		Message:  messages.Message{Subject: m.Subject, Header: messages.Header(h), Body: m.Data},
		Sequence: m.Seq,
		Time:     m.Time,
	}, nil
}

// headerBlock gives a message without headers an empty block, which the
// client's decoder insists on.
func headerBlock(b []byte) []byte {
	if len(b) == 0 {
		return []byte("NATS/1.0\r\n\r\n")
	}
	return b
}
