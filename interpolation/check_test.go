package interpolation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

func codes(w []profile.Warning) []string {
	var c []string
	for _, x := range w {
		c = append(c, x.Code)
	}
	return c
}

func find(w []profile.Warning, code string) string {
	for _, x := range w {
		if x.Code == code {
			return x.Message
		}
	}
	return ""
}

// h200Facts: 8.03e9 parameters, FP8 dense peak of an H200 SXM 1979 TFLOP/s
// (NVIDIA H200 data sheet, half of the figure with sparsity, 2024-11).
var h200Facts = Facts{Params: 8.03e9, PeakFLOPS: 1979e12, GPUs: 1}

func TestCheckH200(t *testing.T) {
	p, d, _ := loadH200(t)
	if w := CheckPrefill(p, h200Facts); w != nil {
		t.Errorf("prefill: %v", w)
	}
	if w := CheckPrefill(p, Facts{}); w != nil {
		t.Errorf("prefill, nothing known: %v", w)
	}
	w := CheckDecode(d, h200Facts)
	if got, want := codes(w), []string{CodeWild, CodeUnmeasuredKV, CodeITLNotRising, CodeThroughputClash}; !slices.Equal(got, want) {
		t.Fatalf("decode: %v, want %v", got, want)
	}
	if m := find(w, CodeUnmeasuredKV); m != "KV usage was measured only up to 0.58 at context 350" {
		t.Error(m)
	}
	// The three mislabelled rows by far; two more are past the 5 % by a little.
	clash := find(w, CodeThroughputClash)
	want := "throughput and KV usage disagree by more than 5 %: " +
		"row 6 by 49 % (context 350: 1573 in flight by KV usage, 808 by throughput times ITL), " +
		"row 5 by 40 % (context 350: 1311 in flight by KV usage, 788 by throughput times ITL), " +
		"row 4 by 14 % (context 350: 1049 in flight by KV usage, 900 by throughput times ITL), " +
		"row 18 by 7 % (context 5644: 105 in flight by KV usage, 98 by throughput times ITL), " +
		"row 40 by 5 % (context 13585: 67 in flight by KV usage, 64 by throughput times ITL)"
	if clash != want {
		t.Errorf("got  %s\nwant %s", clash, want)
	}
}

// TestUpstreamProfileWrongByTenfold: prompts that the tokenizer made ten times
// shorter than said give a profile that agrees with itself.
func TestUpstreamProfileWrongByTenfold(t *testing.T) {
	p, _, _ := loadH200(t)
	for i := range p.Samples {
		p.Samples[i].TTFT /= 10
		p.Samples[i].ThroughputPerGPU *= 10
	}
	w := CheckPrefill(p, h200Facts)
	if got := codes(w); !slices.Equal(got, []string{CodeFLOPS}) {
		t.Errorf("warnings %v", w)
	}
	var flat profile.PrefillSurface
	for isl := 1000; isl <= 16000; isl += 1000 { // 100 to 1600 tokens in truth
		flat.Samples = append(flat.Samples, profile.PrefillSample{ISL: isl, TTFT: 19*time.Millisecond + time.Duration(isl/10)*13*time.Microsecond})
	}
	w = CheckPrefill(flat, Facts{})
	if got := codes(w); !slices.Equal(got, []string{CodeTTFTFlat}) {
		t.Errorf("warnings %v", w)
	}
}

// Facts of the GPU switched the check for a flat TTFT off.
func TestDefectFactsHideFlatTTFT(t *testing.T) {
	of := func(floor, perToken float64) (s profile.PrefillSurface) {
		for isl := 1117; isl <= 16372; isl += 1017 {
			ttft := floor + perToken*float64(isl)
			s.Samples = append(s.Samples, profile.PrefillSample{ISL: isl, TTFT: time.Duration(ttft * 1e6), ThroughputPerGPU: float64(isl) / ttft * 1e3})
		}
		return s
	}
	slow := func(s profile.PrefillSurface) profile.PrefillSurface {
		s.Samples[0].TTFT = 498 * time.Millisecond
		return s
	}
	small := Facts{GPUs: 1, Params: 5e8, PeakFLOPS: 989e12}
	for name, c := range map[string]struct {
		s    profile.PrefillSurface
		f    Facts
		want bool
	}{
		"no facts":              {of(400, 0.001), Facts{}, true},
		"facts":                 {of(400, 0.001), h200Facts, true},
		"a small model plateau": {of(20, 0.0001), small, false},
		"a small model":         {of(20, 0.0015), small, false},
		"a slow first sample":   {slow(of(20, 0.03)), h200Facts, false},
		"slow and flat":         {slow(of(400, 0.001)), Facts{}, true},
	} {
		if got := codes(CheckPrefill(c.s, c.f)); slices.Contains(got, CodeTTFTFlat) != c.want || slices.Contains(got, CodeFLOPS) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCheckPrefillFewAndFalling(t *testing.T) {
	s := profile.PrefillSurface{Samples: []profile.PrefillSample{
		{ISL: 100, TTFT: 20 * time.Millisecond}, {ISL: 1000, TTFT: 60 * time.Millisecond}, {ISL: 2000, TTFT: 40 * time.Millisecond},
	}}
	w := CheckPrefill(s, Facts{})
	if got := codes(w); !slices.Equal(got, []string{CodeFewPoints, CodeTTFTNotRising}) || !strings.Contains(w[1].Message, "ISL 2000") {
		t.Errorf("warnings %v", w)
	}
}

func TestCheckDecodeShortAndFull(t *testing.T) {
	e := affine{a: 5e6, b: 1e4, k: 1}
	s := e.grid([]float64{3000}, 3, 400000, func(float64) float64 { return 64 })
	want := []string{CodeFewPoints, CodeOneContext, CodeUnmeasuredKV}
	if w := CheckDecode(s, Facts{GPUs: 1}); !slices.Equal(codes(w), want) {
		t.Errorf("warnings %v, want %v", w, want)
	}
	if w := CheckDecode(s, Facts{GPUs: 1, MaxNumSeqs: 64}); slices.Contains(codes(w), CodeUnmeasuredKV) {
		t.Errorf("an engine at its limit of sequences is fully measured: %v", w)
	}
	over := e.grid([]float64{1000, 3000}, 4, 400000, func(c float64) float64 { return 1.5 * 400000 / c })
	if w := CheckDecode(over, Facts{GPUs: 1}); !slices.Equal(codes(w), []string{CodeKVAboveOne}) {
		t.Errorf("warnings %v", w)
	}
	percent := profile.DecodeSurface{Samples: slices.Clone(over.Samples), MaxKVTokens: over.MaxKVTokens}
	for i := range percent.Samples {
		percent.Samples[i].KVUsage *= 100
	}
	if w := CheckDecode(percent, Facts{}); len(profile.Implausible(w)) != 1 || slices.Contains(codes(w), CodeKVAboveOne) || !strings.Contains(profile.Implausible(w)[0].Message, " uses 150 times what the cache holds") {
		t.Errorf("warnings %v", w)
	}
	for i := range over.Samples {
		over.Samples[i].ThroughputPerGPU *= 1e6
	}
	if w := CheckDecode(over, Facts{GPUs: 1, Params: 8e9, PeakFLOPS: 1e15}); !slices.Contains(codes(w), CodeFLOPS) || !slices.Contains(codes(w), CodeThroughputClash) {
		t.Errorf("warnings %v", w)
	}
}

// An ITL that was measured loosely, as one far from every limit is, does not fall
// with the load because of its noise.
func TestNoiseIsNoFall(t *testing.T) {
	const kv, context = 400_000, 3000
	surface := func(half time.Duration) profile.DecodeSurface {
		s := profile.DecodeSurface{MaxKVTokens: kv}
		for i, micros := range []int{3700, 3500, 5000, 7000} {
			n, itl := 1+21*float64(i), time.Duration(micros)*time.Microsecond
			p := profile.DecodeSample{KVUsage: n * context / kv, Context: context, ITL: itl, ThroughputPerGPU: n / itl.Seconds()}
			if i == 0 {
				p.Half = half
			}
			s.Samples = append(s.Samples, p)
		}
		return s
	}
	for half, want := range map[time.Duration]bool{0: true, 100 * time.Microsecond: true, 310 * time.Microsecond: false} {
		if got := slices.Contains(codes(CheckDecode(surface(half), Facts{GPUs: 1})), CodeITLNotRising); got != want {
			t.Errorf("3.7 ± %v ms, then 3.5 ms: said to fall %v", half, got)
		}
	}
}
