// Package soak runs a pool as processes under a steady load and steady faults,
// and says whether anything grows: memory, goroutines, file descriptors of the
// processes, or what the broker stores.
//
// Growth needs time and a process that lives through it. So of each role one
// process, and the broker, is frozen and cut off but never killed; those are
// judged. Results and stories are kept for minutes only, and judged is what is
// measured after the first of everything has expired.
package soak
