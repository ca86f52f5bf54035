package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrOwned is wrapped by Scale and Run where another planner acts on the state
// file. It stops when that one ends, however it ends.
var ErrOwned = errors.New("another planner acts on this state file")

// lockPause is how long to wait between two tries for a lock that is held.
const lockPause = 5 * time.Millisecond

// lockFile takes upstream's lock, the file beside the state file with .lock at
// its end, for one reading and writing.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := flock(path + ".lock")
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock %s.lock: %w", path, ctx.Err())
		case <-time.After(lockPause):
		}
	}
}

// lockOwner takes the lock of the one that acts on the state file, for as long
// as the file is open; the kernel lets go of it when the program dies.
func lockOwner(path string) (*os.File, error) {
	f, err := flock(path + ".owner")
	if errors.Is(err, unix.EWOULDBLOCK) {
		who := "it"
		if pid, err := os.ReadFile(path + ".owner"); err == nil && len(pid) > 0 { // only for the message
			who = "process " + strings.TrimSpace(string(pid))
		}
		return nil, fmt.Errorf("%w: %s: stop %s, or choose another namespace", ErrOwned, path, who)
	}
	if err != nil {
		return nil, err
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if _, err := f.WriteAt([]byte(pid), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s.owner: %w", path, err), f.Close())
	}
	if err := f.Truncate(int64(len(pid))); err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s.owner: %w", path, err), f.Close())
	}
	return f, nil
}

// The state file, its locks and their folder are the user's own.
const (
	privateFile = 0o600
	privateDir  = 0o700
)

// tighten takes a file's rights from everybody else; one that is not ours stays as
// its owner has it.
func tighten(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&^privateFile == 0 {
		return err
	}
	if err := os.Chmod(path, privateFile); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// flock opens and locks the file at path, or fails with EWOULDBLOCK.
func flock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), privateDir); err != nil {
		return nil, stateDirError(err)
	}
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, privateFile)
		if err != nil {
			return nil, stateDirError(err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { //nolint:gosec // a descriptor
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		if same(f, path) {
			return f, nil
		}
		if err := f.Close(); err != nil { // somebody removed it meanwhile: that lock locks nobody out
			return nil, err
		}
	}
}

func same(f *os.File, path string) bool {
	mine, err1 := f.Stat()
	there, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, there)
}

// stateDirError says what to do where the folder of state files cannot be used.
func stateDirError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: set %s to a folder that may be written", err, stateDirVar)
	}
	return err
}

// readAll reads at most limit bytes.
func readAll(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, fmt.Errorf("reading %s: larger than %d MiB", path, limit>>20)
	}
	return b, err
}
