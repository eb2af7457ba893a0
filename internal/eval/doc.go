// Package eval scores a reflector on a corpus of recorded failures: what it
// would have had done about each, whether what it proposes is right, by the
// record or by the real tool, and whether it changes what nobody named.
//
// Nothing of a pool runs. A case is made of each failure as the reflector
// service makes one, and the decider of the services answers it.
package eval
