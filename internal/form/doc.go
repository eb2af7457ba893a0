// Package form knows when two inputs say the same thing in another form: a
// name that is nearly another, a number written as text, JSON whose
// punctuation was mended. Rules propose with it and the classifier of S3.7
// judges with it, so that both mean the same. It is pure; every function may
// be called concurrently.
package form
