// Package declared holds what tools by declaration have in common, whatever
// they are: what an answer of theirs means, and how times and sizes are written.
package declared

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"mulligan/pkg/tool"
)

// Outcome is what an answer of a declared tool means: an exit code, or the
// status of an HTTP response.
type Outcome string

// The outcomes.
const (
	Success     Outcome = "success"      // it worked
	Definite    Outcome = "definite"     // it failed, and did what it says
	Ambiguous   Outcome = "ambiguous"    // it failed, and its effect may have happened (S7.3)
	Invalid     Outcome = "invalid"      // the arguments cannot be used; nothing was done
	RetryAfter  Outcome = "retry_after"  // it failed, and may be tried again after a time (S6.2)
	RateLimited Outcome = "rate_limited" // it refused for now and did nothing
	Unavailable Outcome = "unavailable"  // it cannot be used for now and did nothing
)

// Failures are the outcomes that are none of success; after belongs to the
// last three.
func Failures() []Outcome {
	return []Outcome{Definite, Ambiguous, Invalid, RetryAfter, RateLimited, Unavailable}
}

// Rule is the meaning of one answer. In YAML it is an outcome, or a mapping
// where it has more to say.
type Rule struct {
	Outcome Outcome
	// After is the least delay before the next try; for the last three outcomes.
	After time.Duration
	// NothingDone, for retry_after: waiting spends no attempt.
	NothingDone bool
}

// Apply makes of err, which must not be nil, the failure that the rule says. A
// success has none to apply it to.
func (r Rule) Apply(err error) error {
	switch r.Outcome {
	case Ambiguous:
		return tool.Ambiguous(err)
	case Invalid:
		return tool.Invalid(err)
	case RetryAfter:
		return tool.RetryAfter(err, r.After, r.NothingDone)
	case RateLimited:
		return tool.RateLimited(err, r.After)
	case Unavailable:
		return tool.Unavailable(err, r.After)
	}
	return tool.Definite(err)
}

// Check says what of the rule cannot be used, where known are the outcomes
// that there may be.
func (r Rule) Check(known []Outcome) error {
	waits := Failures()[3:]
	switch {
	case !slices.Contains(known, r.Outcome):
		return fmt.Errorf("outcome %q is not known: give one of %v", r.Outcome, known)
	case r.After < 0:
		return errors.New("after is negative")
	case r.After > 0 && !slices.Contains(waits, r.Outcome):
		return fmt.Errorf("after has no meaning for %s: give one of %v", r.Outcome, waits)
	case r.Outcome == RetryAfter && r.After == 0:
		return errors.New("retry_after needs after, such as {outcome: retry_after, after: 5s}")
	case r.NothingDone && r.Outcome != RetryAfter:
		return fmt.Errorf("nothing_done belongs to retry_after, not to %s", r.Outcome)
	}
	return nil
}

// UnmarshalYAML reads an outcome, or a mapping of outcome, after and nothing_done.
func (r *Rule) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*r = Rule{Outcome: Outcome(n.Value)}
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: give an outcome, or a mapping with one", n.Line)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		var err error
		switch key.Value {
		case "outcome":
			r.Outcome = Outcome(value.Value)
		case "after":
			err = value.Decode((*Duration)(&r.After))
		case "nothing_done":
			err = value.Decode(&r.NothingDone)
		default:
			err = fmt.Errorf("line %d: field %s is not known", key.Line, key.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
