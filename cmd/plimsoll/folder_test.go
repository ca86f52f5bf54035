package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"plimsoll/profile/store"
)

// A folder that cannot be taken says what to do.
func TestFolderErrorsHaveHints(t *testing.T) {
	for _, err := range []error{
		store.ErrNoRun, store.ErrLocked, store.ErrWorkingDir,
		fmt.Errorf("output folder: %w", &fs.PathError{Op: "mkdir", Path: "/proc/x", Err: fs.ErrNotExist}),
	} {
		var e *usageError
		if got := folderError(err); !errors.As(got, &e) || !strings.Contains(e.msg, "--output-dir") || len(e.hints) == 0 {
			t.Errorf("%v: %#v", err, got)
		}
	}
}
