package runstate

import (
	"cmp"
	"time"

	"mulligan/pkg/messages"
)

// View is a run as it is shown: its entry, and what is worked out from it. Its
// JSON form is that of `mulligan runs -o json`.
type View struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	messages.RunEntry
	Progress *Progress           `json:"progress,omitempty"`
	Counts   *messages.RunCounts `json:"counts,omitempty"`
	Left     *messages.Millis    `json:"time_left_ms,omitempty"`
}

// NameOf is what a person calls a run: its name, or / and the id of its batch.
func NameOf(run messages.Run) string { return cmp.Or(run.Name(), string(run)) }

// ViewOf shows what the entry of a run says by itself.
func ViewOf(e messages.RunEntry) View {
	return View{Name: NameOf(e.Run), State: Of(e), RunEntry: e}
}

// With adds how far the run is at now, and what came of its calls, nil where
// that was not read. The rest is estimated from the first end that is known,
// else from when the run was declared; of a run that is over there is none.
func (v View) With(p Progress, counts *messages.RunCounts, now time.Time) View {
	v.Progress, v.Counts = &p, counts
	since := v.Created
	if counts != nil && !counts.First.IsZero() {
		since = counts.First
	}
	if rest, ok := Estimate(p.Left(), p.Ended, now.Sub(since)); ok && v.Over == nil {
		left := messages.Millis(rest)
		v.Left = &left
	}
	return v
}
