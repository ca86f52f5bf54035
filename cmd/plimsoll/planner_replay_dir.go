package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"plimsoll/engine/field"
	"plimsoll/profile/store"
)

const (
	replayFileName = "replay.json"
	reportFileName = "report.html"
)

// checkDir says whether the output folder holds an older replay, and refuses one that
// may not be used.
func (o replayOptions) checkDir() (older bool, err error) {
	if o.dir == "" {
		return false, nil
	}
	entries, err := os.ReadDir(o.dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, dirError(err)
	case len(entries) == 0:
		return false, nil
	}
	if _, err := os.Stat(filepath.Join(o.dir, replayFileName)); err != nil {
		return false, field.Errorf("--output-dir %s holds something other than a replay", o.dir).Hint("name another folder")
	}
	if !o.force {
		return false, field.Errorf("--output-dir %s already holds a replay", o.dir).Hint("--force moves it aside")
	}
	return true, nil
}

func dirError(err error) error {
	return field.Errorf("--output-dir: %v", err).Hint("name a folder that can be made and written here: --output-dir DIR")
}

// takeDir makes the output folder, and moves an older replay aside.
func (o replayOptions) takeDir() error {
	older, err := o.checkDir()
	if err != nil || o.dir == "" {
		return err
	}
	if older {
		if err := moveAside(o.dir); err != nil {
			return dirError(err)
		}
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil { //nolint:gosec // as other commands' output folders
		return dirError(err)
	}
	return nil
}

// moveAside renames a folder to the first free name with a number behind it.
func moveAside(dir string) error {
	dir = strings.TrimRight(dir, string(filepath.Separator))
	for i := 1; ; i++ {
		to := dir + "." + strconv.Itoa(i)
		if _, err := os.Lstat(to); errors.Is(err, os.ErrNotExist) {
			return os.Rename(dir, to)
		}
	}
}

// write writes what --output-dir asks for. replay.json is last: a folder that has it
// is whole.
func (c comparison) write(file replayFile) error {
	dir := c.options.dir
	page, err := c.page(file).HTML()
	if err != nil {
		return err
	}
	if err := store.WriteFile(filepath.Join(dir, reportFileName), page); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := printJSON(&b, file); err != nil {
		return err
	}
	return store.WriteFile(filepath.Join(dir, replayFileName), b.Bytes())
}
