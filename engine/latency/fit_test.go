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
		if f.Source == "" || len(f.Rows) == 0 {
			t.Errorf("%s does not say where it comes from", name)
		}
		for what, h := range map[string]Held{
			"the same": {f.TTFT, f.TPOT}, "other TP": f.OtherTP, "other model": f.OtherModel,
			"other GPU": f.OtherGPU, "other version": f.OtherVersion, "six points": f.SixPoints,
		} {
			for _, e := range []Error{h.TTFT, h.TPOT} {
				if e.N <= 0 || e.Basis == "" || e.Median <= 0 || e.P90 < e.Median {
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
	for _, tc := range []struct {
		model, gpu string
		config     engine.Config
		than       Error
	}{
		{"qwen3-32b", "h100-sxm", tp(1), f.OtherTP.TPOT},
		{"qwen3-32b", "h100-sxm", engine.Config{Parallelism: engine.Parallelism{TP: 4, PP: 2}}, f.OtherTP.TPOT},
		{"llama-3.1-8b", "h100-sxm", tp(4), f.OtherModel.TPOT},
		{"qwen3-32b", "h200", tp(4), f.OtherGPU.TPOT},
	} {
		got := at(f, tc.model, tc.gpu, tc.config)
		if got.Median < max(tc.than.Median, f.TPOT.Median) || got.P90 < max(tc.than.P90, f.TPOT.P90) || got.Basis != tc.than.Basis {
			t.Errorf("%s on %s at %s: %+v is narrower than %+v", tc.model, tc.gpu, tc.config.Parallelism.Label(), got, tc.than)
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
