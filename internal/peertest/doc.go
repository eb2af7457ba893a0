// Package peertest runs the worker of examples/peer, which is written in
// another language from docs/wire.md alone, against a real broker. What it
// proves is the page: a stranger can build on it. It holds no code but tests.
package peertest
