// Package coordination is the coordinator: it takes calls in, applies what was
// decided on those that fail, and brings every accepted call to one result.
//
// What a trigger does is decided by internal/dispatch; this package reads,
// asks, writes, acts and acks around it, in the order of protocol section 2
// (handling.go). A trigger stays un-acked until all of it is done, every step
// can be repeated, and whoever loses a compare-and-set starts again, so that
// any number of coordinators may die at any time. TestEveryStepMayFail lets
// each operation of a story fail, hang, or lose its answer, one by one.
//
// The way in is submit.go and admit.go; loop.go takes the triggers; registry.go
// and offer.go know the tools; runs.go ends runs; drain.go sees to the queues
// that nobody serves.
//
// Of the rows of protocol section 7, those about reading, writing and settling
// have their tests (TestP7_<row>) here: 1, 2, 4 to 8, 10 to 13, 17, 21, 23, 24,
// 26 and 27. Package dispatch has the table of all.
package coordination
