package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/google/renameio/v2"

	"plimsoll/profile"
)

var reLink = regexp.MustCompile(`^(prefill|decode)_(?:tp|tep|dep)[0-9]+(?:[a-z]+[0-9]+)*_interpolation$`)

// LinkName is the name of the link to a phase's surface: "prefill_tp4_interpolation".
func LinkName(p profile.Phase, slug string) string { return string(p) + "_" + slug + "_interpolation" }

// Link makes the folder of a phase's surface known by its pick too, slug being
// the pick's Parallelism.Slug: a relative symbolic link, or a copy of the NPZ
// where the file system has no links. Links of another pick are removed.
func Link(dir string, p profile.Phase, slug string) error {
	name := LinkName(p, slug)
	if !reLink.MatchString(name) {
		return fmt.Errorf("linking the %s surface: %q is no parallelism slug such as tp4", p, slug)
	}
	if err := unlinkOthers(dir, p, name); err != nil {
		return fmt.Errorf("linking the %s surface: %w", p, err)
	}
	at := filepath.Join(dir, name)
	if old, err := os.Lstat(at); err == nil && old.Mode()&os.ModeSymlink == 0 {
		return fmt.Errorf("linking the %s surface: %s is in the way", p, at)
	}
	if err := renameio.Symlink(surfaceDir(p), at); err != nil {
		if err := copySurface(dir, p, at); err != nil {
			return fmt.Errorf("linking the %s surface: %w", p, err)
		}
	}
	return syncDir(dir)
}

// unlinkOthers removes links, and copies that stood in for links, of this phase.
// What is neither is somebody's and stays.
func unlinkOthers(dir string, p profile.Phase, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		m := reLink.FindStringSubmatch(e.Name())
		if m == nil || m[1] != string(p) {
			continue
		}
		at := filepath.Join(dir, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0 && e.Name() != keep:
			err = os.Remove(at)
		case e.IsDir() && isCopy(at):
			err = errors.Join(os.Remove(filepath.Join(at, surfaceFile)), os.Remove(at))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isCopy(at string) bool {
	in, err := os.ReadDir(at)
	return err == nil && len(in) == 1 && in[0].Name() == surfaceFile
}

func copySurface(dir string, p profile.Phase, at string) error {
	b, err := readFile(filepath.Join(dir, SurfaceNPZ(p)))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(at, dirPerm); err != nil {
		return err
	}
	return WriteFile(filepath.Join(at, surfaceFile), b)
}
