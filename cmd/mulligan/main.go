// Command mulligan is the command that a person types: a pool of its own, batches of calls, single calls and their stories.
package main

import "mulligan/internal/cli"

func main() { cli.Main(cli.Mulligan) }
