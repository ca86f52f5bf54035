package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"plimsoll/engine/field"
	"plimsoll/profile/store"
	"plimsoll/sweep"
)

// A folder that cannot be taken says what to do.
func TestFolderErrorsHaveHints(t *testing.T) {
	for _, err := range []error{
		store.ErrNoRun, store.ErrLocked, &os.LinkError{Op: "rename", Old: ".", New: "..1", Err: fs.ErrPermission},
		fmt.Errorf("output folder: %w", &fs.PathError{Op: "mkdir", Path: "/proc/x", Err: fs.ErrNotExist}),
	} {
		var e *field.Error
		if got := folderError(err); !errors.As(got, &e) || !strings.Contains(e.Msg, "--output-dir") || len(e.Hints) == 0 {
			t.Errorf("%v: %#v", err, got)
		}
	}
}

// A run that was resumed with another engine stays as it is, and says what can be done.
func TestAnotherEngineIsWrongUsage(t *testing.T) {
	var e *field.Error
	err := (&job{}).abandon(t.Context(), sweep.Result{}, fmt.Errorf("tp1: %w: version 0.20.0, tp1 was 0.15.1", sweep.ErrOtherEngine), nil)
	if !errors.As(err, &e) || !strings.HasSuffix(e.Msg, "version 0.20.0, tp1 was 0.15.1") || len(e.Hints) != 1 {
		t.Errorf("%#v", err)
	}
}
