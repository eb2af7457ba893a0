// Package calls runs a file of calls: it reads JSON lines of any format that
// internal/format knows, submits their calls, follows the results and writes a
// line for each line, in the order of the input or as they end.
//
// A file may be larger than memory. What is kept for a line is a few numbers;
// its input is read again when it is submitted, and its result is kept in the
// journal until its turn to be printed. The journal stands beside the file and
// makes a run resumable: a call that has ended is never run again, and one
// that was submitted is submitted again only where nobody confirmed it, with
// the same id.
package calls
