// Package cli is the commands: mulligan, which a person types, and the three
// services coordinator, worker and reflector. It wires flags, environment and
// configuration files to the packages that do the work, and turns what they
// return into text or JSON and an exit code. Nothing here decides about a call.
package cli
