// Package scan reads calls that ended from a pool: from the results, newest
// first or in their order, and their stories beside them. It reads by subject
// where a selection allows it and else all of a range, writes nothing to the
// pool, and keeps what is large in a temporary file.
package scan
