package kube

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// CopyProgram copies the program that runs to a path, for a container of another image.
func CopyProgram(to string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	from, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	defer from.Close() //nolint:errcheck // only read
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("copying this program: %w", errors.Join(err, os.Remove(to)))
	}
	return nil
}
