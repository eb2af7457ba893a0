package eval

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Line is an outcome that is listed, as JSON.
type Line struct {
	Call     string          `json:"call"`
	Source   string          `json:"source"`
	Tool     string          `json:"tool"`
	Marks    []Mark          `json:"marks"`
	Class    string          `json:"recovery_class"`
	Kind     string          `json:"error_kind"`
	Did      string          `json:"what_the_model_did"`
	Does     Does            `json:"does"`
	Rule     string          `json:"rule"`
	Error    string          `json:"error"`
	Input    json.RawMessage `json:"input"`
	Proposed *LineProposal   `json:"proposed"` // null where nothing mechanical was
}

// LineProposal is a [Proposal] as JSON.
type LineProposal struct {
	Tool    string          `json:"tool"`
	Input   json.RawMessage `json:"input"`
	Changes []Change        `json:"changes"`
	Verdict Verdict         `json:"verdict"`
	Why     string          `json:"why"`
	Harms   []string        `json:"harms"`
}

// Line is the outcome as it is listed.
func (o Outcome) Line() Line {
	l := Line{
		Call: o.Call.Ref(), Source: o.Call.Source, Tool: o.Call.Tool, Marks: o.Marks(), Class: o.Call.Class, Kind: o.Call.Kind, Did: o.Call.Did,
		Does: o.Does, Rule: o.by(), Error: o.Call.Want(), Input: o.Call.Input,
	}
	if p := o.Proposal; p != nil {
		l.Proposed = &LineProposal{p.Tool, asJSON(p.Input), p.Changes, p.Verdict, p.Why, p.Harms}
	}
	return l
}

// asJSON is an input, or as a string a text that stands in the place of one.
func asJSON(input []byte) json.RawMessage {
	if json.Valid(input) {
		return input
	}
	return json.RawMessage(encode(string(input)))
}

// by is who decided, and by what.
func (o Outcome) by() string {
	if o.Decision.Rule == "" {
		return o.Decision.By
	}
	return o.Decision.By + "/" + o.Decision.Rule
}

// Listed are the outcomes that have one of the marks.
func Listed(outcomes []Outcome, marks []Mark) []Outcome {
	var out []Outcome
	for _, o := range outcomes {
		if slices.ContainsFunc(marks, o.is) {
			out = append(out, o)
		}
	}
	return out
}

// WriteJSON writes a line for each outcome, and the report as the last line.
func WriteJSON(w io.Writer, listed []Outcome, r Report) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, o := range listed {
		if err := enc.Encode(o.Line()); err != nil {
			return err
		}
	}
	return enc.Encode(r)
}

// WriteText writes the report for people, and what is listed after it.
func WriteText(w io.Writer, listed []Outcome, r Report) error {
	t := &text{w: w}
	t.line("%d failures, reflected on by %s in %.1fs; models took %d requests, %d tokens and %g in money", r.Failures, r.Reflector, float64(r.Took)/1000, r.Requests, r.Tokens, r.Money)
	if !r.Executed {
		t.line("without a database of the shop: nothing was judged by execution")
	}
	t.matrix(r.Matrix)
	t.figures(r)
	t.sources(r.Sources)
	for _, o := range listed {
		t.outcome(o)
	}
	return t.err
}

// text writes lines and keeps the first error.
type text struct {
	w   io.Writer
	err error
}

func (t *text) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

// table writes columns, after an empty line.
func (t *text) table(rows [][]string) {
	t.line("")
	columns := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		if t.err == nil {
			_, t.err = fmt.Fprintln(columns, strings.Join(r, "\t"))
		}
	}
	if t.err == nil {
		t.err = columns.Flush()
	}
}

func (t *text) matrix(rows []Row) {
	heading := []string{"CLASS OF FAILURE"}
	for _, d := range AllDoes() {
		heading = append(heading, strings.ToUpper(string(d)))
	}
	out := [][]string{heading}
	for _, r := range rows {
		line := []string{r.Class}
		for _, d := range AllDoes() {
			line = append(line, fmt.Sprint(r.Does[d]))
		}
		out = append(out, line)
	}
	t.table(out)
}

func (t *text) figures(r Report) {
	t.table([][]string{
		{"FIGURE"},
		{"transient_retried", fmt.Sprintf("%.3f", r.TransientRetried), fmt.Sprintf("%d of %d transient failures are granted a retry", r.Retried, r.Transient)},
		{"wasted_retries", fmt.Sprintf("%.3f", r.WastedRetries), fmt.Sprintf("%d of %d others are granted an unchanged retry", r.Wasted, r.NotTransient)},
		{"corrections_proposed", fmt.Sprint(r.Proposed), "also those that go to a human"},
		{"corrections_judged", fmt.Sprint(r.Judged), "by the record or by the real tool"},
		{"corrections_right", fmt.Sprint(r.Right), fmt.Sprintf("%.3f of those judged", r.RightShare())},
		{"corrections_harmful", fmt.Sprint(r.Harmful), "change what neither error, schema nor input names"},
		{"recall_corrected_alone", fmt.Sprintf("%.3f", r.RecallAlone), fmt.Sprintf("%d of %d failures that the agent corrected by itself", r.AloneRight, r.Alone)},
		{"reflection_errors", fmt.Sprint(r.Errors), "failures that the reflector had no analysis of"},
	})
}

func (t *text) sources(sources []SourceScore) {
	rows := [][]string{{"BY SOURCE", "FAILURES", "TRANSIENT RETRIED", "WASTED", "PROPOSED", "RIGHT", "HARMFUL", "RECALL"}}
	for _, s := range sources {
		rows = append(rows, []string{
			s.Source, fmt.Sprint(s.Failures), of(s.Retried, s.Transient), of(s.Wasted, s.NotTransient),
			fmt.Sprint(s.Proposed), of(s.Right, s.Judged), fmt.Sprint(s.Harmful), of(s.AloneRight, s.Alone),
		})
	}
	t.table(rows)
}

func of(n, all int) string { return fmt.Sprintf("%d of %d", n, all) }

// maxShown is how many characters of a text or value are shown to people.
const maxShown = 300

func (t *text) outcome(o Outcome) {
	var marks []string
	for _, m := range o.Marks() {
		marks = append(marks, strings.ToUpper(string(m)))
	}
	t.line("\n%s: %s, %s [%s; %s]", strings.Join(marks, ", "), o.Call.Ref(), o.Call.Tool, o.by(), o.Does)
	t.line("  error: %s", shown(o.Call.Want()))
	t.line("  label: %s, %s; then %s", o.Call.Class, o.Call.Kind, o.Call.Did)
	p := o.Proposal
	if p == nil {
		t.line("  input: %s", shown(string(o.Call.Input)))
		return
	}
	for _, c := range p.Changes {
		t.line("  %s: %s -> %s", c.Path, shown(orNothing(c.From)), shown(orNothing(c.To)))
	}
	t.line("  %s: %s", p.Verdict, shown(p.Why))
	for _, h := range p.Harms {
		t.line("  harm: %s", shown(h))
	}
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// shown is a text on one line.
func shown(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) }), " ")
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown-1]) + "…"
	}
	return s
}
