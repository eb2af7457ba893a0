// Package rules is the reflector that needs no model: a table of named rules,
// asked in order, the first that recognises a failure answers. A rule knows
// kinds of errors, never tools or data.
//
// A rule that proposes an input proposes only one that fits the schema of the
// tool, and only what can be shown from the error's text, the schema and the
// input alone. Otherwise the answer is "not recoverable", with guidance for
// the caller's model. Without a schema the rules see less and propose less.
// Whether a proposal may be applied without a human is judged by
// [recovery.Classify], not here.
//
// [Custom] are rules that a user adds, read from YAML or JSON; it stands before
// [Reflector] in a chain. docs/rules.md has the table and worked examples.
//
// The rules are pure. Their work is bounded: inputs above 64 KiB are not
// repaired, texts are searched at their ends only.
package rules
