package schema

import (
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxPattern bounds one pattern and maxPatterns those of a schema together,
	// in about the instructions that they compile to: a few bytes with two
	// repetitions become millions.
	maxPattern  = 20_000
	maxPatterns = 200_000
	// patternSteps is how many instructions, each for one byte, are one step.
	patternSteps = 32
)

// engine compiles the patterns of one schema. spend is told what matching
// costs; it may be nil.
func engine(spend func(steps int)) jsonschema.RegexpEngine {
	total := 0
	return func(pattern string) (jsonschema.Regexp, error) {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return unchecked(pattern), nil
		}
		cost := instructions(tree)
		if total += cost; cost > maxPattern || total > maxPatterns {
			return unchecked(pattern), nil
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return unchecked(pattern), nil
		}
		return &counted{re, cost, spend}, nil
	}
}

// unchecked stands for a pattern of a dialect that Go's linear-time engine
// does not know, or that is too large.
type unchecked string

func (unchecked) MatchString(string) bool { return true }
func (u unchecked) String() string        { return string(u) }

// counted tells what it costs before it matches.
type counted struct {
	re    *regexp.Regexp
	cost  int
	spend func(int)
}

func (c *counted) MatchString(s string) bool {
	if c.spend != nil {
		c.spend(len(s) * c.cost / patternSteps)
	}
	return c.re.MatchString(s)
}

func (c *counted) String() string { return c.re.String() }

// instructions is about how many a pattern compiles to; it saturates above
// maxPattern.
func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min, 1)
	}
	return min(n, maxPattern+1)
}
