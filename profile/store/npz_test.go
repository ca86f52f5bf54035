package store

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sbinet/npyio/npz"

	"plimsoll/profile"
)

func TestRefusesBadNPZ(t *testing.T) {
	for name, want := range map[string]string{
		"missing":    "missing prefill_ttft, prefill_thpt_per_gpu",
		"lengths":    "prefill_ttft has 2 values where prefill_isl has 3",
		"nan":        "prefill_ttft[1] is NaN",
		"inf":        "prefill_thpt_per_gpu[1] is +Inf",
		"negative":   "prefill_ttft[1] is -2",
		"zero":       "prefill_ttft[1] is 0 ms",
		"empty":      "prefill_isl is empty",
		"fraction":   "prefill_isl[1] is 2.5",
		"twice":      "prefill_isl holds 100 twice",
		"text":       "prefill_ttft holds text",
		"object":     "prefill_ttft: dtype object holds pickled Python objects",
		"complex":    `prefill_ttft: unsupported dtype "<c16"`,
		"structured": "prefill_ttft: unsupported .npy header",
		"huge":       "prefill_isl: holds 4611686018427387904, which is beyond 2^53",
		"narrow":     `prefill_isl: unsupported dtype "<i4": want int64, float64 or unicode text, little-endian`,
		"bigendian":  `prefill_isl: unsupported dtype ">i8"`,
		"twodims":    "has shape [1 3], want one dimension: a file of several configurations is imported, not loaded",
		"provenance": "provenance is not one of 0 (measured) to 3 (published)",
	} {
		file := "testdata/numpy/bad_" + name + ".npz"
		_, err := ReadPrefill(file, LoadOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	if _, err := ReadPrefill("testdata/numpy/decode.npz", LoadOptions{}); err == nil || !strings.Contains(err.Error(), "missing prefill_isl") {
		t.Errorf("a decode file as prefill: %v", err)
	}
	if _, err := ReadPrefill("testdata/none.npz", LoadOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestRefusesTruncatedNPZ(t *testing.T) {
	whole, err := os.ReadFile("testdata/numpy/prefill.npz")
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := npzColumns(whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes read as a whole file", n, len(whole))
		}
	}
}

// TestFlippedBitsAreSeen: a damaged file is refused, or the damage is where it
// changes nothing.
func TestFlippedBitsAreSeen(t *testing.T) {
	whole, err := os.ReadFile("testdata/numpy/prefill.npz")
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		broken := bytes.Clone(whole)
		broken[i] ^= 0x55
		c, err := npzColumns(broken)
		if err != nil {
			continue
		}
		if s, err := c.prefill(LoadOptions{}); err == nil && !reflect.DeepEqual(s, numpyPrefill) {
			t.Fatalf("byte %d flipped: reads as %+v", i, s)
		}
	}
}

func TestZipBombIsRefused(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("prefill_isl.npy")
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for range maxNPZ>>20 + 1 {
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := decodeNPZ(b.Bytes()); err == nil || !strings.Contains(err.Error(), "unpacks to more than") {
		t.Errorf("error %v", err)
	}
}

// TestWrittenByteForByte holds the writer against the files that numpy and
// scipy were shown (testdata/upstream.py).
func TestWrittenByteForByte(t *testing.T) {
	dir := t.TempDir()
	if *update {
		dir = "testdata/written"
	}
	o := LoadOptions{Provenance: new(profile.Measured)}
	p, err := ReadPrefill("../../testdata/npz/h200-8b-fp8-tp1-prefill.npz", o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := ReadDecode("../../testdata/npz/h200-8b-fp8-tp1-decode.npz", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(WritePrefill(dir, p), WriteDecode(dir, d)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		SurfaceNPZ(profile.Prefill), SurfaceNPZ(profile.Decode), SurfaceJSON(profile.Prefill), SurfaceJSON(profile.Decode),
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("testdata/written", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what testdata/written holds (%v)", name, err)
		}
	}
}

// TestNumpyAndUpstreamOnWrittenFiles reads what numpy and upstream's formulas
// made of the written files.
func TestNumpyAndUpstreamOnWrittenFiles(t *testing.T) {
	b, err := os.ReadFile("testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var u struct {
		Arrays map[string]struct {
			DType  string  `json:"dtype"`
			Shape  []int   `json:"shape"`
			COrder bool    `json:"c_order"`
			Sum    float64 `json:"sum"`
		} `json:"arrays"`
		Stored  bool                  `json:"stored"`
		Prefill map[string][2]float64 `json:"prefill"`
		Grid    struct {
			Finite bool `json:"finite"`
			Cells  int  `json:"cells"`
		} `json:"grid"`
		Best struct{ ITL, KV, Thpt float64 } `json:"best"`
	}
	if err := json.Unmarshal(b, &u); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"prefill/prefill_isl": "<i8", "prefill/prefill_ttft": "<f8", "prefill/prefill_thpt_per_gpu": "<f8", "prefill/provenance": "|i1",
		"decode/x_kv_usage": "<f8", "decode/y_context_length": "<f8", "decode/z_itl": "<f8", "decode/z_thpt_per_gpu": "<f8",
		"decode/max_kv_tokens": "<i8", "decode/provenance": "|i1",
	}
	if len(u.Arrays) != len(want) || !u.Stored {
		t.Errorf("%d arrays, stored %v", len(u.Arrays), u.Stored)
	}
	for name, dtype := range want {
		length := map[string]int{"prefill": 17, "decode": 41}[filepath.Dir(name)]
		if strings.HasSuffix(name, "max_kv_tokens") || strings.HasSuffix(name, "provenance") {
			length = 1
		}
		if a := u.Arrays[name]; a.DType != dtype || !a.COrder || !reflect.DeepEqual(a.Shape, []int{length}) {
			t.Errorf("%s: %+v, want %s of %d", name, a, dtype, length)
		}
	}
	if s := u.Arrays["decode/max_kv_tokens"].Sum; s != 945029 {
		t.Errorf("max_kv_tokens %v", s)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-5*want) {
			t.Errorf("%s is %v, upstream's own file gives %v", what, got, want)
		}
	}
	near("TTFT(3000)", u.Prefill["3000"][0], 60.4587)
	near("throughput(3000)", u.Prefill["3000"][1], 49481.09)
	near("best throughput", u.Best.Thpt, 4555.68)
	for isl, v := range u.Prefill {
		if !(v[0] > 0 && v[1] > 0) {
			t.Errorf("ISL %s: %v", isl, v)
		}
	}
	if !u.Grid.Finite || u.Grid.Cells != 10000 {
		t.Errorf("grid %+v", u.Grid)
	}
}

// TestNPYByTheSpecification looks at the bytes of every member: magic, version
// (2.0 is what npyio writes; numpy has read it since 1.9), little-endian header
// length, the dict, a newline, the data.
func TestNPYByTheSpecification(t *testing.T) {
	for _, file := range []string{SurfaceNPZ(profile.Prefill), SurfaceNPZ(profile.Decode)} {
		z, err := zip.OpenReader(filepath.Join("testdata/written", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			if f.Method != zip.Store || f.CompressedSize64 != f.UncompressedSize64 || f.Flags&0x8 != 0 {
				t.Errorf("%s: method %d, flags %#x, want stored with sizes up front", f.Name, f.Method, f.Flags)
			}
			b, err := unpack(f, maxNPZ)
			if err != nil {
				t.Fatal(err)
			}
			if string(b[:8]) != "\x93NUMPY\x02\x00" {
				t.Fatalf("%s begins with %q", f.Name, b[:8])
			}
			end := 12 + int(binary.LittleEndian.Uint32(b[8:]))
			dict := string(b[12:end])
			if !strings.HasSuffix(dict, "\n") || !strings.HasPrefix(dict, "{'descr': '") || !strings.Contains(dict, ",), }") {
				t.Errorf("%s: header of %d bytes %q", f.Name, end, dict)
			}
			if f.Name == "max_kv_tokens.npy" && !bytes.Equal(b[end:], []byte{0x85, 0x6b, 0x0e, 0, 0, 0, 0, 0}) {
				t.Errorf("945029 is written as % x", b[end:])
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNPYIOReadsTheSame: a second implementation reads the written files.
func TestNPYIOReadsTheSame(t *testing.T) {
	r, err := npz.Open(filepath.Join("testdata/written", SurfaceNPZ(profile.Decode)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := LoadDecode("testdata/written", LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var itl []float64
	var maxKV []int64
	var provenance []int8
	if err := errors.Join(r.Read("z_itl.npy", &itl), r.Read("max_kv_tokens.npy", &maxKV), r.Read("provenance.npy", &provenance), r.Close()); err != nil {
		t.Fatal(err)
	}
	if len(maxKV) != 1 || maxKV[0] != int64(s.MaxKVTokens) || len(provenance) != 1 || provenance[0] != int8(profile.Measured) || len(itl) != len(s.Samples) {
		t.Fatalf("max_kv_tokens %v, provenance %v, %d ITLs", maxKV, provenance, len(itl))
	}
	for i, v := range itl {
		if v != profile.Milliseconds(s.Samples[i].ITL) {
			t.Errorf("z_itl[%d] is %v, read %v", i, v, s.Samples[i].ITL)
		}
	}
}

func FuzzNPZ(f *testing.F) {
	files, err := filepath.Glob("testdata/numpy/*.npz")
	if err != nil || len(files) < 20 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if arrays, err := decodeNPZ(b); err == nil {
			_, _ = sweptRows(arrays, LoadOptions{})
		}
		if c, err := npzColumns(b); err == nil {
			checkReadable(t, c)
		}
	})
}

func FuzzNPY(f *testing.F) {
	if b, err := encodeNPY(float64s(1, 2, 3)); err == nil {
		f.Add(b)
	}
	if b, err := encodeNPY(int8s(1)); err == nil {
		f.Add(b)
	}
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr': '<f8'"))
	f.Add([]byte("\x93NUMPY\x01\x00\x46\x00{'descr': '<U999999', 'fortran_order': True, 'shape': (0, 268435456), }\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeNPY(b)
		if err == nil && len(a.nums)+len(a.text) > len(b) {
			t.Errorf("%d elements from %d bytes", len(a.nums)+len(a.text), len(b))
		}
	})
}

func FuzzSurfaceJSON(f *testing.F) {
	f.Add([]byte(`{"x_kv_usage":[0.1],"y_context_length":[350],"z_itl":[5.5],"z_thpt_per_gpu":[1000],"max_kv_tokens":945029}`))
	f.Add([]byte(`{"prefill_isl":[1],"prefill_ttft":[1],"prefill_thpt_per_gpu":[1],"provenance":"simulated"}`))
	f.Add([]byte(`{"a":null,"b":"","c":[],"d":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := jsonColumns(b); err == nil {
			checkReadable(t, c)
		}
	})
}

// checkReadable: what is accepted can be written and is sound.
func checkReadable(t *testing.T, c columns) {
	if s, err := c.prefill(LoadOptions{}); err == nil {
		if _, err := prefillColumns(s); err != nil {
			t.Errorf("read but not writable: %v", err)
		}
	}
	if s, err := c.decode(LoadOptions{}); err == nil {
		if _, err := decodeColumns(s); err != nil {
			t.Errorf("read but not writable: %v", err)
		}
	}
}
