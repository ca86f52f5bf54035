package latency

import (
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/operator"
)

// Each fit that ships says where it comes from and how far off it is, for all that it
// claims to know.
func TestShippedFits(t *testing.T) {
	fits := Fits()
	for _, f := range fits {
		if f.Source == "" || f.Longest < 1000 || f.LongestTTFT < 1000 || len(f.Groups) == 0 {
			t.Errorf("%s does not say where it comes from", f.Name)
		}
		errors := map[string]Error{"dense TPOT": f.Dense.TPOT, "dense TTFT": f.Dense.TTFT, "experts TPOT": f.Experts.TPOT, "experts TTFT": f.Experts.TTFT, "no kernels": f.NoKernels.TPOT, "six points": f.SixPoints.TPOT}
		coefficients := map[string]Coefficients{"engine": f.Coefficients}
		for _, g := range f.Groups {
			name := g.Model + " " + g.GPU + " " + string(g.Weights)
			errors[name+" TPOT"], errors[name+" TTFT"], coefficients[name] = g.TPOT, g.TTFT, g.Coefficients
		}
		for what, e := range errors {
			if e.N <= 0 || e.Basis == "" || e.Median <= 0 || e.P90 < e.Median || e.Factor50 < 1 || e.Factor90 < e.Factor50 {
				t.Errorf("%s, %s: %+v", f.Name, what, e)
			}
		}
		for what, k := range coefficients {
			if err := k.Check(); err != nil {
				t.Errorf("%s, %s: %v", f.Name, what, err)
			}
		}
	}
	fits[0].Groups[0].Model = "spoilt"
	if Fits()[0].Groups[0].Model == "spoilt" {
		t.Error("a caller can change what ships")
	}
}

// An engine gets its fit, and vLLM before it scheduled ahead one of its own; an engine
// without any gets the default.
func TestFitFor(t *testing.T) {
	for _, tt := range []struct {
		kind          engine.Kind
		version, name string
		of            string
	}{
		{"vllm", "0.15.1", "vllm-0.15.1", "vllm"},
		{"vllm", "v0.12", "vllm-0.12", "vllm-0.12"},
		{"vllm", "0.13.0", "vllm-0.13.0", "vllm-0.12"},
		{"vllm", "0.14", "vllm-0.14", "vllm"},
		{"vllm", "", "vllm", "vllm"},
		{"vllm", "nightly", "vllm", "vllm"},
		{"trtllm", "1.0.0rc3", "trtllm-1.0.0rc3", "trtllm"},
		{"sglang", "", "sglang", "sglang"},
		{"tgi", "3.0", "vllm for tgi 3.0", "vllm"},
		{"", "", "vllm", "vllm"},
	} {
		f := FitFor(tt.kind, tt.version)
		var of Fit
		for _, g := range Fits() {
			if g.Name == tt.of {
				of = g
			}
		}
		if f.Name != tt.name || f.Coefficients != of.Coefficients || tt.kind != "" && f.Engine != string(tt.kind) {
			t.Errorf("%s %q: %s of %s, want %s with the coefficients of %s", tt.kind, tt.version, f.Name, f.Engine, tt.name, tt.of)
		}
		if again, err := FitByName(strings.ToUpper(f.Name)); tt.kind != "tgi" && (err != nil || again.Coefficients != f.Coefficients) {
			t.Errorf("%s by name: %v", f.Name, err)
		}
	}
	if _, err := FitByName("tgi-3"); err == nil || !strings.Contains(err.Error(), `unknown fit "tgi-3": want vllm, trtllm or sglang`) {
		t.Errorf("got %v", err)
	}
}

// A model takes what is known of it: of its own group, else of the model on other GPUs,
// else of its engine; and each has its own error, wider where no row is of the version.
func TestFitKnowsItsModels(t *testing.T) {
	f := FitFor("vllm", "0.15.1")
	at := func(model, gpu string, weights engine.DType) Model {
		m := on(t, model, gpu, engine.Config{Parallelism: engine.TP(8), Weights: weights})
		m, err := NewWith(m.about.model, m.about.gpu, m.about.config, f)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	group := func(model, gpu string, weights engine.DType) Group {
		g, ok := f.For(model, gpu, weights)
		if !ok {
			t.Fatalf("no group of %s", model)
		}
		return g
	}
	const llama, small = "meta-llama/Meta-Llama-3.1-70B", "meta-llama/Meta-Llama-3.1-8B"
	for _, tt := range []struct {
		m    Model
		k    Coefficients
		held Held
		also Held // of the version
	}{
		{at("llama-3.1-70b", "h100-sxm", engine.FP8), group(llama, "H100-SXM", engine.FP8).Coefficients, group(llama, "H100-SXM", engine.FP8).Held, f.DenseVersion},
		{at("llama-3.1-70b", "h200", engine.FP8), group(llama, "", "").Coefficients, group(llama, "", "").Held, f.DenseVersion},
		{at("llama-3.1-70b", "h100-sxm", engine.BF16), group(llama, "", "").Coefficients, group(llama, "", "").Held, f.DenseVersion},
		{at("llama-3.1-8b", "h100-sxm", engine.BF16), group(small, "H100-SXM", engine.BF16).Coefficients, group(small, "H100-SXM", engine.BF16).Held, Held{}},
		{at("qwen2.5-72b", "h100-sxm", engine.FP8), f.Coefficients, f.Dense, Held{}},
		{at("mixtral-8x22b", "h200", engine.BF16), f.Coefficients, f.Experts, Held{}},
	} {
		itl, ttft := tt.held.TPOT.unlike(tt.also.TPOT), tt.held.TTFT.unlike(tt.also.TTFT)
		for _, p := range tt.m.about.public() {
			itl = itl.atLeast(p)
		}
		if tt.m.Fit().Coefficients != tt.k || tt.m.ITLError() != itl || tt.m.TTFTError() != ttft {
			t.Errorf("%s on %s: %+v, want %+v", tt.m.about.model.Name, tt.m.about.gpu.Name, tt.m.ITLError(), itl)
		}
	}
	f = FitFor("vllm", "0.15")
	if e := at("mixtral-8x22b", "h200", engine.BF16).ITLError(); e != f.Experts.TPOT.atLeast(PublicExperts) {
		t.Errorf("version 0.15: %+v", e)
	}
	for _, version := range []string{"", "0.99", "nightly"} {
		f = FitFor("vllm", version)
		if e := at("mixtral-8x22b", "h200", engine.BF16).ITLError(); e != f.Experts.TPOT.unlike(f.ExpertsVersion.TPOT).atLeast(PublicExperts) {
			t.Errorf("version %q: %+v", version, e)
		}
	}
	if group(llama, "H100-SXM", engine.FP8).GPU == "" {
		t.Error("70B on H100 has no group: the test tests nothing")
	}
}

// A GPU without measured kernels is further off, and says so.
func TestErrorsWidenWithoutKernels(t *testing.T) {
	if operator.Measured("MI300X") {
		t.Fatal("MI300X has kernels: the test tests nothing")
	}
	config := engine.Config{Parallelism: engine.TP(2)}
	own, other := on(t, "qwen2.5-72b", "b200-sxm", config), on(t, "qwen2.5-72b", "mi300x", config)
	if !own.Own() || other.Own() {
		t.Errorf("B200 measured: %v; MI300X: %v", own.Own(), other.Own())
	}
	f := other.Fit()
	if !f.FromDataSheet("MI300X") || f.FromDataSheet("B200-SXM") {
		t.Errorf("from the data sheet: MI300X %v, B200 %v", f.FromDataSheet("MI300X"), f.FromDataSheet("B200-SXM"))
	}
	f.Groups = append(f.Groups, Group{Model: "another", GPU: "MI300X"})
	if f.FromDataSheet("MI300X") {
		t.Error("MI300X was calibrated on, and yet its times are from the data sheet")
	}
	a, b := own.ITLError(), other.ITLError()
	if b.Factor90 < a.Factor90 || b.Factor90 < own.Fit().NoKernels.TPOT.Factor90 || !strings.Contains(b.Basis, "kernels of the GPU left out") {
		t.Errorf("%+v after %+v", b, a)
	}
}

// No ITL is stated nearer than public rows were, but by points of one's own; where those were
// slower than the model says, that is said.
func TestErrorsOfPublicRows(t *testing.T) {
	for _, tt := range []struct {
		model, gpu    string
		weights       engine.DType
		median, worst float64
		factor        float64
		slower        string
	}{
		{"llama-3.1-70b", "h100-sxm", engine.FP8, 0.10, 0.26, 1.26, ""},
		{"mixtral-8x22b", "h200", engine.BF16, 0.13, 0.41, 1.41, ""},
		{"llama-3.1-70b", "mi300x", engine.FP8, 0.29, 0.29, 1.4, "MLPerf"},
		{"deepseek-v3", "h200", engine.FP8, 0.33, 0.71, 3.4, "DeepSeek"},
		{"deepseek-v3", "mi300x", engine.FP8, 0.33, 0.71, 3.4, "3.4 × slower, and MLPerf"},
	} {
		m := on(t, tt.model, tt.gpu, engine.Config{Parallelism: engine.TP(8), Weights: tt.weights})
		e := m.ITLError()
		if e.Median < tt.median || e.Worst != tt.worst || e.Factor90 < tt.factor || !strings.Contains(m.Optimism(), tt.slower) || (m.Optimism() == "") != (tt.slower == "") {
			t.Errorf("%s on %s: %+v, %q", tt.model, tt.gpu, e, m.Optimism())
		}
	}
	m := on(t, "deepseek-r1", "b200-sxm", engine.Config{Parallelism: engine.TP(8), Weights: engine.FP8})
	m, err := NewWith(m.about.model, m.about.gpu, m.about.config, FitFor("sglang", ""))
	if err != nil || m.Optimism() != "" {
		t.Errorf("rows of R1 on B200 are in the fit: %q, %v", m.Optimism(), err)
	}
}

// What is known of a version is what its engine does.
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
