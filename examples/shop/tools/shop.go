package tools

import (
	"errors"
	"fmt"
	"strings"

	"mulligan/examples/shop/pyval"
	"mulligan/examples/shop/store"
)

// Witness is told of each change of the state before it takes place.
type Witness interface {
	// Committed records one change. If it fails the change does not happen.
	Committed(Commit) error
}

// Commit is a change of the state by a call.
type Commit struct {
	// Run, Call, Key and Tool are those of the request.
	Run, Call, Key, Tool string
	// Input holds the arguments as they came.
	Input []byte
}

// Request is one execution of a tool.
type Request struct {
	// Run names the state the tool works on. A new name is a fresh state.
	Run string
	// Call and Key say who asks. They do not change the answer: asking twice
	// executes twice.
	Call, Key string
	// Tool is the full name, such as "retail/get_order_details".
	Tool string
	// Input is the JSON object of the arguments.
	Input []byte
}

// Answer is what a tool gave back.
type Answer struct {
	Output string
	// IsError says that the tool failed; the output is its error text then.
	IsError bool
}

// Shop executes tools. It is safe for concurrent use; the calls of one run are
// executed one after the other.
type Shop struct {
	runs    *store.Runs
	witness Witness
	tools   map[string]definition
}

// New returns a shop over the runs. A nil witness records nothing.
func New(runs *store.Runs, witness Witness) *Shop {
	s := &Shop{runs: runs, witness: witness, tools: make(map[string]definition)}
	for _, d := range definitions() {
		s.tools[d.fullName()] = d
	}
	return s
}

// Call executes a tool outside of any pool, and answers its output and whether
// that is an error text.
func (s *Shop) Call(run, tool string, input []byte) (output string, isError bool) {
	a, err := s.Do(Request{Run: run, Tool: tool, Input: input})
	if err != nil {
		return "Error: " + err.Error(), true
	}
	return a.Output, a.IsError
}

// Do executes a tool. A tool that fails, does not exist or is asked wrongly
// gives an answer. An error means that the shop could not execute it and
// changed nothing: [store.ErrTooManyRuns], or the error of the witness.
func (s *Shop) Do(r Request) (Answer, error) {
	d, ok := s.tools[r.Tool]
	if !ok {
		return Answer{"Unknown action " + localName(r.Tool), true}, nil
	}
	run, err := s.runs.Open(r.Run)
	if err != nil {
		return Answer{}, err
	}
	var output string
	err = run.Do(func(tx *store.Tx) error {
		if output, err = d.answer(tx, r.Input); err != nil {
			return err
		}
		return s.tell(d, r)
	})
	var failure *pyval.Error
	if errors.As(err, &failure) {
		return Answer{printable("Error: " + failure.Text), true}, nil
	}
	if err != nil {
		return Answer{}, err
	}
	return Answer{printable(output), false}, nil
}

func (d definition) answer(tx *store.Tx, input []byte) (string, error) {
	v, err := pyval.Decode(input)
	if err != nil {
		return "", fail("the arguments are no JSON: %v", err)
	}
	object, ok := v.(*pyval.Dict)
	if !ok {
		return "", fail("the arguments must be a JSON object, not a %s", pyval.TypeName(v))
	}
	in, err := d.bind(object)
	if err != nil {
		return "", err
	}
	return d.run(tx, in)
}

func (s *Shop) tell(d definition, r Request) error {
	if d.effect == ReadOnly || s.witness == nil {
		return nil
	}
	if err := s.witness.Committed(Commit{r.Run, r.Call, r.Key, r.Tool, r.Input}); err != nil {
		return fmt.Errorf("nothing was changed, since the change could not be recorded: %w", err)
	}
	return nil
}

// localName is a tool's name without its domain, if that is a known one.
func localName(tool string) string {
	domain, name, ok := strings.Cut(tool, "/")
	if ok && (domain == Retail || domain == Airline) {
		return name
	}
	return tool
}

// printable replaces the lone surrogates that an error text may quote from its
// input, which cannot be sent. JSON answers hold them escaped.
func printable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
