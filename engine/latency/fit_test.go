package latency

import (
	"strings"
	"testing"

	"plimsoll/engine"
)

func TestShippedFits(t *testing.T) {
	fits := Fits()
	for _, name := range []string{"vllm", "vllm-0.15.1", "vllm-0.12", "vllm-fp8", "trtllm-1.0.0rc3", "vllm-2023"} {
		f, err := FitByName(strings.ToUpper(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Coefficients.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f.Source == "" || len(f.Rows) == 0 || f.Longest < 1000 {
			t.Errorf("%s does not say where it comes from", name)
		}
		for what, h := range map[string]Held{
			"the same": {f.TTFT, f.TPOT}, "other TP": f.OtherTP, "other model": f.OtherModel,
			"other GPU": f.OtherGPU, "other version": f.OtherVersion, "six points": f.SixPoints,
		} {
			for _, e := range []Error{h.TTFT, h.TPOT} {
				if e.N <= 0 || e.Basis == "" || e.Median <= 0 || e.P90 < e.Median || e.Factor50 < 1+e.Median/(1+e.Median) || e.Factor90 < e.Factor50 || e.Factor90 < 1+0.5*e.P90 {
					t.Errorf("%s, %s: %+v", name, what, e)
				}
			}
		}
	}
	if DefaultFit().Name != fits[0].Name || DefaultFit().Version != "" {
		t.Errorf("the default is %+v", DefaultFit())
	}
	fits[0].Rows[0].Model = "spoilt"
	if Fits()[0].Rows[0].Model == "spoilt" {
		t.Error("a caller can change what ships")
	}
	if _, err := FitByName("vllm-9"); err == nil || !strings.Contains(err.Error(), `unknown fit "vllm-9": want one of vllm, vllm-0.15.1`) {
		t.Errorf("got %v", err)
	}
}

// The further from its rows, the wider; the basis says why.
func TestErrorsWiden(t *testing.T) {
	f, err := FitByName("vllm-0.12") // Qwen3-32B on H100-SXM at TP2, 4, 8
	if err != nil {
		t.Fatal(err)
	}
	at := func(f Fit, model, gpu string, c engine.Config) Error {
		m := on(t, model, gpu, c)
		m, err := NewWith(m.about.model, m.about.gpu, m.about.config, f)
		if err != nil {
			t.Fatal(err)
		}
		if m.Fit().Name != f.Name {
			t.Errorf("the model's fit is %q", m.Fit().Name)
		}
		return m.ITLError()
	}
	tp := func(n int) engine.Config { return engine.Config{Parallelism: engine.TP(n)} }
	if got := at(f, "qwen3-32b", "h100-sxm", tp(4)); got != f.TPOT {
		t.Errorf("a row like it: %+v, want leave-one-out %+v", got, f.TPOT)
	}
	pp := engine.Config{Parallelism: engine.Parallelism{TP: 4, PP: 2}}
	fp8 := engine.Config{Parallelism: engine.TP(4), Weights: engine.FP8}
	kv8 := engine.Config{Parallelism: engine.TP(4), KV: engine.FP8}
	for _, tc := range []struct {
		model, gpu string
		config     engine.Config
		unlike     []Error
	}{
		{"qwen3-32b", "h100-sxm", tp(1), []Error{f.OtherTP.TPOT}},
		{"qwen3-32b", "h100-sxm", pp, []Error{f.OtherTP.TPOT}},
		{"llama-3.1-8b", "h100-sxm", tp(4), []Error{f.OtherModel.TPOT}},
		{"qwen3-32b", "h200", tp(4), []Error{f.OtherGPU.TPOT}},
		{"qwen3-32b", "h100-sxm", fp8, []Error{f.OtherVersion.TPOT}},
		{"qwen3-32b", "h100-sxm", kv8, []Error{f.OtherVersion.TPOT}},
		{"llama-3.1-8b", "h200", tp(1), []Error{f.OtherModel.TPOT, f.OtherGPU.TPOT, f.OtherTP.TPOT}},
	} {
		got := at(f, tc.model, tc.gpu, tc.config)
		for _, than := range append(tc.unlike, f.TPOT) {
			if got.Median < than.Median || got.P90 < than.P90 || got.Factor50 < than.Factor50 || got.Factor90 < than.Factor90 {
				t.Errorf("%s on %s at %s: %+v is narrower than %+v", tc.model, tc.gpu, tc.config.Parallelism.Label(), got, than)
			}
			if len(tc.unlike) > 1 && got.Factor90 <= than.Factor90 {
				t.Errorf("unlike in several ways: %+v is no wider than %+v", got, than)
			}
		}
		for _, than := range tc.unlike {
			if !strings.Contains(got.Basis, than.Basis) {
				t.Errorf("basis %q does not name %q", got.Basis, than.Basis)
			}
		}
	}
	d := DefaultFit()
	got := at(d, "qwen3-32b", "h100-sxm", tp(4))
	if got.Median < d.OtherVersion.TPOT.Median || !strings.Contains(got.Basis, "other engine versions") {
		t.Errorf("an unknown version: %+v, want at least %+v", got, d.OtherVersion.TPOT)
	}
	if m := on(t, "qwen3-32b", "h100-sxm", tp(4)); m.TTFTError().Median < d.OtherVersion.TTFT.Median {
		t.Errorf("TTFT of an unknown version: %+v", m.TTFTError())
	}
}

// An engine gets the fit to its version, else that of its nearest one, which says so
// and is as far off as on a version that it has not seen; an engine without any gets the
// default.
func TestFitFor(t *testing.T) {
	if f := FitFor(engine.KindVLLM, "2023"); f.Name != "vllm-2023" || f.Other {
		t.Errorf("a year: %s", f.Name)
	}
	for _, tt := range []struct {
		kind          engine.Kind
		version, want string
		other         bool
	}{
		{"vllm", "0.15.1", "vllm-0.15.1", false},
		{"vllm", "v0.12", "vllm-0.12", false},
		{"vllm", "0.13.0", "vllm-0.12 for vllm 0.13.0", true},
		{"vllm", "0.19.1", "vllm-0.15.1 for vllm 0.19.1", true},
		{"vllm", "1.2", "vllm-0.15.1 for vllm 1.2", true},
		{"vllm", "", "vllm", false},
		{"vllm", "nightly", "vllm", false},
		{"trtllm", "1.0.0rc3", "trtllm-1.0.0rc3", false},
		{"trtllm", "1.2", "trtllm-1.0.0rc3 for trtllm 1.2", true},
		{"trtllm", "", "trtllm-1.0.0rc3 for trtllm", true},
		{"sglang", "0.5.9", "vllm for sglang 0.5.9", true},
		{"", "", "vllm", false},
	} {
		f := FitFor(tt.kind, tt.version)
		if f.Name != tt.want || f.Other != tt.other || tt.other && (f.Engine != string(tt.kind) || f.Version != tt.version) {
			t.Errorf("%s %q: %s of %s %q, other %v", tt.kind, tt.version, f.Name, f.Engine, f.Version, f.Other)
		}
		base, err := FitByName(strings.Split(f.Name, " for ")[0])
		if err != nil || f.Coefficients != base.Coefficients {
			t.Errorf("%s: %v", f.Name, err)
		}
		row := f.Rows[0] // on which nothing else is unlike
		m := on(t, row.Model, row.GPU, engine.Config{Parallelism: engine.TP(row.TP), Weights: row.Weights})
		if m, err = NewWith(m.about.model, m.about.gpu, m.about.config, f); err != nil {
			t.Fatal(err)
		}
		if e := m.ITLError(); tt.other && e.Factor90 < f.OtherVersion.TPOT.Factor90 || f.Version != "" && !tt.other && e != f.TPOT {
			t.Errorf("%s: an error of %+v", f.Name, e)
		}
		k, _, err := Calibrate(f, points(t, f.Coefficients, "llama-3.1-8b", engine.BF16)[:8])
		if err != nil || k.Other || k.Version != f.Version {
			t.Errorf("%s, calibrated: %v, %+v", f.Name, err, k)
		}
	}
}

// What is known of a version is what its engine does, whichever rows stand for it.
func TestFitForSchedulesAsTheVersion(t *testing.T) {
	does := func(version string) (async, reserve bool) {
		m := on(t, "llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.TP(1)})
		m, err := NewWith(m.about.model, m.about.gpu, m.about.config, FitFor(engine.KindVLLM, version))
		if err != nil {
			t.Fatal(err)
		}
		return m.AsyncScheduling(), m.ReserveFullPrompt()
	}
	for version, want := range map[string][2]bool{"0.13.0": {false, false}, "0.15.1": {true, false}, "0.19.1": {true, true}, "nightly": {true, true}} {
		if async, reserve := does(version); async != want[0] || reserve != want[1] {
			t.Errorf("vllm %s schedules ahead: %v, waits for a whole prompt's blocks: %v; want %v", version, async, reserve, want)
		}
	}
}
