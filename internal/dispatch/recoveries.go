package dispatch

import (
	"strings"

	"mulligan/internal/excerpt"
)

// maxRecoveries bounds the text that says what the recovery did, in bytes.
const maxRecoveries = 300

// joinRecoveries adds what was done for the next dispatch to what was done
// before: "input_fix (rules/coerce), then retry".
func joinRecoveries(before, by string) string {
	const then = ", then "
	switch {
	case before == "" || by == "":
		return before + by
	case before == by || strings.HasSuffix(before, then+by):
		return before
	}
	return excerpt.Head(before+then+by, maxRecoveries)
}
