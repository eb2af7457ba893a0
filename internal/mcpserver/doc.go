// Package mcpserver serves a pool as a server of MCP (docs/mcp.md): its registry
// is the list of tools, a call of a tool is a call of the pool, and what became
// of it is the result. It is a client of the pool like any other
// (docs/adr/0017-the-gateway-is-a-client.md) and decides nothing about a call.
//
//	r := mcpserver.NewRegistry(broker, log)
//	s, err := mcpserver.New(mcpserver.Config{Broker: broker, Client: client, Registry: r, Name: "mcp"})
//	go r.Follow(ctx, 0)
//	err = s.Serve(ctx, &mcp.StdioTransport{})
//
// A [Server] may serve several connections at a time.
package mcpserver
