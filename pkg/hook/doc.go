// Package hook lets others look at calls before they run and after they have.
//
// A [Hook] may veto a call with its reason before it runs, or observe how each
// attempt ended, or both. Hooks are written in Go and given to a worker (Hooks
// of worker.Config), or as [Rule] by expression in the policies of a pool. In a
// [Chain] the lowest priority is asked first, and equal ones in their order;
// the first veto counts and nobody is asked after it.
//
// A veto is final: the call ends failed, with code hook_veto and the reason as
// its text (S6.T7); it is not reflected on and not retried. A hook that cannot
// be asked, since it fails, panics or takes too long, counts as a veto: a guard
// that is broken keeps the door shut. An observer changes nothing, whatever it
// does.
//
// Nothing here has a clock or a goroutine; who runs a chain bounds the time of
// hooks in Go. Those by expression are bounded by their length.
package hook
