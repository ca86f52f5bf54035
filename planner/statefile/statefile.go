// Package statefile keeps what a planner must not lose in a file of the user's own.
//
// Replace writes such a file whole or not at all. SetAside takes one that is damaged
// out of the way, so that a program that is started again and again goes on.
package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Replace makes text the file at path, readable by the user alone, whatever its mode
// was. The temporary file lies in the same folder.
func Replace(path string, text []byte) error {
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o600))
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Cleanup())
	}
	return f.CloseAtomicallyReplace()
}

// maxAside bounds the damaged files of one path that are kept.
const maxAside = 1000

// SetAside renames the file at path to path.damaged, or path.damaged.2 and so on where
// that is taken, and gives the new name. Whoever calls it holds the file's lock.
func SetAside(path string) (string, error) {
	for i := range maxAside {
		to := path + ".damaged"
		if i > 0 {
			to = fmt.Sprintf("%s.%d", to, i+1)
		}
		switch _, err := os.Lstat(to); {
		case errors.Is(err, fs.ErrNotExist):
			return to, os.Rename(path, to)
		case err != nil:
			return "", err
		}
	}
	return "", fmt.Errorf("there are %d damaged copies of %s already", maxAside, path)
}
