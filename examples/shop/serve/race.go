package serve

import (
	"fmt"
	"strings"
)

// storeRace is what a tool of the recorded shop answered when it read its store
// while another run wrote it: an error of a JSON parser that has nothing to do
// with the arguments. The same call works a moment later. The text names the
// tool without its domain.
func storeRace(tool string) string {
	return fmt.Sprintf("Error: Error executing tool %s: "+
		"Expecting property name enclosed in double quotes: line 35300 column 11 (char 874600)",
		tool[strings.LastIndex(tool, "/")+1:])
}
