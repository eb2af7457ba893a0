package messages

import "fmt"

// CallsSeen is what a coordinator tells the others about calls that it took in,
// for the loop detector (S10.2): core NATS on [Pool.PeerSubject], stored
// nowhere. What is lost makes a loop be found later, never where there is none.
type CallsSeen struct {
	Version string     `json:"version"`
	By      string     `json:"by"`
	Calls   []CallSeen `json:"calls"`
}

// CallSeen is one call of a named run.
type CallSeen struct {
	Run  Run    `json:"run"`
	Call string `json:"call"`
	// Same is what equal calls have in common: the first 16 hexadecimal digits of
	// the digest of tool and canonical input.
	Same string `json:"same,omitempty"`
}

// EncodeCallsSeen writes what coordinators tell each other.
func EncodeCallsSeen(c CallsSeen) ([]byte, error) {
	c.Version = Version
	return encodeJSON("calls seen", &c)
}

// DecodeCallsSeen reads it.
func DecodeCallsSeen(b []byte) (CallsSeen, error) {
	var c CallsSeen
	return c, decodeJSON("calls seen", b, &c)
}

func (c *CallsSeen) check() error {
	for i, s := range c.Calls {
		if err := s.Run.Check(); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		if err := CheckCallID(s.Call); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
	}
	return nil
}
