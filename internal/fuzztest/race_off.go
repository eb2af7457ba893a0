//go:build !race

package fuzztest

const slower = 1
