package replay

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"mulligan/examples/shop/corpus"
	"mulligan/examples/shop/tools"
	"mulligan/internal/calls"
	"mulligan/pkg/messages"
)

// Submissions makes calls to submit of recorded ones.
func Submissions(recorded []corpus.Call) []messages.Submission {
	out := make([]messages.Submission, len(recorded))
	for i, c := range recorded {
		out[i] = messages.Submission{Ref: c.Ref(), Run: c.Run, Tool: c.FullTool(), Input: c.Input}
	}
	return out
}

// UnknownTools are the tools that were called and that the shop does not have,
// as far as they can be offered. The agents made them up; the shop has an answer
// for them, and they are offered so that it can give it.
func UnknownTools(recorded []corpus.Call) []string {
	seen := make(map[string]bool)
	for _, s := range tools.Tools() {
		seen[s.Name] = true
	}
	var out []string
	for _, c := range recorded {
		name := c.FullTool()
		if !seen[name] && messages.CheckName("tool", name, messages.MaxName) == nil {
			seen[name] = true
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Difference is a call that was answered in another way than recorded.
type Difference struct {
	Call corpus.Call
	Got  calls.Result
}

// Comparison is recorded calls beside what they were answered now.
type Comparison struct {
	Calls int
	// Failures are the calls that promise the same failure again, and
	// Differences those of them that did not keep it, byte for byte. Of CutShort
	// of them only the beginning and the length were recorded.
	Failures, CutShort int
	Differences        []Difference
	// Others are the other calls. The database may have been another one when
	// they were recorded, so that they promise nothing.
	OthersSame  int
	OthersOther []Difference
}

// Compare compares each call with its line.
func Compare(recorded []corpus.Call, lines []calls.Result) Comparison {
	c := Comparison{Calls: len(recorded)}
	for i, r := range recorded {
		same := sameAnswer(r, lines[i])
		if !r.Replays() {
			if same {
				c.OthersSame++
			} else {
				c.OthersOther = append(c.OthersOther, Difference{r, lines[i]})
			}
			continue
		}
		c.Failures++
		if _, cut := corpus.IsCut(r.Want()); cut {
			c.CutShort++
		}
		if !same {
			c.Differences = append(c.Differences, Difference{r, lines[i]})
		}
	}
	return c
}

// sameAnswer: the text, and that it is a failure. The status has to say the
// same, so that a call which Mulligan gave up for another reason is none.
func sameAnswer(want corpus.Call, got calls.Result) bool {
	status := messages.Succeeded
	if want.IsError {
		status = messages.Failed
	}
	return got.Status == status && got.IsError == want.IsError && got.Output != nil && corpus.SameText(*got.Output, want.Want())
}

// Print writes the report; its last line counts. all lists the other calls too.
func (c Comparison) Print(w io.Writer, all bool) error {
	p := &printer{w: w}
	if all {
		for _, d := range c.OthersOther {
			d.print(p, "another answer")
		}
	}
	for _, d := range c.Differences {
		d.print(p, "DIFFERENCE")
	}
	p.line("other calls: %d answered as recorded, by beginning and length where no more was recorded; %d otherwise", c.OthersSame, len(c.OthersOther))
	if c.CutShort > 0 {
		p.line("of %d failures %d were recorded by their beginning and length only, and compared so", c.Failures, c.CutShort)
	}
	p.line("recorded: %d calls, %d failures, %d differences", c.Calls, c.Failures, len(c.Differences))
	return p.err
}

func (d Difference) print(p *printer, title string) {
	p.line("%s: %s, %s", title, d.Call.Ref(), d.Call.FullTool())
	p.line("  recorded: %q, error %t", d.Call.Want(), d.Call.IsError)
	if d.Got.Output != nil {
		p.line("  now:      %q, error %t", *d.Got.Output, d.Got.IsError)
	} else {
		p.line("  now:      %d bytes that are no text", len(d.Got.OutputBase64))
	}
	if why := d.why(); why != "" {
		p.line("  why:      %s", why)
	}
}

// why says what kept the shop from being asked, or from being heard.
func (d Difference) why() string {
	switch {
	case d.Got.Status == messages.Refused:
		return fmt.Sprintf("Mulligan refused the call (%s), so that the shop was not asked", d.Got.Code)
	case !bytes.HasPrefix(bytes.TrimSpace(d.Call.Input), []byte("{")):
		return "the arguments are no JSON object, and Mulligan gives no others to a tool"
	case d.Call.InputCut:
		return "only the beginning of its input was recorded"
	case d.Got.Status != messages.Succeeded && d.Got.Status != messages.Failed:
		return fmt.Sprintf("the call ended %s: %s", d.Got.Status, d.Got.Reason)
	}
	return ""
}

// printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
