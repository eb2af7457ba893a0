package story

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mulligan/pkg/messages"
)

// shown is how much of a text is printed, in bytes; -o json has the whole.
const shown = 300

// WriteText prints a story for people. The error is that of w.
func (s Story) WriteText(w io.Writer) error {
	p := &printer{}
	p.head(s)
	for i, d := range s.Dispatches {
		p.dispatch(s, i, d)
	}
	p.tail(s)
	_, err := io.WriteString(w, p.b.String())
	return err
}

type printer struct{ b strings.Builder }

func (p *printer) line(format string, args ...any) {
	p.b.WriteString(Visible(fmt.Sprintf(format, args...)) + "\n")
}

func (p *printer) head(s Story) {
	p.line("call %s   tool %s", s.Call, short(s.Tool))
	var about []string
	add := func(name, value string) {
		if value != "" {
			about = append(about, name+" "+short(value))
		}
	}
	add("ref", s.Ref)
	add("run", s.Run)
	add("queue", s.Queue)
	add("effect", string(s.Effect))
	if len(about) > 0 {
		p.line("  %s", strings.Join(about, "   "))
	}
	if s.Task != "" {
		p.line("  task: %s", strings.ReplaceAll(short(s.Task), "\n", "\n        "))
	}
	if s.ReplayOf != "" {
		p.line("  replays call %s", s.ReplayOf)
	}
	p.line("  submitted %s", stamp(s.Submitted))
	p.line("  %s: %s", s.State, short(s.Now))
	p.line("")
}

func (p *printer) dispatch(s Story, i int, d Dispatch) {
	title := fmt.Sprintf("attempt %d", d.Attempt+1)
	if i > 0 && s.Dispatches[i-1].Attempt == d.Attempt {
		title += " again"
	}
	if d.N != d.Attempt {
		title += fmt.Sprintf(" (dispatch %d)", d.N)
	}
	var facts []string
	if d.Worker != "" {
		facts = append(facts, "worker "+short(d.Worker))
	}
	if d.Executed && d.Duration >= 0 && d.Outcome != "no outcome yet" {
		facts = append(facts, d.Duration.Duration().Round(time.Millisecond).String())
	}
	p.line("%-12s %s", title, strings.Join(append([]string{d.outcome()}, facts...), "   "))
	p.input(d)
	if d.Error != "" {
		p.block("said", d.Error)
	}
	p.marks(d)
	if d.Stderr != "" {
		p.block("stderr", d.Stderr)
	}
	if d.Analysis != nil {
		p.analysis(*d.Analysis, d)
	}
	if d.Prompt != "" && (d.Analysis == nil || !strings.HasSuffix(d.Analysis.Action, d.Prompt)) { // what was decided need not be said twice
		p.block("asked", d.Prompt)
	}
	if a := d.Answer; a != nil {
		p.block("answered", answered(*a))
	}
	if d.Waited > 0 {
		p.line("    waited      %s", d.Waited.Duration().Round(time.Millisecond))
	}
}

// answered is who answered what, and why.
func answered(a messages.Answer) string {
	if a.Kind == messages.AnswerTimedOut {
		return "nobody in time; closed at " + stamp(a.At)
	}
	text := fmt.Sprintf("%s by %s at %s", a.Kind, a.By, stamp(a.At))
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return text
}

func (d Dispatch) outcome() string {
	if d.Outcome != "failed" {
		return d.Outcome
	}
	text := "failed: " + string(d.Code)
	switch {
	case d.Ambiguous:
		text += " (its effect may have happened)"
	case !d.Executed:
		text += " (nothing ran)"
	}
	return text
}

func (p *printer) input(d Dispatch) {
	for _, c := range d.Changes {
		switch {
		case c.To == "":
			p.line("    changed     %s: %s removed", c.Path, short(c.From))
		case c.From == "":
			p.line("    changed     %s: %s added", c.Path, short(c.To))
		default:
			p.line("    changed     %s: %s became %s", c.Path, short(c.From), short(c.To))
		}
	}
	switch {
	case len(d.Changes) > 0:
	case d.Input != nil:
		p.block("input", *d.Input)
	case d.InputSize > 0:
		p.line("    input       %d bytes, kept apart", d.InputSize)
	}
}

func (p *printer) marks(d Dispatch) {
	for _, m := range d.Marks {
		switch {
		case m.Tombstone != "" && d.Executed:
			_, why, _ := strings.Cut(m.Tombstone, ": ") // the code is for workers
			p.line("    closed      %s, so that no late delivery runs it again: %s", stamp(m.At), short(cmp.Or(why, m.Tombstone)))
		case m.Tombstone != "":
			p.line("    never ran   %s, since %s", stamp(m.At), short(m.Tombstone))
		case len(d.Marks) > 1 || d.Outcome == "no outcome yet":
			p.line("    started     %s by worker %s (delivery %d)", stamp(m.At), m.Worker, m.Delivery)
		}
	}
}

func (p *printer) analysis(a Analysis, d Dispatch) {
	by := a.By
	if a.Rule != "" {
		by += "/" + a.Rule
	}
	switch {
	case a.Error != "":
		p.block("reflected", by+": "+a.Error)
	case a.RootCause != "" && !strings.Contains(flat(a.RootCause), flat(d.Error)): // what was said need not be said twice
		p.block("reflected", fmt.Sprintf("%s: %s (%s, %s)", by, a.RootCause, a.Severity, recoverable(a.Recoverable)))
	default:
		p.line("    reflected   %s: %s, %s", by, a.Severity, recoverable(a.Recoverable))
	}
	if c := a.Correction; c != nil {
		p.block("proposed", fmt.Sprintf("%s: %s", c.Type, c.Description))
	}
	if d.Applied != nil && *d.Applied != messages.CorrectionApplied {
		p.block("correction", strings.ReplaceAll(string(*d.Applied), "_", " ")+": "+d.AppliedWhy)
	}
	p.block("decided", a.Action)
	if a.Usage != nil {
		p.line("    model       %s", usage(*a.Usage))
	}
}

// usage is what a model took, in words. The currency is that of whoever set the
// prices; without prices there is no cost.
func usage(u messages.Usage) string {
	text := fmt.Sprintf("%d tokens in, %d out", u.InputTokens, u.OutputTokens)
	switch {
	case u.Requests == 1:
		text = "1 request, " + text
	default:
		text = fmt.Sprintf("%d requests, %s", u.Requests, text)
	}
	if u.Model != "" {
		text = short(u.Model) + ": " + text
	}
	if u.CostMicros > 0 {
		text += fmt.Sprintf(", cost %d.%06d", u.CostMicros/1e6, u.CostMicros%1e6)
	}
	return text
}

func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

func recoverable(is bool) string {
	if is {
		return "recoverable"
	}
	return "not recoverable"
}

func (p *printer) tail(s Story) {
	if s.Cancel != nil {
		p.line("to be ended  wished by %s at %s: %s", s.Cancel.By, stamp(s.Cancel.At), short(s.Cancel.Reason))
	}
	if e := s.End; e != nil {
		p.line("")
		p.line("end          %s at %s", e.Status, stamp(e.At))
		p.block("output", e.Output)
		if e.Reason != "" {
			p.block("reason", e.Reason)
		}
		if e.Guidance != "" {
			p.block("guidance", e.Guidance)
		}
	}
	for _, l := range s.Late {
		if l.Answer != nil {
			p.line("late         the answer %s to dispatch %d changed nothing: %s", short(answered(*l.Answer)), l.Dispatch, l.Why)
			continue
		}
		what := "a failure"
		if l.Success {
			what = "a success"
		}
		p.line("late         %s of dispatch %d came at %s from worker %s (%s) and changed nothing: %s", what, l.Dispatch, stamp(l.At), l.Worker, l.Why, short(l.Text))
	}
	if s.ExtraStarts > 0 {
		p.line("crashes      %d further executions within an attempt after a crash", s.ExtraStarts)
	}
	for _, r := range s.Replays {
		p.line("replayed     as call %s at %s by %s, run %s", r.Call, stamp(r.At), short(cmp.Or(r.By, "somebody")), short(r.Run))
	}
	for _, u := range s.Unreadable {
		p.line("not read     %s was written by a version that this one does not read", u)
	}
	if s.Usage != nil {
		p.line("models       %s in all", usage(*s.Usage))
	}
	attempts := "attempts"
	if s.Attempts == 1 {
		attempts = "attempt"
	}
	p.line("%d %s, %s in tools, %s in all", s.Attempts, attempts, s.TimeInTools.Duration().Round(time.Millisecond), s.TimeInAll.Duration().Round(time.Millisecond))
}

// block prints a text of several lines under one title.
func (p *printer) block(title, text string) {
	for i, l := range strings.Split(short(text), "\n") {
		if i > 0 {
			title = ""
		}
		p.line("    %-11s %s", title, l)
	}
}

// short cuts a text for the eye, and makes its control characters visible.
func short(s string) string {
	s = Visible(strings.TrimRight(s, "\n"))
	if len(s) <= shown {
		return s
	}
	cut := shown
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes in all)", s[:cut], len(s))
}

// Visible makes the hidden characters of a text visible, but for line ends and
// tabs: what a tool says must not write to somebody's terminal what it likes,
// and what a human approves must be what there is to read.
func Visible(s string) string {
	hidden := func(r rune) bool { return Hidden(r) && r != '\n' && r != '\t' }
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xff:
			fmt.Fprintf(&b, "\\u{%x}", r)
		default:
			fmt.Fprintf(&b, "\\x%02x", r)
		}
	}
	return b.String()
}

// Hidden says whether a character shows nothing by itself and may change how
// others are shown: controls, and what sets the direction of a text, joins it or
// has no width.
func Hidden(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
