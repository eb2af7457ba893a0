package schema

import (
	"encoding/json"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of one check. A schema whose branches refer to each other makes the
// work of a check grow exponentially with the depth of the input, and an input
// of a few megabytes can break a schema in as many places.
const (
	// leastSteps is what the smallest input may cost: some tenths of a second.
	leastSteps = 100_000
	// stepsPerByte is what each byte of the input adds. A list of small objects
	// that is checked against thirty forms stays well below.
	stepsPerByte = 5
	// failureSteps is what a failure costs that is gathered without such a bound.
	failureSteps = 256
	// maxFailing is how many elements or properties that fail are gathered at
	// one place, of which maxViolations are told; looking on would cost memory
	// in proportion to the input.
	maxFailing = 3 * maxViolations
	// manyFailing is after how many of them in all one at each place is enough.
	manyFailing = 2000
	// spareCheckers is how many are kept for later checks.
	spareCheckers = 4
)

// errSpent ends a check that would take too long. It travels as a panic, since
// the library has no other way out, and never leaves this package.
var errSpent = errors.New("that takes too many steps: send less, or nest it less deeply")

// checker is a compiled schema that counts its steps. It serves one check at a
// time.
type checker struct {
	root    *jsonschema.Schema
	at      map[string]*jsonschema.Schema // by location
	left    int                           // steps
	failing int                           // elements and properties that failed so far
	stopped bool                          // some were not looked at, since enough had failed
}

func newChecker(source json.RawMessage) (*checker, error) {
	doc, err := decode(source)
	if err != nil {
		return nil, err
	}
	c := &checker{at: make(map[string]*jsonschema.Schema)}
	if c.root, err = compile(doc, c.spend); err != nil {
		return nil, err
	}
	c.arm(c.root)
	return c, nil
}

// check validates v, which takes about size bytes of text, against a part of
// the schema. It may panic, with errSpent or from within the library.
func (c *checker) check(location string, v any, size int) error {
	s := c.at[location]
	if s == nil {
		return errors.New("the schema has no such part")
	}
	c.left, c.failing, c.stopped = leastSteps+stepsPerByte*size, 0, false
	return s.Validate(v)
}

func (c *checker) spend(steps int) {
	if c.left -= steps; c.left < 0 {
		panic(errSpent)
	}
}

// enough says whether n failures at one place are, though there is more to look at.
func (c *checker) enough(n int) bool {
	if n < maxFailing && (n == 0 || c.failing <= manyFailing) {
		return false
	}
	c.stopped = true
	return true
}

// borrow gives a checker that nobody else uses until it is given back.
func (s *Schema) borrow() (*checker, error) {
	s.mu.Lock()
	if n := len(s.spare); n > 0 {
		c := s.spare[n-1]
		s.spare = s.spare[:n-1]
		s.mu.Unlock()
		return c, nil
	}
	s.mu.Unlock()
	return newChecker(s.source)
}

func (s *Schema) giveBack(c *checker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spare) < spareCheckers {
		s.spare = append(s.spare, c)
	}
}

// weight is about how many bytes of text v takes.
func weight(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v)
	case json.Number:
		n += len(v)
	case []any:
		for _, child := range v {
			n += weight(child)
		}
	case map[string]any:
		for k, child := range v {
			n += len(k) + weight(child)
		}
	}
	return n
}
