// Package llm is the reflector that asks a model: any endpoint that speaks the
// chat completions of OpenAI, by configuration alone. It sends one structured
// request for a failure, reads the answer as an analysis, and gives nothing that
// it could not read whole: every failure of the request is an internal
// reflection error, and the call ends soft (S9.4).
//
// It is meant to stand behind the rules in a [recovery.Chain], so that it is
// asked only about what they did not recognise, and within a
// [recovery.Decider], which checks a proposed input against the schema of the
// tool (S9.5) and sends corrections of substance to a human (S3.7), whatever
// the model says.
//
// What leaves the process is told in docs/llm.md: secrets are taken out before,
// and what a tool or a task said goes as data between markers that are new for
// each request. Cost is bounded by the budget of the case, by requests a minute,
// by the tokens of an answer, and by a breaker that stops asking an endpoint
// which does not answer.
package llm
