//go:build !unix

package process

import "os/exec"

// Group does nothing here: without process groups and SIGTERM the process alone
// is ended, and at once.
func Group(*exec.Cmd) {}

// Terminate ends the process of a started command.
func Terminate(cmd *exec.Cmd) error { return gone(cmd.Process.Kill()) }

// Kill ends the process of a started command. It may have ended.
func Kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
