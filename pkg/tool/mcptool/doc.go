// Package mcptool makes the tools of MCP servers tools of a worker: programs
// that speak MCP over their standard input and output, and servers that speak it
// over HTTP. [Load] reads them from the configurations of other clients; a
// [Server] keeps one running, and says which tools it has now. docs/mcp.md has
// the whole.
//
// Each server is a queue of its own. Its tools are unsafe unless its
// configuration says otherwise, or says that it is trusted (ADR 0016).
//
// Whether a result is a failure is what its isError says, or an error of the
// protocol (S6.1). A server that is lost while it runs a call leaves that call
// ambiguous, and one that could not be asked at all leaves it for later, since
// nothing was done (S7.3).
//
// The output of a call is the text of a result that is one text and nothing else,
// and the whole result as JSON of any other, byte for byte; [LooksLikeResult]
// tells them apart.
package mcptool
