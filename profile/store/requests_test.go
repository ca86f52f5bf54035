package store

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

func records(n int) []profile.Request {
	r := make([]profile.Request, n)
	for i := range r {
		r[i] = profile.Request{Index: i, ISL: 3000, OSL: 2, Sent: 1, First: time.Duration(i), Chunks: []profile.Chunk{{At: 5}, {At: 9}}, Status: 200, CachedTokens: -1}
	}
	return r
}

// readAll reads records as anybody may: a JSON value to a line.
func readAll(path string) ([]profile.Request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	if z.Comment != requestsComment {
		return nil, fmt.Errorf("header says %q", z.Comment)
	}
	var got []profile.Request
	for d := json.NewDecoder(z); ; {
		var r profile.Request
		if err := d.Decode(&r); err == io.EOF {
			return got, nil
		} else if err != nil {
			return nil, err
		}
		got = append(got, r)
	}
}

func TestRequestsRoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := records(500)
	if err := WriteRequests(dir, "sweep/decode/tp2/isl3000/n16", want); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "requests", "sweep_decode_tp2_isl3000_n16.jsonl.gz")
	got, err := readAll(file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d records, %v", len(got), err)
	}
	if err := WriteRequests(dir, "none", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(requestsPath(dir, "none")); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestRequestsAppearWholeOrNotAtAll(t *testing.T) {
	file := requestsPath(t.TempDir(), "a")
	w, err := createRequests(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(records(1)[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there before Close: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestRequestsNamesAreSafe(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{
		"a/b", "a_b", "a b", "../../etc/passwd", "..", ".", "", "/", "a\x00b", "ü", "ö", strings.Repeat("x", 300), strings.Repeat("x", 299), ".hidden",
	} {
		name := filepath.Base(requestsPath("d", id))
		if filepath.Dir(requestsPath("d", id)) != filepath.Join("d", "requests") || strings.HasPrefix(name, ".") || len(name) > 220 {
			t.Errorf("%q is kept in %q", id, requestsPath("d", id))
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q share %q", id, other, name)
		}
		seen[name] = id
	}
}
