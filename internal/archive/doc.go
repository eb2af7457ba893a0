// Package archive writes a run as lines of JSON and brings it in again, into
// another pool or the same after a deletion: results, stories and records, and
// the payloads that they refer to. Nothing is executed. docs/runs.md describes
// the lines.
package archive
