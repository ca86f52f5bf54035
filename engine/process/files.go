package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"plimsoll/engine"
)

// writeFiles writes what an engine reads as it starts.
func writeFiles(files []engine.File) error {
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.Path), privateDir); err != nil {
			return fmt.Errorf("creating the folder of its configuration: %w", err)
		}
		if err := writePrivate(f.Path, f.Text); err != nil {
			return fmt.Errorf("writing its configuration: %w", err)
		}
	}
	return nil
}

// Files that may hold what an engine was told in confidence, and their folders, are
// the user's own.
const (
	privateFile = 0o600
	privateDir  = 0o700
)

// openPrivate opens a file for writing that nobody else may read, even where it was
// there and everybody might.
func openPrivate(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|how, privateFile)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&^privateFile != 0 {
		_ = f.Chmod(privateFile) // another user's file stays as its owner has it
	}
	return f, nil
}

func writePrivate(path, text string) error {
	f, err := openPrivate(path, os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
