// Package gateway serves a pool over HTTP: calls, batches, the tool calls of a
// message, results, and the inbox (docs/gateway.md). It is a client of the pool
// like any other: it submits, follows and asks, and decides nothing about a call.
package gateway
