// Package chaos runs a whole pool as processes, hurts them, and lets an
// independent checker say whether a promise was broken.
//
// A seed fixes what is submitted and when which process is killed, frozen,
// restarted or cut off. What happened is read from the streams and from a
// witness, a process of its own in whose file every effect of a tool stands.
// The checker knows the wire and nothing of the code that it judges.
package chaos
