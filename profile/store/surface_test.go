package store

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
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
	for _, name := range []string{"prefill", "prefill_float_isl", "prefill_unsorted"} {
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

// TestRoundTrip: what was written is what is read, from NPZ and from JSON.
func TestRoundTrip(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
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
