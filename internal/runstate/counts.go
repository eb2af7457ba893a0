package runstate

import "mulligan/pkg/messages"

// MostTools is up to how many tools of a run are told apart.
const MostTools = 256

// Add counts a result. Its body is not looked at.
func Add(c *messages.RunCounts, r messages.Result) {
	c.Calls++
	if c.Outcomes == nil {
		c.Outcomes, c.Tools = make(map[messages.Status]int64), make(map[string]map[messages.Status]int64)
	}
	c.Outcomes[r.Status]++
	if r.Status == messages.Succeeded && (r.Attempts > 1 || r.RecoveredBy != "") {
		c.Recovered++
	}
	tool := r.Tool
	if r.OriginalTool != "" {
		tool = r.OriginalTool
	}
	of := c.Tools[tool]
	if of == nil && len(c.Tools) >= MostTools {
		c.MoreTools, tool = true, ""
		of = c.Tools[tool]
	}
	if of == nil {
		of = make(map[messages.Status]int64)
		c.Tools[tool] = of
	}
	of[r.Status]++
	if c.First.IsZero() || r.Ended.Before(c.First) {
		c.First = r.Ended
	}
	if r.Ended.After(c.Last) {
		c.Last = r.Ended
	}
}

// Failed is how many calls did not succeed.
func Failed(c messages.RunCounts) int64 { return c.Calls - c.Outcomes[messages.Succeeded] }
