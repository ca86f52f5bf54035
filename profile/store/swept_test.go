package store

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

func TestReadSwept(t *testing.T) {
	for _, name := range []string{"swept_prefill", "swept_prefill_flat_config"} {
		rows, err := ReadSwept("testdata/numpy/"+name+".npz", LoadOptions{})
		if err != nil || len(rows) != 2 {
			t.Fatalf("%s: %v, %v", name, rows, err)
		}
		want := SweptConfig{
			GPUType: "h200_sxm", Model: "nvidia/Llama-3.1-8B-Instruct-FP8", Framework: "vllm", FrameworkVersion: "0.10.1.1",
			TP: 1, DP: 1, PP: 1, BlockSize: 128, MaxBatchSize: 128, GPUCount: 8,
		}
		if rows[0].Config != want || rows[0].Phase != profile.Prefill || !reflect.DeepEqual(rows[0].Prefill, numpyPrefill) {
			t.Errorf("%s: %+v", name, rows[0])
		}
		want.TP, want.FrameworkVersion = 2, "0.11.0"
		if rows[1].Config != want || rows[1].Row != 1 || rows[1].Prefill.Samples[0].TTFT != 9750*time.Microsecond {
			t.Errorf("%s: %+v", name, rows[1])
		}
		two := FilterSwept(rows, func(c SweptConfig) bool { return c.TP == 2 })
		if len(two) != 1 || two[0].Config.Parallelism() != engine.TP(2) || len(rows) != 2 || rows[0].Config.TP != 1 {
			t.Errorf("filtered %v of %v", two, rows)
		}
	}
}

func TestReadSweptDecodeAndSingle(t *testing.T) {
	rows, err := ReadSwept("testdata/numpy/swept_decode.npz", LoadOptions{Provenance: new(profile.Measured)})
	if err != nil || len(rows) != 2 || rows[1].Decode.MaxKVTokens != 1900000 || rows[1].Phase != profile.Decode {
		t.Fatalf("%+v, %v", rows, err)
	}
	want := numpyDecode
	want.Provenance = profile.Measured
	if !reflect.DeepEqual(rows[0].Decode, want) {
		t.Errorf("%+v", rows[0].Decode)
	}
	one, err := ReadSwept("testdata/numpy/swept_one.npz", LoadOptions{})
	if err != nil || len(one) != 1 || !reflect.DeepEqual(one[0].Prefill, numpyPrefill) {
		t.Errorf("%+v, %v", one, err)
	}
}

// A surface of a profile's folder is one row of an engine that nobody names.
func TestReadSweptWithoutConfig(t *testing.T) {
	rows, err := ReadSwept("testdata/numpy/prefill.npz", LoadOptions{})
	if err != nil || len(rows) != 1 || rows[0].Config != (SweptConfig{}) || !reflect.DeepEqual(rows[0].Prefill, numpyPrefill) {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestReadSweptRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"bad_swept_config":  "missing or unusable model (text), tp (whole number above 0)",
		"bad_swept_object":  "gpu_type: dtype object",
		"bad_swept_fortran": "prefill_isl: fortran order is not read",
		"bad_swept_rows":    "gpu_type has shape [3 1] where the file has 2 rows",
		"bad_missing":       "missing prefill_ttft, prefill_thpt_per_gpu",
	} {
		if _, err := ReadSwept("testdata/numpy/"+name+".npz", LoadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}
