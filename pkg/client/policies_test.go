package client

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"mulligan/pkg/messages"
)

// governing answers EndpointPolicy, in place of a coordinator.
type governing struct {
	*fakeBroker
	policy func(messages.PolicyRequest) (messages.PolicyReply, error)
}

func (g *governing) Request(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	if endpoint != messages.EndpointPolicy {
		return g.fakeBroker.Request(ctx, endpoint, body)
	}
	r, err := messages.DecodeService[messages.PolicyRequest](body)
	if err != nil {
		return nil, err
	}
	reply, err := g.policy(r)
	if err != nil {
		return nil, err
	}
	return messages.EncodeService(reply)
}

func TestPoliciesAreSetBySomebodyAndInsistedOn(t *testing.T) {
	tries := 0
	var got messages.PolicyRequest
	c, err := New(&governing{newFake(), func(r messages.PolicyRequest) (messages.PolicyReply, error) {
		if tries++; tries < 3 {
			return messages.PolicyReply{}, messages.ErrNoResponder
		}
		got = r
		return messages.PolicyReply{Revision: 9}, nil
	}}, Config{By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	revision, err := c.SetPolicies(t.Context(), messages.PolicyRequest{Document: json.RawMessage(`{"pool":{}}`), Expect: 7})
	if err != nil || revision != 9 || got.By != "ann" || got.Expect != 7 || string(got.Document) != `{"pool":{}}` || tries != 3 {
		t.Errorf("revision %d after %d tries, %+v, %v", revision, tries, got, err)
	}
}

func TestPoliciesThatAreRefusedAreNotInsistedOn(t *testing.T) {
	tries := 0
	c, err := New(&governing{newFake(), func(messages.PolicyRequest) (messages.PolicyReply, error) {
		tries++
		return messages.PolicyReply{Error: "the policies have changed"}, nil
	}}, Config{By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.SetPolicies(t.Context(), messages.PolicyRequest{Document: json.RawMessage(`null`), By: "bob"})
	if err == nil || !strings.Contains(err.Error(), "the policies have changed") || errors.Is(err, messages.ErrNoResponder) || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
}
