// Package runstate says what a run has come to, from what is counted of it:
// its state, its outcomes, and how long the rest may take. It is pure.
package runstate
