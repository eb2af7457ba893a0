// Package tool is how a tool is written: a function with typed input and
// output becomes a [Tool] that a worker offers and runs.
//
//	greet := tool.New("greet", func(ctx context.Context, in Greeting) (Reply, error) {
//		return Reply{Text: "Hello, " + in.Name}, nil
//	}, tool.Effect(messages.ReadOnly), tool.Timeout(5*time.Second))
//
// Three things are kept apart. The tool failed: it returns an error, whose
// text reaches the caller's model word for word. The tool could not be used
// for now, or at all: it says so with [RateLimited], [Unavailable] or
// [Invalid]. Nobody knows: [Ambiguous], a time-out, a panic. Whether a
// result is a failure is never guessed from its text (S6.1), and whether an
// effect may have happened decides what a machine may do next (S7.3).
//
// An undeclared effect is unsafe (S7.1): such a tool runs at most once for
// each attempt, and is not run again when it is unknown how it ended.
package tool
