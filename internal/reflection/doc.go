// Package reflection is the reflector as a service: it reads the failures of a
// pool, has each analysed, and publishes the decision (protocol section 4). It
// never touches a call itself, and several of them may work side by side with
// the same policy: the first decision on a failure wins.
//
// A failure stays un-acked until its decision is stored, so that a reflector
// which dies leaves nothing behind. One that was delivered more than five times
// is given up on, since it may be what kills reflectors.
package reflection
