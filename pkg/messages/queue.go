package messages

import (
	"errors"
	"fmt"
	"time"
)

// QueueSettings are what operators say of a queue while the pool runs: key
// [QueueKey] in CONTROL. The zero value says nothing.
type QueueSettings struct {
	Version string `json:"version"`
	Queue   string `json:"queue"`
	// Paused: calls are accepted, and none is handed to a worker.
	Paused bool `json:"paused,omitempty"`
	// InFlight is how many calls of the queue may be in the hands of workers of the
	// whole pool; 0 is what the topology says.
	InFlight int `json:"in_flight,omitempty"`
	// MaxQueued is how many calls may wait before submissions are refused; 0 is
	// what the coordinators say.
	MaxQueued int       `json:"max_queued,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

// QueuePrefix begins the keys of queues in CONTROL.
const QueuePrefix = "queue."

// QueueKey is the key in CONTROL of the settings of a queue.
func QueueKey(queue string) string { return QueuePrefix + Token(queue) }

// MinInFlight is the smallest limit of calls in flight that can be set while
// the pool runs: one for each lane.
const MinInFlight = 4

// MaxInFlight is the largest.
const MaxInFlight = 200_000

// QueueRequest changes the settings of a queue; body of EndpointQueue. What is
// absent stays as it is.
type QueueRequest struct {
	Version   string `json:"version"`
	Queue     string `json:"queue"`
	Pause     *bool  `json:"pause,omitempty"`
	InFlight  *int   `json:"in_flight,omitempty"`
	MaxQueued *int   `json:"max_queued,omitempty"`
	Reason    string `json:"reason,omitempty"`
	By        string `json:"by"`
}

// QueueReply answers a QueueRequest with what holds now.
type QueueReply struct {
	Version  string         `json:"version"`
	Error    string         `json:"error,omitempty"`
	Code     Code           `json:"code,omitempty"` // with Error: CodeBadCall, CodeNotFound or CodeNotStored
	Settings *QueueSettings `json:"settings,omitempty"`
}

// EncodeQueueSettings writes settings for CONTROL.
func EncodeQueueSettings(s QueueSettings) ([]byte, error) {
	s.Version = Version
	return encodeJSON("settings of a queue", &s)
}

// DecodeQueueSettings reads them.
func DecodeQueueSettings(b []byte) (QueueSettings, error) {
	var s QueueSettings
	return s, decodeJSON("settings of a queue", b, &s)
}

func (s *QueueSettings) check() error { return CheckName("queue", s.Queue, MaxQueueName) }

func (q *QueueRequest) check() error {
	switch {
	case q.Pause == nil && q.InFlight == nil && q.MaxQueued == nil:
		return errors.New("nothing is to change; give pause, in_flight or max_queued")
	case q.InFlight != nil && *q.InFlight != 0 && (*q.InFlight < MinInFlight || *q.InFlight > MaxInFlight):
		return fmt.Errorf("in_flight is %d; give %d, one for each lane, to %d, or 0 for none", *q.InFlight, MinInFlight, MaxInFlight)
	case q.MaxQueued != nil && *q.MaxQueued < 0:
		return fmt.Errorf("max_queued is %d; give 1 or more, or 0 for what the coordinators say", *q.MaxQueued)
	case len(q.Reason) > MaxText:
		return fmt.Errorf("reason is %d bytes long, the limit is %d; shorten it", len(q.Reason), MaxText)
	}
	return errors.Join(CheckName("queue", q.Queue, MaxQueueName), CheckName("by", q.By, MaxName))
}

func (r *QueueReply) check() error {
	if r.Settings == nil {
		return nil
	}
	return r.Settings.check()
}
