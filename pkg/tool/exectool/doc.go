// Package exectool reads files of declared tools and makes those that are
// commands; what stands under http is a request, see package httptool:
//
//	tools:
//	  - name: word_count
//	    description: counts the words of a text
//	    effect: read_only
//	    schema:
//	      type: object
//	      required: [text]
//	      properties: {text: {type: string}}
//	    command: [python3, count.py]
//	    env: [PATH, LANG]
//	    set_env: {PYTHONUNBUFFERED: "1"}
//	    timeout: 30s
//	    exit_codes:
//	      75: {outcome: unavailable, after: 5s}
//	      3: ambiguous
//
// No shell is involved. The command gets the call's input on its standard
// input, and what it prints on its standard output is the result, byte for
// byte. It succeeded if and only if it exits with 0 (S6.1); any other exit
// code is a definite failure unless exit_codes says otherwise, and the output
// is then the failing result. The end of standard error is kept for people.
//
// Beside these, a declaration may hold: queue ("default" if left out), version,
// schema_file in place of schema, dir (where the command runs; the folder of the
// file if left out), kill_after, max_output, and error_from: stderr for a program
// that says on standard error why it failed. A tool without an effect is unsafe.
//
// The environment holds what env lets through, what set_env sets, and
// MULLIGAN_TOOL, MULLIGAN_CALL, MULLIGAN_KEY, MULLIGAN_ATTEMPT,
// MULLIGAN_DISPATCH and, where they exist, MULLIGAN_RUN, MULLIGAN_REF and
// MULLIGAN_DEADLINE. The command mulligan, started by a tool, sets no flag by them.
//
// A command that is to end gets SIGTERM, with its whole process group, and
// SIGKILL after kill_after. It may still answer in between: exit 0, or an exit
// code that is declared, counts as its own word. On Windows, which has neither,
// the process alone is killed at once.
//
// When a command has ended, what is left of its process group is killed. A child
// that holds the output open has kill_after for its last words. What is to live
// on needs a group of its own, such as setsid gives.
package exectool
