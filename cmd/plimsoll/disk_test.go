package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine/field"
)

// A full disk is said to be one, with what is kept.
func TestFullDiskHasAHint(t *testing.T) {
	full := fmt.Errorf("appending to results/journal.jsonl: %w", &fs.PathError{Op: "write", Path: "results/journal.jsonl", Err: syscall.ENOSPC})
	for _, c := range []struct {
		err  error
		want string
	}{
		{full, "hint: make room where that is written"},
		{withRoom(full, "results"), "hint: free space on the disk of results, then run the same command with --resume (finished points are kept)"},
		{withRoom(field.WithHint(full, "engine logs are in results/engines"), "results"), "hint: free space on the disk of results, "},
		{folderError(full), "hint: make room there, or name a folder on another disk: --output-dir DIR"},
	} {
		var out bytes.Buffer
		if report(context.Background(), &out, c.err); !strings.Contains(out.String(), c.want) || strings.Count(out.String(), "hint: ") != 1 {
			t.Errorf("want %q, got\n%s", c.want, &out)
		}
	}
	if err := withRoom(fs.ErrPermission, "results"); err != fs.ErrPermission { //nolint:errorlint // the very same
		t.Errorf("what is no full disk became %v", err)
	}
}
