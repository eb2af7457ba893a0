//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

// Group gives a command that has not started a process group of its own.
func Group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate asks the group of a started command to end, by SIGTERM. It returns
// [os.ErrProcessDone] when nothing of it is left.
func Terminate(cmd *exec.Cmd) error { return gone(syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)) }

// Kill ends what is left of the group of a started command. Nothing may be.
func Kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
