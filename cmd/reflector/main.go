// Command reflector is the service that finds out why a call failed and decides what is to be done.
package main

import "mulligan/internal/cli"

func main() { cli.Main(cli.Reflector) }
