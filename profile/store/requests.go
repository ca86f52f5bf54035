package store

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"plimsoll/profile"
)

// requestsComment is in the gzip header, so that the lines are records and
// nothing else (zcat | jq) and still say their version.
const requestsComment = "plimsoll requests schema 1"

// requestsPath is the file of a point's raw records below the output folder.
// Slashes become underscores; an identifier with anything else that a file
// name should not hold, or too long for one, is told apart by its hash.
func requestsPath(dir, pointID string) string {
	return filepath.Join(dir, RequestsDir, requestsName(pointID)+".jsonl.gz")
}

func requestsName(id string) string {
	plain := true
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '.':
			return r
		case r == '/':
			return '_'
		default:
			plain = false
			return '_'
		}
	}, id)
	const longest = 160 // file systems take 255 bytes; the suffix and renaming need some
	if plain && name != "" && name[0] != '.' && len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	return strings.TrimLeft(name[:min(len(name), longest)], ".") + "-" + hex.EncodeToString(sum[:6])
}

// requestWriter writes one point's raw records as they come. The file appears
// on Close, whole; Abort leaves none.
type requestWriter struct {
	path string
	f    *renameio.PendingFile
	z    *gzip.Writer
	e    *json.Encoder
}

// createRequests starts a file of raw records at path and makes its folder.
func createRequests(path string) (*requestWriter, error) {
	if err := os.MkdirAll(filepath.Dir(path), dirPerm); err != nil {
		return nil, err
	}
	f, err := pending(path)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	z := gzip.NewWriter(f)
	z.Comment = requestsComment
	return &requestWriter{path: path, f: f, z: z, e: json.NewEncoder(z)}, nil
}

// Write adds one record.
func (w *requestWriter) Write(r profile.Request) error {
	if err := w.e.Encode(r); err != nil {
		return fmt.Errorf("writing %s: %w", w.path, err)
	}
	return nil
}

// Close makes the file appear.
func (w *requestWriter) Close() error {
	if err := w.z.Close(); err != nil {
		return fmt.Errorf("writing %s: %w", w.path, errors.Join(err, w.f.Cleanup()))
	}
	if err := commit(w.f, w.path); err != nil {
		return fmt.Errorf("writing %s: %w", w.path, err)
	}
	return nil
}

// Abort drops the file; after Close it does nothing.
func (w *requestWriter) Abort() error { return w.f.Cleanup() }

// WriteRequests writes one point's raw records below dir.
func WriteRequests(dir, pointID string, records []profile.Request) error {
	w, err := createRequests(requestsPath(dir, pointID))
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := w.Write(r); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	return w.Close()
}
