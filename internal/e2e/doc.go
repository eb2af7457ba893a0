// Package e2e holds the tests that start the real commands as processes, kill
// them and read the streams afterwards. It has no code of its own.
package e2e
