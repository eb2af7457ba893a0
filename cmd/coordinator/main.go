// Command coordinator is the service that takes calls in, applies decisions and ends calls.
package main

import "mulligan/internal/cli"

func main() { cli.Main(cli.Coordinator) }
