// Package worker fetches calls of the queues that its tools belong to, runs
// them, and publishes how they ended.
//
// A worker that ran a tool publishes the outcome and then acks; it gives a
// delivery back only while nothing of it has begun. A success costs one
// delivery, one publish and one ack; every look-up, mark and claim is paid for
// by calls that may be repetitions, or by tools that declare themselves
// unsafe. Acks and extensions are not fenced, so nothing here relies on them:
// the first write to RESULTS or RECOVERY decides, and a worker whose own clock
// says that its lease may have lapsed lets go of what it has not begun (P7.28).
//
// Limits that cannot be removed: a tool that ignores the end of its context
// keeps its slot until it returns; a panic on a goroutine that a tool started
// ends the process; a worker that is killed leaves its calls to the end of
// their lease, and an unsafe one of them ends as unknown.
package worker
