// Package process ends the programs that a worker starts, with all that they
// started themselves.
package process

import (
	"errors"
	"os"
	"syscall"
)

// gone translates what the kernel says of a process or group that has ended.
func gone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
