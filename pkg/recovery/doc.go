// Package recovery decides what becomes of a tool call that failed. It has two
// pluggable halves: a [Reflector] finds out why, a [Strategy] decides what to
// do about it; a [Policy] configures both, and a [Decider] puts them together
// in the order analyse, decide (S2.2).
//
// With the defaults of the library, [NoOp] and [DefaultBackoff], nothing is
// ever retried: retrying is opt-in. The shipped services opt in, with the
// rules of recovery/rules and [ServicePolicy].
//
// The package is pure: no goroutine, no clock, no I/O, no logger. Acting on a
// decision is the coordinator's part, and so is what it may overrule: the
// ceiling of six attempts, and retries after an ambiguous failure. Unless a
// type says otherwise its values do not change and may be used concurrently.
package recovery
