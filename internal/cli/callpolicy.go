package cli

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// asPolicies is the value of --retries that leaves them to the policies.
const asPolicies = -1

func retriesFlag(f *pflag.FlagSet, retries *int) {
	f.IntVar(retries, "retries", asPolicies, "how many retries a call may have, from 0 for none; at most 5 are made, and -1 leaves it to the policies of the pool")
}

func checkRetries(retries int) error {
	if retries < asPolicies {
		return usage("--retries %d is negative; give 0 for none, or leave it out for what the policies say", retries)
	}
	return nil
}

// callPolicy is what calls bring as their own policy, by flags; nil for nothing.
func callPolicy(park bool, retries int) json.RawMessage {
	var says []string
	if park {
		says = append(says, `"ask_user":"park"`)
	}
	if retries != asPolicies {
		says = append(says, `"max_retries":`+strconv.Itoa(retries))
	}
	if says == nil {
		return nil
	}
	return json.RawMessage("{" + strings.Join(says, ",") + "}")
}
