package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/renameio/v2"

	"plimsoll/engine"
)

// Names in an output folder.
const (
	RunFile            = "run.json"
	JournalFile        = "journal.jsonl"
	RecommendationFile = "recommendation.json"
	RequestsDir        = "requests"
)

const (
	filePerm = 0o644
	dirPerm  = 0o755
	// maxFile bounds what is read into memory from a file somebody else may have
	// written; a journal of a hundred thousand points stays below it.
	maxFile = 256 << 20
)

// pending opens a temporary file in the folder of path, on the same file system
// whatever TMPDIR says.
func pending(path string) (*renameio.PendingFile, error) {
	return renameio.NewPendingFile(path,
		renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(filePerm))
}

// commit makes f the file at path: synced, renamed, the folder synced.
func commit(f *renameio.PendingFile, path string) error {
	if err := f.CloseAtomicallyReplace(); err != nil {
		return errors.Join(err, f.Cleanup())
	}
	return syncDir(filepath.Dir(path))
}

// writing is held by whoever writes a file, and for ever by Settle.
var writing sync.RWMutex //nolint:gochecknoglobals // of the process

// Settle waits for the files that WriteFile is writing, and lets it write no more: a
// program that ends then leaves no temporary file.
func Settle() { writing.Lock() }

// WriteFile writes data to path whole or not at all; a power failure leaves the
// old file or the new one.
func WriteFile(path string, data []byte) error {
	writing.RLock()
	defer writing.RUnlock()
	f, err := pending(path)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, f.Cleanup()))
	}
	if err := commit(f, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// writeJSON writes v, indented, with a final newline.
func writeJSON(path string, v any) error {
	b, err := encodeJSON(v)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return WriteFile(path, b)
}

// encodeJSON leaves <, > and & alone: these files are read by people, and the
// reasons in them speak of "<=".
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

// readFile reads at most maxFile bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("reading %s: larger than %d MiB", path, maxFile>>20)
	}
	return b, nil
}

// decodeStrict reads exactly one JSON value without unknown keys.
func decodeStrict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return engine.PlainJSON("the file", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// syncDir makes renames and new names in dir last through a power failure.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func exists(path string) (bool, error) {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}
