package cli

import "time"

const notBeforeHelp = "when the calls may start: a time of RFC 3339, or a duration from now such as 10m; lines that say so themselves keep theirs"

// when reads a time of RFC 3339 or a duration from now; "" is no time.
func when(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.IsZero() {
		return time.Time{}, usage("%s %q is neither a time of RFC 3339, such as 2030-12-31T23:59:59Z, nor a duration such as 10m", flag, text)
	}
	return t, nil
}
