package main

import (
	"errors"
	"syscall"

	"plimsoll/engine/field"
)

// diskFull reports whether err is of a full disk, or of a used-up quota.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// withRoom adds to an error of a full disk how a profile goes on.
func withRoom(err error, dir string) error {
	if !diskFull(err) {
		return err
	}
	return field.WithHint(err, "free space on the disk of %s, then run the same command with --resume (finished points are kept)", dir)
}
