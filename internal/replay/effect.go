package replay

import (
	"fmt"

	"mulligan/pkg/messages"
)

// repetition says with which key a call may run that has this digest and
// replays o, "" for a new one; or why it must not, unless somebody says so
// (S11.3, S11.4). key is given with a reason too: it is right all the same.
func repetition(o *Original, digest, original string) (key, why string) {
	refuse := func(format string, args ...any) {
		if why == "" {
			why = fmt.Sprintf(format, args...)
		}
	}
	for _, d := range o.Dispatches {
		if !d.Ambiguous || d.Effect == messages.ReadOnly {
			continue
		}
		if d.Digest != digest {
			refuse("dispatch %d may have had its effect, which was another: its tool or input was not the same", d.N)
			continue
		}
		key = d.Key
		if d.Effect == messages.Unsafe {
			refuse("dispatch %d may have had its effect, and the tool is unsafe", d.N)
		}
	}
	switch {
	case o.Effect == messages.ReadOnly:
	case o.Status == messages.Succeeded || o.LateSuccess:
		key = "" // the old one would make a tool that honours it do nothing
		if o.Effect != messages.Idempotent || digest != original {
			refuse("it succeeded%s, and the tool is %s", map[bool]string{true: " after its end"}[o.Status != messages.Succeeded], o.Effect)
		}
	case o.Status == messages.StatusUnknown && len(o.Dispatches) == 0:
		refuse("its effect may have happened, and its story is gone")
	case o.Status == messages.Cancelled || o.Status == messages.Expired:
		key, why = stopped(o, digest, original, key, why)
	}
	return key, why
}

// stopped is repetition for a call that somebody, or the clock, ended: one that
// is not unsafe may have been running then (docs/protocol.md).
func stopped(o *Original, digest, original, key, why string) (string, string) {
	if o.Effect == messages.Unsafe || why != "" || key != "" {
		return key, why // an unsafe one that had begun ends unknown (S7.7)
	}
	running, its := original, o.Call.Key
	last := -1
	if n := len(o.Dispatches); n > 0 {
		last, running, its = o.Dispatches[n-1].N, o.Dispatches[n-1].Digest, o.Dispatches[n-1].Key
	}
	if digest != running || o.Dispatch > max(last, 0) {
		return key, "it may have been running when it was ended, with another tool or input"
	}
	return its, ""
}
