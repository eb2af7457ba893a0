package eval

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mulligan/examples/shop/corpus"
	"mulligan/pkg/messages"
)

// Score counts outcomes. A share of nothing is 0.
type Score struct {
	// TransientRetried is the share of the transient failures that are granted a
	// retry, and WastedRetries the share of the others that are granted an
	// unchanged one.
	TransientRetried float64 `json:"transient_retried"`
	WastedRetries    float64 `json:"wasted_retries"`

	// Proposed are corrections that a machine could apply, also those that go to
	// a human. Judged are those of them that are right or wrong.
	Proposed int `json:"corrections_proposed"`
	Judged   int `json:"corrections_judged"`
	Right    int `json:"corrections_right"`
	Harmful  int `json:"corrections_harmful"`
	// RecallAlone is the share of the failures that the agent corrected at once
	// and by itself for which a right correction is proposed.
	RecallAlone float64 `json:"recall_corrected_alone"`

	Failures     int `json:"failures"`
	Transient    int `json:"transient"`
	NotTransient int `json:"not_transient"` // the rest have no label
	Retried      int `json:"transient_retried_count"`
	Wasted       int `json:"wasted_retries_count"`
	Alone        int `json:"corrected_alone"`
	AloneRight   int `json:"corrected_alone_right"`
	Errors       int `json:"reflection_errors"` // the reflector had no analysis
}

// ScoreOf counts.
func ScoreOf(outcomes []Outcome) Score {
	var s Score
	for _, o := range outcomes {
		s.triage(o)
		s.correction(o)
		if o.Decision.Error != "" {
			s.Errors++
		}
	}
	s.Failures = len(outcomes)
	s.TransientRetried = share(s.Retried, s.Transient)
	s.WastedRetries = share(s.Wasted, s.NotTransient)
	s.RecallAlone = share(s.AloneRight, s.Alone)
	return s
}

func (s *Score) triage(o Outcome) {
	switch {
	case o.Call.Class == corpus.Transient:
		s.Transient++
	case o.Call.Class != "":
		s.NotTransient++
	}
	if o.is(Wasted) {
		s.Wasted++
	}
	if o.Call.Class == corpus.Transient && !o.is(Unretried) {
		s.Retried++
	}
}

func (s *Score) correction(o Outcome) {
	if o.Call.Did == corpus.CorrectedAlone {
		s.Alone++
		if !o.is(Missed) {
			s.AloneRight++
		}
	}
	if o.Proposal == nil {
		return
	}
	s.Proposed++
	if o.Proposal.Verdict != Unjudged {
		s.Judged++
	}
	if o.Proposal.Verdict == Right {
		s.Right++
	}
	if len(o.Proposal.Harms) > 0 {
		s.Harmful++
	}
}

// RightShare is the share of the judged corrections that are right.
func (s Score) RightShare() float64 { return share(s.Right, s.Judged) }

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// Mark is something about an outcome that people may want to look at.
type Mark string

// The marks. The first four are about proposals; an outcome may have several.
const (
	MarkRight    Mark = "right"
	MarkWrong    Mark = "wrong"
	MarkHarmful  Mark = "harmful"
	MarkUnjudged Mark = "unjudged"
	Missed       Mark = "missed"    // the agent corrected it by itself, and no right correction is proposed
	Unretried    Mark = "unretried" // transient, and not granted a retry
	Wasted       Mark = "wasted"    // not transient, and granted an unchanged retry
)

// Marks are all marks, in the order in which they are told.
func Marks() []Mark {
	return []Mark{MarkHarmful, MarkWrong, MarkUnjudged, MarkRight, Missed, Unretried, Wasted}
}

func (o Outcome) is(m Mark) bool {
	p := o.Proposal
	switch m {
	case MarkRight, MarkWrong, MarkUnjudged:
		return p != nil && string(p.Verdict) == string(m)
	case MarkHarmful:
		return p != nil && len(p.Harms) > 0
	case Missed:
		return o.Call.Did == corpus.CorrectedAlone && !o.is(MarkRight)
	case Unretried:
		return o.Call.Class == corpus.Transient && o.Does != Repeats && o.Does != Corrects
	case Wasted:
		return o.Call.Class != corpus.Transient && o.Call.Class != "" && o.Does == Repeats
	}
	return false
}

// Marks are those that the outcome has.
func (o Outcome) Marks() []Mark {
	return slices.DeleteFunc(Marks(), func(m Mark) bool { return !o.is(m) })
}

// Row is a row of the matrix: the failures of a class by what was done.
type Row struct {
	Class string       `json:"class"`
	Does  map[Does]int `json:"does"`
}

// Unlabelled is the class of failures without one.
const Unlabelled = "(no label)"

// Matrix has a row for each class of the corpus, transient first.
func Matrix(outcomes []Outcome) []Row {
	return group(outcomes, func(o Outcome) string { return cmp.Or(o.Call.Class, Unlabelled) }, func(class string, of []Outcome) Row {
		r := Row{Class: class, Does: make(map[Does]int)}
		for _, o := range of {
			r.Does[o.Does]++
		}
		return r
	})
}

// SourceScore is the score of what one source brought.
type SourceScore struct {
	Source string `json:"source"`
	Score
}

// BySource scores each source by itself, so that one from which nothing was
// learned can be told from the others. A source is what stands before the
// colon in its name: a repository, not a file of it.
func BySource(outcomes []Outcome) []SourceScore {
	return group(outcomes, func(o Outcome) string {
		name, _, _ := strings.Cut(cmp.Or(o.Call.Source, o.Call.Domain, "(no source)"), ":")
		return name
	}, func(name string, of []Outcome) SourceScore { return SourceScore{name, ScoreOf(of)} })
}

// group makes a row of the outcomes of each key, those of transient failures
// first, then the larger ones.
func group[T any](outcomes []Outcome, key func(Outcome) string, row func(string, []Outcome) T) []T {
	byKey := make(map[string][]Outcome)
	var keys []string
	for _, o := range outcomes {
		k := key(o)
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], o)
	}
	rank := func(k string) int {
		if k == corpus.Transient {
			return -len(outcomes) - 1
		}
		return -len(byKey[k])
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	var out []T
	for _, k := range keys {
		out = append(out, row(k, byKey[k]))
	}
	return out
}

// Report is all that is told at the end.
type Report struct {
	Score
	Reflector string `json:"reflector"`
	// Executed says whether there was a database to execute proposals on.
	Executed bool `json:"executed"`
	// Requests, Tokens and Money are what models took, the last in the currency
	// of the prices that they were given; 0 without one.
	Requests int     `json:"requests"`
	Tokens   int64   `json:"tokens"`
	Money    float64 `json:"money"`
	// Took is how long the failures took, in milliseconds.
	Took    int64         `json:"took_ms"`
	Matrix  []Row         `json:"matrix"`
	Sources []SourceScore `json:"by_source"`
}

// NewReport puts the figures of a run together.
func NewReport(c Config, reflector string, outcomes []Outcome, took time.Duration) Report {
	r := Report{
		Score: ScoreOf(outcomes), Reflector: reflector, Executed: c.Shop != nil, Took: took.Milliseconds(),
		Matrix: Matrix(outcomes), Sources: BySource(outcomes),
	}
	var spent messages.Usage
	for _, o := range outcomes {
		if o.Decision.Usage != nil {
			spent = spent.Plus(*o.Decision.Usage)
		}
	}
	r.Requests, r.Tokens, r.Money = spent.Requests, spent.Tokens(), float64(spent.CostMicros)/1e6
	return r
}
