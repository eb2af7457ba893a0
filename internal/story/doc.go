// Package story tells what happened to a call: its attempts, what each was
// given and answered, what was made of a failure, the waits, and where it is
// now. It puts together what CALLS, RECOVERY, ATTEMPTS and RESULTS hold of it
// and writes nothing.
package story
