// Package replay knows how calls that ended are selected, changed and planned
// anew: which are meant, what each would be given, with which key, which must
// not run again, and how fast. It is pure; package scan reads the pool for it,
// and package calls runs what it plans.
package replay
