package store

import (
	"compress/gzip"
	"errors"
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

func readAll(path string) ([]profile.Request, error) {
	var got []profile.Request
	for r, err := range ReadRequests(path) {
		if err != nil {
			return got, err
		}
		got = append(got, r)
	}
	return got, nil
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
	for _, err := range ReadRequests(file) {
		if err != nil {
			t.Fatal(err)
		}
		break // stopping early is fine
	}
	if err := WriteRequests(dir, "none", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(RequestsPath(dir, "none")); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestRequestsAppearWholeOrNotAtAll(t *testing.T) {
	file := RequestsPath(t.TempDir(), "a")
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

func TestReadRequestsRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := WriteRequests(dir, "a", records(300)); err != nil {
		t.Fatal(err)
	}
	file := RequestsPath(dir, "a")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b[:len(b)*2/3], 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(file); err == nil || !strings.Contains(err.Error(), "the file is truncated") || len(got) == 300 {
		t.Errorf("truncated: %d records, %v", len(got), err)
	}
	for name, c := range map[string]struct{ comment, text, want string }{
		"bad line": {requestsComment, "{}\n{\"index\":\"x\"}\n", ":2: json"},
		"version":  {"plimsoll requests schema 2", "{}\n", `header says "plimsoll requests schema 2"`},
		"foreign":  {"", "{}\n", `header says ""`},
	} {
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(f)
		z.Comment = c.comment
		if _, err := z.Write([]byte(c.text)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(z.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	if _, err := readAll(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestRequestsNamesAreSafe(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{
		"a/b", "a_b", "a b", "../../etc/passwd", "..", ".", "", "/", "a\x00b", "ü", "ö", strings.Repeat("x", 300), strings.Repeat("x", 299), ".hidden",
	} {
		name := filepath.Base(RequestsPath("d", id))
		if filepath.Dir(RequestsPath("d", id)) != filepath.Join("d", "requests") || strings.HasPrefix(name, ".") || len(name) > 220 {
			t.Errorf("%q is kept in %q", id, RequestsPath("d", id))
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q share %q", id, other, name)
		}
		seen[name] = id
	}
}

func FuzzRequests(f *testing.F) {
	dir := f.TempDir()
	if err := WriteRequests(dir, "a", records(3)); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(RequestsPath(dir, "a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		file := filepath.Join(t.TempDir(), "x.gz")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		failed := false
		for _, err := range ReadRequests(file) {
			if failed {
				t.Fatal("goes on after an error")
			}
			failed = err != nil
		}
	})
}
