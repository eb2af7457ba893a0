// Package messages is the vocabulary of Mulligan and its wire: the names of
// subjects, streams and buckets, the headers, every body that crosses a
// process, the closed sets of codes, and the limits. It imports the standard
// library and google/uuid only, holds no state and does no I/O; every
// function may be called concurrently.
//
// Two encodings are used. A call and a result travel as headers around an
// untouched body (the tool's input, the tool's output, byte for byte), since
// they are the hot path and nobody on it should parse a body to route it.
// Everything rarer (failures, decisions, records, registrations) is JSON.
//
// docs/wire.md describes the same wire for other languages; the golden files
// in testdata hold one example of each form.
package messages
