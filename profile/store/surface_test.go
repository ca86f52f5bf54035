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
	"time"

	"github.com/sbinet/npyio/npz"
	"pgregory.net/rapid"

	"plimsoll/profile"
)

var (
	numpyPrefill = profile.PrefillSurface{Provenance: profile.Published, Samples: []profile.PrefillSample{
		{ISL: 100, TTFT: 19500 * time.Microsecond, ThroughputPerGPU: 5128.2},
		{ISL: 1117, TTFT: 38250 * time.Microsecond, ThroughputPerGPU: 29202.6},
		{ISL: 2134, TTFT: 50125 * time.Microsecond, ThroughputPerGPU: 42573.5},
	}}
	numpyDecode = profile.DecodeSurface{Provenance: profile.Published, MaxKVTokens: 945029, Samples: []profile.DecodeSample{
		{KVUsage: 0.1, Context: 350, ITL: 5500 * time.Microsecond, ThroughputPerGPU: 1000},
		{KVUsage: 0.5, Context: 350, ITL: 20250 * time.Microsecond, ThroughputPerGPU: 2000},
		{KVUsage: 0.2, Context: 2997, ITL: 6500 * time.Microsecond, ThroughputPerGPU: 500},
		{KVUsage: 0.6, Context: 2997, ITL: 22750 * time.Microsecond, ThroughputPerGPU: 900},
	}}
)

func TestReadsWhatNumpyWrote(t *testing.T) {
	for _, name := range []string{"prefill", "prefill_bigendian", "prefill_float_isl", "prefill_unsorted"} {
		s, err := ReadPrefill("testdata/numpy/"+name+".npz", LoadOptions{})
		if err != nil || !reflect.DeepEqual(s, numpyPrefill) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	for _, name := range []string{"decode", "decode_compressed", "decode_scalar_kv"} {
		s, err := ReadDecode("testdata/numpy/"+name+".npz", LoadOptions{MaxKVTokens: 7})
		if err != nil || !reflect.DeepEqual(s, numpyDecode) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	narrow, err := ReadPrefill("testdata/numpy/prefill_narrow.npz", LoadOptions{})
	if err != nil || narrow.Samples[2].ISL != 2134 || math.Abs(narrow.Samples[2].ThroughputPerGPU-42573.5) > 0.01 {
		t.Errorf("int32 and float32: %+v, %v", narrow, err)
	}
}

func TestProvenanceOfAFile(t *testing.T) {
	measured := new(profile.Measured)
	for _, c := range []struct {
		file string
		o    LoadOptions
		want profile.Provenance
	}{
		{"decode", LoadOptions{}, profile.Published}, // unknown is not measured
		{"decode", LoadOptions{Provenance: measured}, profile.Measured},
		{"decode_provenance", LoadOptions{Provenance: measured}, profile.Simulated}, // the file wins
		{"decode_provenance", LoadOptions{}, profile.Simulated},
	} {
		s, err := ReadDecode("testdata/numpy/"+c.file+".npz", c.o)
		if err != nil || s.Provenance != c.want {
			t.Errorf("%s with %v: %v, %v, want %v", c.file, c.o, s.Provenance, err, c.want)
		}
	}
}

func TestMaxKVTokensOfAnOlderFile(t *testing.T) {
	if s, err := ReadDecode("testdata/numpy/decode_no_max_kv.npz", LoadOptions{MaxKVTokens: 500}); err != nil || s.MaxKVTokens != 500 {
		t.Errorf("%v, %v", s.MaxKVTokens, err)
	}
	if _, err := ReadDecode("testdata/numpy/decode_no_max_kv.npz", LoadOptions{}); err == nil || !strings.HasSuffix(err.Error(), "missing max_kv_tokens") {
		t.Errorf("error %v", err)
	}
}

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
		"huge":       "prefill_isl: unsupported dtype \"<i8\" or a value beyond 2^53",
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

// TestRoundTrip: what was written is what is read, from NPZ and from JSON.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profile.PrefillSurface{Provenance: profile.Provenance(rapid.IntRange(0, 3).Draw(t, "provenance"))}
		d := profile.DecodeSurface{Provenance: p.Provenance, MaxKVTokens: rapid.IntRange(1, maxTokens).Draw(t, "max kv")}
		isl := 0
		for range rapid.IntRange(1, 20).Draw(t, "samples") {
			isl += rapid.IntRange(1, 1<<30).Draw(t, "isl")
			nanos := rapid.Int64Range(1, int64(maxLatency)).Draw(t, "ns")
			p.Samples = append(p.Samples, profile.PrefillSample{ISL: isl, TTFT: time.Duration(nanos), ThroughputPerGPU: rapid.Float64Range(0, 1e12).Draw(t, "rate")})
			d.Samples = append(d.Samples, profile.DecodeSample{
				KVUsage: rapid.Float64Range(0, 2).Draw(t, "kv"), Context: rapid.Float64Range(1e-3, 1e9).Draw(t, "context"),
				ITL: time.Duration(nanos), ThroughputPerGPU: rapid.Float64Range(0, 1e12).Draw(t, "rate"),
			})
		}
		pc, err1 := prefillColumns(p)
		dc, err2 := decodeColumns(d)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		for _, c := range bothFormats(t, pc) {
			if got, err := c.prefill(LoadOptions{}); err != nil || !reflect.DeepEqual(got, p) {
				t.Fatalf("%+v, %v, wrote %+v", got, err, p)
			}
		}
		for _, c := range bothFormats(t, dc) {
			if got, err := c.decode(LoadOptions{}); err != nil || !reflect.DeepEqual(got, d) {
				t.Fatalf("%+v, %v, wrote %+v", got, err, d)
			}
		}
	})
}

func bothFormats(t *rapid.T, c surfaceColumns) [2]columns {
	b, err := encodeNPZ(c.members())
	if err != nil {
		t.Fatal(err)
	}
	npz, err := npzColumns(b)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = encodeJSON(c.json()); err != nil {
		t.Fatal(err)
	}
	js, err := jsonColumns(b)
	if err != nil {
		t.Fatal(err)
	}
	return [2]columns{npz, js}
}

func TestWriteRefusesWhatCouldNotBeRead(t *testing.T) {
	dir := t.TempDir()
	bad := numpyPrefill
	bad.Samples = append(bad.Samples[:2:2], profile.PrefillSample{ISL: 5000, TTFT: time.Second, ThroughputPerGPU: math.NaN()})
	if err := WritePrefill(dir, bad); err == nil || !strings.Contains(err.Error(), "prefill_thpt_per_gpu[2] is NaN") {
		t.Errorf("error %v", err)
	}
	if err := WriteDecode(dir, profile.DecodeSurface{Samples: numpyDecode.Samples}); err == nil {
		t.Error("a surface without capacity is written")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestLoadPrefersNPZAndFallsBackToJSON(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadPrefill(dir, LoadOptions{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "raw_data.npz") {
		t.Errorf("nothing there: %v", err)
	}
	// What upstream's ConfigMap holds: the same keys, max_kv_tokens a number.
	upstream := `{"x_kv_usage":[0.1],"y_context_length":[350],"z_itl":[5.5],"z_thpt_per_gpu":[1000],"max_kv_tokens":945029}`
	if err := os.WriteFile(filepath.Join(dir, "decode_raw_data.json"), []byte(upstream), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := LoadDecode(dir, LoadOptions{})
	if err != nil || s.MaxKVTokens != 945029 || s.Samples[0] != numpyDecode.Samples[0] || s.Provenance != profile.Published {
		t.Errorf("%+v, %v", s, err)
	}
	if err := WriteDecode(dir, numpyDecode); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "decode_raw_data.json"), []byte(upstream), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := LoadDecode(dir, LoadOptions{}); err != nil || len(s.Samples) != 4 {
		t.Errorf("the NPZ does not win: %+v, %v", s, err)
	}
}

func TestRefusesBadJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prefill_raw_data.json")
	for text, want := range map[string]string{
		`{"prefill_isl":[1]`:       "not a JSON surface",
		`[1]`:                      "not a JSON surface",
		`{"prefill_isl":[1,null]}`: "prefill_isl[1] is null",
		`{"prefill_isl":null}`:     "prefill_isl[0] is null",
		`{"prefill_isl":{"a":1}}`:  "prefill_isl: want numbers",
		`{"prefill_isl":["1"]}`:    "prefill_isl: want numbers",
		`{"prefill_isl":[]}`:       "missing prefill_ttft",
		`{"prefill_isl":"x"}`:      "missing prefill_ttft",
		`{"prefill_isl":[1e400]}`:  "prefill_isl: want numbers",
		`{"prefill_isl":[],"prefill_ttft":[],"prefill_thpt_per_gpu":[]}`:                           "prefill_isl is empty",
		`{"prefill_isl":[1],"prefill_ttft":[1],"prefill_thpt_per_gpu":[1],"provenance":"guessed"}`: `unknown provenance "guessed"`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPrefill(file, LoadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
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
