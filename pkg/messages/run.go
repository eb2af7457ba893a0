package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Limits of a run's declaration.
const (
	// MaxWebhook bounds the address of a webhook, in bytes.
	MaxWebhook = 2 << 10
	// MaxRunCalls bounds what a run may say of its number of calls.
	MaxRunCalls = 1 << 40
)

// RunSpec is what a submitter declares about a run before its calls. The zero
// value of a field says nothing and limits nothing.
type RunSpec struct {
	Labels Labels `json:"labels,omitempty"`
	// Policy holds for every call of the run, under what the call brings itself
	// (docs/policies.md).
	Policy json.RawMessage `json:"policy,omitempty"`
	Budget RunBudget       `json:"budget,omitzero"`
	// InFlight is how many calls of the run may be queued or running at a time.
	InFlight int `json:"in_flight,omitempty"`
	// Deadline is when what has not ended of the run expires.
	Deadline time.Time `json:"deadline,omitzero"`
	// Expected is how many calls are to come, for progress alone.
	Expected int64 `json:"expected,omitempty"`
	// Webhook is told once the run is over, where the coordinators allow it.
	Webhook string `json:"webhook,omitempty"`
	// Origin is the run whose calls this one replays.
	Origin Run `json:"origin,omitempty"`
	// Keep is after what time from its end everything of the run is deleted;
	// 0 leaves that to the ages of the pool.
	Keep Millis `json:"keep_ms,omitempty"`
}

// RunBudget is what a run may use up; 0 of a field is no limit.
type RunBudget struct {
	// Calls that may be accepted; those above are refused.
	Calls int64 `json:"calls,omitempty"`
	// Retries are dispatches after the first, of all calls together; then
	// failures end as they are.
	Retries int64 `json:"retries,omitempty"`
	// Tokens and Cost are those of the model that is asked about failures (S9.6).
	Tokens int64 `json:"tokens,omitempty"`
	Cost   int64 `json:"cost_micros,omitempty"`
}

// RunEntry is the state of a run: key [RunKey] in RUNS. There is one of every
// run that was declared, and of every other that ended hard or was cancelled.
type RunEntry struct {
	Run     Run       `json:"run"`
	Created time.Time `json:"created"`
	Ended   *Cancel   `json:"ended,omitempty"` // set when the run ended hard or was cancelled

	By     string     `json:"by,omitempty"`     // who declared it
	Spec   *RunSpec   `json:"spec,omitempty"`   // nil: it was not declared
	From   uint64     `json:"from,omitempty"`   // no result of it stands in RESULTS before this sequence
	Closed *RunClosed `json:"closed,omitempty"` // no call comes any more
	Over   *RunOver   `json:"over,omitempty"`   // every call has ended
	Delete *RunDelete `json:"delete,omitempty"` // everything of it is being deleted
	Import *RunImport `json:"import,omitempty"` // it is being brought in from a file
}

// RunDelete is the wish to delete everything that belongs to a run. It stays
// until that is done, so that a coordinator which dies leaves it to another.
type RunDelete struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
	// Removed says what went, once all is gone but this entry, which then goes
	// within moments and stands in nobody's way.
	Removed *RunRemoved `json:"removed,omitempty"`
}

// RunRemoved counts what was deleted with a run. After a crash in the middle it
// counts what was left then.
type RunRemoved struct {
	Results  int64 `json:"results"`  // of its calls
	Story    int64 `json:"story"`    // messages of RECOVERY
	Records  int64 `json:"records"`  // entries of ATTEMPTS
	Entries  int64 `json:"entries"`  // of RUNS and CONTROL, beside that of the run
	Payloads int64 `json:"payloads"` // large inputs and outputs, to which nobody else referred
}

// RunImport says that a run is being brought in, and from which file, so that a
// second try goes on and another file is refused. It goes when all is there.
type RunImport struct {
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"`
	File string    `json:"file"` // SHA-256 of the file, in hexadecimal digits
}

// Admits says whether calls may still come into the run, as far as its entry says.
func (e RunEntry) Admits() bool {
	return e.Closed == nil && e.Over == nil && e.Ended == nil && e.Delete == nil && e.Import == nil
}

// Gone says that the run was deleted, and its entry is about to go too.
func (e RunEntry) Gone() bool { return e.Delete != nil && e.Delete.Removed != nil }

// RunClosed says that no call comes any more.
type RunClosed struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
	// Calls is how many were accepted, as whoever closed the run counted them.
	// Nil where that is not known: then the pool looks whether any is left.
	Calls *int64 `json:"calls,omitempty"`
}

// RunOver is what came of a run, counted when its last call had ended.
type RunOver struct {
	At time.Time `json:"at"`
	RunCounts
	// Notified is when the webhook took it; NotifyError what came of the last
	// attempt that it did not.
	Notified    time.Time `json:"notified,omitzero"`
	NotifyError string    `json:"notify_error,omitempty"`
}

// RunCounts are the results of a run, counted.
type RunCounts struct {
	Calls     int64                       `json:"calls"`
	Outcomes  map[Status]int64            `json:"outcomes,omitempty"`
	Recovered int64                       `json:"recovered,omitempty"` // of those that succeeded: not as they were, or not at once
	Tools     map[string]map[Status]int64 `json:"tools,omitempty"`
	// MoreTools is set when there are more tools than are told apart; those
	// that are not stand under the empty name.
	MoreTools bool      `json:"more_tools,omitempty"`
	First     time.Time `json:"first,omitzero"` // when the first and the last of them ended
	Last      time.Time `json:"last,omitzero"`
}

// RunAction is what is asked about a run.
type RunAction string

// The actions.
const (
	RunDeclare RunAction = "declare" // that it is, with a RunSpec
	RunClose   RunAction = "close"   // that no call comes any more
	RunErase   RunAction = "delete"  // that everything of it is to be deleted; body of EndpointDelete
)

// UnmarshalText refuses an unknown value.
func (a *RunAction) UnmarshalText(text []byte) error {
	return parseEnum("run action", a, text, []RunAction{RunDeclare, RunClose, RunErase})
}

// RunRequest declares or closes a run, body of EndpointRun, or deletes it, body
// of EndpointDelete. It may be repeated:
// what holds already is no error. Another spec than the declared one is.
type RunRequest struct {
	Version string    `json:"version"`
	Run     Run       `json:"run"`
	Action  RunAction `json:"action"`
	Spec    *RunSpec  `json:"spec,omitempty"`  // RunDeclare only
	Calls   *int64    `json:"calls,omitempty"` // RunClose only: how many were accepted, where that is known
	By      string    `json:"by"`
}

// RunReply answers a RunRequest with what holds now. Revision is that of RUNS
// which a later [Chunk] is to name, so that whoever takes it in knows the run.
type RunReply struct {
	Version  string    `json:"version"`
	Error    string    `json:"error,omitempty"`
	Code     Code      `json:"code,omitempty"`  // with Error: CodeBadRun, CodeRunDiffers, CodeRunIsOver, CodeRunNotOver, CodeNotFound or CodeNotStored
	Field    string    `json:"field,omitempty"` // of the spec, where one is to blame
	Revision uint64    `json:"revision,omitempty"`
	Entry    *RunEntry `json:"entry,omitempty"`
}

// Field of a spec that cannot be used.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

func (e *FieldError) Unwrap() error { return e.Err }

// Check names the field that cannot be used, as a [*FieldError]. It knows
// neither the clock nor what a policy means.
func (s *RunSpec) Check() error {
	bad := func(field, format string, args ...any) error {
		return &FieldError{field, fmt.Errorf(format, args...)}
	}
	if n := len(s.Labels.header()); len(s.Labels) > 0 && n > MaxLabels {
		return bad("labels", "take %d bytes, the limit is %d", n, MaxLabels)
	}
	for k, v := range s.Labels {
		if err := checkUTF8("label", []byte(k+v)); err != nil {
			return &FieldError{"labels", err}
		}
	}
	if err := checkPolicy(s.Policy); err != nil {
		return &FieldError{"policy", err}
	}
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"budget.calls", s.Budget.Calls}, {"budget.retries", s.Budget.Retries}, {"budget.tokens", s.Budget.Tokens},
		{"budget.cost_micros", s.Budget.Cost}, {"in_flight", int64(s.InFlight)}, {"expected", s.Expected},
	} {
		if f.n < 0 || f.n > MaxRunCalls {
			return bad(f.name, "%d is not from 0, for none, to %d", f.n, int64(MaxRunCalls))
		}
	}
	if s.Keep < 0 || s.Keep.count() > maxMillis {
		return bad("keep_ms", "%d is not from 0, for as long as the pool keeps it, to %d", s.Keep.Duration().Milliseconds(), maxMillis)
	}
	if !writable(s.Deadline) {
		return bad("deadline", "%s is beyond the year 9999 in UTC; leave it out for none", s.Deadline.Format(time.RFC3339))
	}
	if err := checkWebhook(s.Webhook); err != nil {
		return &FieldError{"webhook", err}
	}
	if s.Origin != "" {
		if err := s.Origin.Check(); err != nil {
			return &FieldError{"origin", err}
		}
	}
	return nil
}

func checkWebhook(address string) error {
	if address == "" {
		return nil
	}
	if len(address) > MaxWebhook {
		return fmt.Errorf("is %d bytes long, the limit is %d", len(address), MaxWebhook)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return errors.New("is no address that begins with http:// or https:// and names a host")
	case strings.ContainsAny(address, "{}$"):
		return errors.New("holds one of { } $; write them as %7B, %7D and %24")
	case u.User != nil:
		return errors.New("holds a user; secrets stand in no address; the coordinators may sign what they send (--webhook-secret-file)")
	}
	return nil
}

// Differs names the first field in which a later declaration differs from this
// one, and both values as JSON; empty for none.
func (s *RunSpec) Differs(later *RunSpec) (field, was, is string) {
	a, b := s.fields(), later.fields()
	for i := range a {
		if !bytes.Equal(a[i].value, b[i].value) {
			return a[i].name, string(a[i].value), string(b[i].value)
		}
	}
	return "", "", ""
}

type specField struct {
	name  string
	value []byte
}

// fields are the fields of a spec, each as JSON in one form.
func (s *RunSpec) fields() []specField {
	fields := []specField{{name: "policy", value: canonical(s.Policy)}}
	for _, f := range []struct {
		name string
		v    any
	}{
		{"labels", s.Labels}, {"budget.calls", s.Budget.Calls}, {"budget.retries", s.Budget.Retries}, {"budget.tokens", s.Budget.Tokens},
		{"budget.cost_micros", s.Budget.Cost}, {"in_flight", s.InFlight}, {"deadline", utc(s.Deadline)}, {"expected", s.Expected},
		{"webhook", s.Webhook}, {"origin", s.Origin}, {"keep_ms", s.Keep},
	} {
		b, err := marshal(f.v)
		if err != nil { // of plain values there is none
			b = []byte(err.Error())
		}
		fields = append(fields, specField{f.name, b})
	}
	return fields
}

func utc(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// canonical gives JSON with its keys sorted and no white space, nothing for nothing.
func canonical(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return raw
	}
	b, err := marshal(v)
	if err != nil {
		return raw
	}
	return b
}

func (r *RunRequest) check() error {
	if err := r.Action.UnmarshalText([]byte(r.Action)); err != nil {
		return err
	}
	switch {
	case (r.Action == RunDeclare) != (r.Spec != nil):
		return errors.New("spec belongs to action declare, and declare needs one")
	case r.Calls != nil && r.Action != RunClose:
		return errors.New("calls belongs to action close")
	case r.Calls != nil && (*r.Calls < 0 || *r.Calls > MaxRunCalls):
		return fmt.Errorf("calls %d is not from 0 to %d", *r.Calls, int64(MaxRunCalls))
	}
	return errors.Join(CheckName("by", r.By, MaxName), r.Run.Check())
}

// EncodeRun writes an entry of RUNS.
func EncodeRun(e RunEntry) ([]byte, error) {
	if err := e.Run.Check(); err != nil {
		return nil, err
	}
	return marshal(e)
}

// DecodeRun reads an entry of RUNS.
func DecodeRun(b []byte) (RunEntry, error) {
	var e RunEntry
	if err := json.Unmarshal(b, &e); err != nil {
		return RunEntry{}, fmt.Errorf("run: %w", brief(err))
	}
	return e, nil
}
