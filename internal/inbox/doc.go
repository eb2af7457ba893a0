// Package inbox finds the calls that wait for a human and puts together what
// each of them asks. It reads, and writes nothing; an answer goes through
// [mulligan/pkg/client.Client.Answer].
package inbox
