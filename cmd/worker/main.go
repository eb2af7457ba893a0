// Command worker is the service that runs exec tools.
package main

import "mulligan/internal/cli"

func main() { cli.Main(cli.Worker) }
