package mcpserver

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// HTTP serves messages over streamable HTTP, each request by itself: there are no
// sessions. Whoever mounts it lets in who may, and holds off what browsers send
// for other sites. A body is body bytes long at the most.
//
// From 2026-07-28 on a client that closes a request cancels it; older revisions
// say that it does not, and have no other way to cancel here.
func (s *Server) HTTP(body int64) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: aside(s.cfg.Log), MaxRequestBodyBytes: body, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // behind a proxy the name is another; who mounts it knows
	})
}
