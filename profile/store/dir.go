package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"plimsoll/engine/field"
)

// lockFile is held with flock while a run writes the folder. The kernel lets go
// of it however the process ends, so a killed run blocks nobody; the file stays,
// since removing it would race with the next run's lock.
const lockFile = ".plimsoll.lock"

// State is what an output folder is found to be.
type State int

// The states of an output folder.
const (
	Absent  State = iota // it does not exist
	Empty                // nothing is in it, or only what a run leaves before it begins
	OurRun               // a run of this program, whole or not
	Foreign              // something else is in it
)

// The refusals of an output folder.
var (
	// ErrOtherRun is returned by Create: the folder holds a run, to be resumed or moved aside.
	ErrOtherRun = errors.New("the folder holds another run: " + field.Resume + " continues it, " + field.Force + " moves it aside")
	// ErrForeign is returned for a folder that holds something else than a run.
	ErrForeign = errors.New("the folder holds something that is not a plimsoll run: choose another " + field.OutputDir)
	// ErrLocked is returned while another process writes the folder.
	ErrLocked = errors.New("another plimsoll is writing the folder")
	// ErrLink is returned by MoveAside.
	ErrLink = errors.New("it is a link, and what it leads to is not moved aside")
	// ErrNoRun is returned by Resume where there is nothing to resume.
	ErrNoRun = errors.New("the folder holds no run to resume")
)

// Dir is an output folder that this process alone may write.
type Dir struct {
	Path string
	lock *os.File
}

// Inspect says what is at path.
func Inspect(path string) (State, error) {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Absent, nil
	case err != nil:
		return 0, fmt.Errorf("output folder: %w", err)
	}
	locked := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == lockFile })
	if len(entries) == 0 || (locked && len(entries) == 1) {
		return Empty, nil
	}
	if locked { // which only Create puts into a folder, and only into an empty one
		return OurRun, nil
	}
	for _, e := range entries {
		if (e.Name() == JournalFile || e.Name() == RunFile) && e.Type().IsRegular() && isOurs(filepath.Join(path, e.Name())) {
			return OurRun, nil
		}
	}
	return Foreign, nil
}

// isOurs looks at how the file begins: a journal opens with its header, run.json
// with its schema and program. A journal that a kill left empty is ours too.
func isOurs(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // read only
	var b [64]byte
	n, _ := f.Read(b[:]) // an empty file reads as no bytes
	start := string(b[:n])
	if filepath.Base(file) == JournalFile {
		const opening = `{"type":"header","header":{"schema":`
		return strings.HasPrefix(start, opening) || strings.HasPrefix(opening, start)
	}
	return strings.HasPrefix(start, "{\n  \"schema\": ") && strings.Contains(start, `"program": "`+program+`"`)
}

// Create takes path, made if need be, for a new run. It refuses a folder that
// holds a run (ErrOtherRun), something else (ErrForeign), or that is in use
// (ErrLocked).
func Create(path string) (*Dir, error) {
	state, err := Inspect(path)
	if err != nil {
		return nil, err
	}
	if state == OurRun {
		return nil, fmt.Errorf("%s: %w", path, ErrOtherRun)
	}
	if state == Foreign {
		return nil, fmt.Errorf("%s: %w", path, ErrForeign)
	}
	if err := os.MkdirAll(path, dirPerm); err != nil {
		return nil, fmt.Errorf("output folder: %w", err)
	}
	d, err := hold(path)
	if err != nil {
		return nil, err
	}
	// Another run may have come and gone since the first look.
	if state, err = Inspect(path); err == nil && state != Empty {
		err = fmt.Errorf("%s: %w", path, ErrOtherRun)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Resume takes path for going on with the run that it holds, and clears away
// the half-written files that a kill left.
func Resume(path string) (*Dir, error) {
	state, err := Inspect(path)
	switch {
	case err != nil:
		return nil, err
	case state == Foreign:
		return nil, fmt.Errorf("%s: %w", path, ErrForeign)
	case state != OurRun:
		return nil, fmt.Errorf("%s: %w", path, ErrNoRun)
	}
	d, err := hold(path)
	if err != nil {
		return nil, err
	}
	if err := removeTemporary(path); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Clear removes all that was written into the folder, which is Empty then.
func (d *Dir) Clear() error {
	entries, err := os.ReadDir(d.Path)
	for _, e := range entries {
		if e.Name() != lockFile {
			err = errors.Join(err, os.RemoveAll(path(d.Path, e.Name())))
		}
	}
	return err
}

// Close lets the next run in, even while a process that was forked meanwhile has not
// yet closed its copy of the lock's file.
func (d *Dir) Close() error {
	return errors.Join(syscall.Flock(int(d.lock.Fd()), syscall.LOCK_UN), d.lock.Close())
}

// hold locks the folder, which also shows that it can be written.
func hold(path string) (*Dir, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, fmt.Errorf("output folder %s cannot be written: %w", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("%s: %w", path, errors.Join(err, f.Close()))
	}
	return &Dir{Path: path, lock: f}, nil
}

// reTemporary matches the names that whole-file writes use before renaming.
var reTemporary = regexp.MustCompile(`^\.(raw_data\.npz|[a-zA-Z0-9._-]+\.(json|jsonl\.gz|png|svg|html))[0-9]{6,}$`)

func removeTemporary(dir string) error {
	return filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && reTemporary.MatchString(e.Name()) {
			return os.Remove(p)
		}
		return err
	})
}

// MoveAside renames the run at path to path.1, or the first free number after it, and
// returns the new name. It refuses a folder in use, one that holds something else than
// a run, and a link: what it led to would no longer be where the link says.
func MoveAside(path string) (string, error) {
	path = filepath.Clean(path)
	if _, err := os.Readlink(path); err == nil {
		return "", fmt.Errorf("%s: %w", path, ErrLink)
	}
	d, err := Resume(path)
	if err != nil {
		return "", err
	}
	for i := 1; ; i++ {
		to := path + "." + strconv.Itoa(i)
		if taken, err := exists(to); err != nil {
			return "", errors.Join(err, d.Close())
		} else if taken {
			continue
		}
		if err := os.Rename(path, to); err != nil {
			return "", errors.Join(fmt.Errorf("moving the old run aside: %w", err), d.Close())
		}
		return to, errors.Join(syncDir(filepath.Dir(path)), d.Close())
	}
}
