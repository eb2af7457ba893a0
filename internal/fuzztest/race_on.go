//go:build race

package fuzztest

// slower is how much longer code may take that looks for races.
const slower = 20
