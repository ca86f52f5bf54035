package plots

import (
	"bytes"
	"errors"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/interpolation"
	"plimsoll/profile"
)

type pictureCase struct {
	name string
	make func() (*Picture, error)
}

// six are the pictures of a profile.
func six() []pictureCase {
	one := caption()
	one.Configuration = "TP:1"
	pick := &Mark{KVUsage: 0.43, Context: 3075, Label: "TP:1 n=56"}
	return []pictureCase{
		{"prefill_performance", func() (*Picture, error) {
			c := caption()
			c.Note = "TP:8 was left out: this machine has 4 GPUs"
			return PrefillPerformance(c, prefillCandidates())
		}},
		{"decode_performance", func() (*Picture, error) { return DecodePerformance(caption(), decodeCandidates()) }},
		{"prefill_ttft_interpolation", func() (*Picture, error) {
			return PrefillTTFTInterpolation(one, prefillSurface(), ttftCurve(), Beside{})
		}},
		{"prefill_throughput_interpolation", func() (*Picture, error) {
			return PrefillThroughputInterpolation(one, prefillSurface(), throughputCurve(), ttftCurve(), Beside{})
		}},
		{"decode_itl_interpolation", func() (*Picture, error) {
			return DecodeITLInterpolation(one, decodeSurface(), itlSurface(), pick)
		}},
		{"decode_throughput_interpolation", func() (*Picture, error) {
			return DecodeThroughputInterpolation(one, decodeSurface(), throughputSurface(), itlSurface(), pick)
		}},
	}
}

func (k pictureCase) picture(t *testing.T) *Picture {
	t.Helper()
	p, err := k.make()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func svg(t testing.TB, p *Picture) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEveryPictureIsWhole(t *testing.T) {
	for _, k := range append(six(), degenerate()...) {
		t.Run(k.name, func(t *testing.T) {
			p := k.picture(t)
			show(t, k.name, p)
			checkTexts(t, texts(t, svg(t, p)))
		})
	}
}

func TestPNGIs1200By800(t *testing.T) {
	var b bytes.Buffer
	if err := six()[0].picture(t).WritePNG(&b); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if s := img.Bounds().Size(); s.X != 1200 || s.Y != 800 {
		t.Errorf("PNG is %v, want 1200 × 800", s)
	}
}

func TestSameInputSameBytes(t *testing.T) {
	for _, k := range six() {
		t.Run(k.name, func(t *testing.T) {
			p, q := k.picture(t), k.picture(t)
			first := svg(t, p)
			if again := svg(t, p); again != first {
				t.Error("the same picture gave two different SVGs")
			}
			if other := svg(t, q); other != first {
				t.Error("two pictures of one input gave different SVGs")
			}
			if k.name != "prefill_performance" && k.name != "decode_itl_interpolation" {
				return // a PNG takes its time, and is painted as the SVG is
			}
			var a, b bytes.Buffer
			if err := errors.Join(p.WritePNG(&a), q.WritePNG(&b)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Error("two pictures of one input gave different PNGs")
			}
		})
	}
}

// payload is an embedded image: its bytes depend on the compressor's version.
var (
	payload = regexp.MustCompile(`base64,[^"]+`)
	numeral = regexp.MustCompile(`-?\d+(\.\d+)?(e[-+]?\d+)?`)
)

func TestGolden(t *testing.T) {
	for _, k := range append(six(), timelines()[:2]...) {
		t.Run(k.name, func(t *testing.T) {
			got := payload.ReplaceAllString(svg(t, k.picture(t)), "base64,-")
			path := filepath.Join("testdata", k.name+".svg.golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if why := differs(got, string(want)); why != "" {
				t.Errorf("%s: %s\nlook at it with -look DIR; if it is right, rewrite it with -update", path, why)
			}
		})
	}
}

// differs says where two documents differ by more than a hundredth of a point:
// processors that fuse multiplications round differently.
func differs(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		x, y := numeral.FindAllString(a[i], -1), numeral.FindAllString(b[i], -1)
		same := len(x) == len(y) && numeral.ReplaceAllString(a[i], "#") == numeral.ReplaceAllString(b[i], "#")
		for j := 0; same && j < len(x); j++ {
			p, _ := strconv.ParseFloat(x[j], 64)
			q, _ := strconv.ParseFloat(y[j], 64)
			same = math.Abs(p-q) <= 0.011
		}
		if !same {
			return "line " + strconv.Itoa(i+1) + ":\n got " + a[i] + "\nwant " + b[i]
		}
	}
	if len(a) != len(b) {
		return strconv.Itoa(len(a)) + " lines, want " + strconv.Itoa(len(b))
	}
	return ""
}

func TestWordsOnThePictures(t *testing.T) {
	everywhere := []string{
		"SIMULATED — not measured on a GPU", "SIMULATED",
		"meta-llama/Llama-3.1-8B-Instruct", "H100 SXM 80GB", "embedded engine",
		"ISL 3,000 tokens · OSL 150 tokens · SLA: mean TTFT ≤ 200 ms, mean ITL ≤ 20 ms",
	}
	want := map[string][]string{
		"prefill_performance":              {"TP:1 (picked)", "TP:2", "TP:4", "SLA TTFT 200 ms (mean)", "TTFT (ms, mean)", "Prefill throughput (prompt tokens/s/GPU)", "95 % confidence interval", "feasible: TTFT ≤ 200 ms", "TP:8 was left out: this machine has 4 GPUs"},
		"decode_performance":               {"TP:1 n=56 (picked)", "TP:1 n=64", "TP:2 n=64", "TP:4 n=64", "n=16", "SLA ITL 20 ms (mean)", "fails the SLA", "ITL (ms, mean)", "Decode throughput (output tokens/s/GPU)"},
		"prefill_ttft_interpolation":       {"SLA TTFT 200 ms (mean)", "target ISL 3,000", "69.28 ms", "simulated samples", "interpolation", "TP:1"},
		"prefill_throughput_interpolation": {"SLA TTFT 200 ms (mean) at ISL 8,187", "target ISL 3,000", "43,303 tokens/s/GPU"},
		"decode_itl_interpolation":         {"SLA ITL 20 ms (mean)", "TP:1 n=56 (picked)", "ITL (ms, mean)", "not sampled: left blank", "KV cache usage (fraction of 400,000 tokens)", "Context of a running sequence (tokens)"},
		"decode_throughput_interpolation":  {"SLA ITL 20 ms (mean)", "TP:1 n=56 (picked)", "Throughput (output tokens/s/GPU)", "not sampled: left blank"},
	}
	for _, k := range six() {
		all := svg(t, k.picture(t))
		for _, w := range append(everywhere, want[k.name]...) {
			if !strings.Contains(all, w) {
				t.Errorf("%s does not say %q", k.name, w)
			}
		}
	}
}

// A profile's surfaces are of means, whatever the SLA is held against.
func TestSurfacesAreOfMeans(t *testing.T) {
	c := caption()
	c.SLA.Stat = profile.P99
	ttft, err := PrefillTTFTInterpolation(c, prefillSurface(), ttftCurve(), Beside{})
	if err != nil {
		t.Fatal(err)
	}
	itl, err := DecodeITLInterpolation(c, decodeSurface(), itlSurface(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for axis, p := range map[string]*Picture{"TTFT (ms, mean)": ttft, "ITL (ms, mean)": itl} {
		for _, w := range []string{axis, "ms (p99)", "Samples are means: they show where the mean, not p99, meets the SLA."} {
			if !strings.Contains(svg(t, p), w) {
				t.Errorf("%s: it does not say %q", axis, w)
			}
		}
	}
}

func TestProvenanceIsUnmissable(t *testing.T) {
	for pv, words := range map[profile.Provenance][]string{
		profile.Measured:  {"measured: a real engine answered"},
		profile.Simulated: {"SIMULATED — not measured on a GPU", ">SIMULATED<"},
		profile.Estimated: {"ESTIMATED — computed by a latency model, not measured", ">ESTIMATED<"},
		profile.Published: {"PUBLISHED — a rule of thumb from a table, not measured", ">PUBLISHED<"},
	} {
		c := caption()
		c.Provenance = pv
		p, err := PrefillPerformance(c, prefillCandidates())
		if err != nil {
			t.Fatal(err)
		}
		doc := svg(t, p)
		for _, w := range words {
			if !strings.Contains(doc, w) {
				t.Errorf("%v: no %q", pv, w)
			}
		}
		if pv == profile.Measured && strings.Contains(doc, "fill-opacity:0.09") {
			t.Error("a measured picture has a watermark")
		}
		if pv != profile.Measured && strings.Contains(doc, "measured: a real engine") {
			t.Errorf("%v: looks measured", pv)
		}
	}
}

// The surface may be weaker than the caption says; the picture then is too.
func TestWeakestProvenanceIsShown(t *testing.T) {
	c, s := caption(), decodeSurface()
	c.Provenance, s.Provenance = profile.Measured, profile.Estimated
	p, err := DecodeITLInterpolation(c, s, itlSurface(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if doc := svg(t, p); !strings.Contains(doc, "ESTIMATED — ") {
		t.Error("an estimated surface is not called estimated")
	}
}

func TestNothingMeetsTheSLA(t *testing.T) {
	for _, k := range degenerate() {
		doc := svg(t, k.picture(t))
		switch {
		case strings.HasPrefix(k.name, "nothing_meets"):
			for _, w := range []string{"NOTHING MEETS THE SLA: nearest shown", "(nearest to the SLA)"} {
				if !strings.Contains(doc, w) {
					t.Errorf("%s does not say %q", k.name, w)
				}
			}
		case strings.HasPrefix(k.name, "zero_"):
			for _, w := range []string{"NOTHING MEETS THE SLA: no points", "no points: TP:4 failed to start"} {
				if !strings.Contains(doc, w) {
					t.Errorf("%s does not say %q", k.name, w)
				}
			}
		case strings.Contains(doc, "NOTHING MEETS"):
			t.Errorf("%s says that nothing meets the SLA", k.name)
		}
	}
}

func TestMapWithoutAnSLALineSaysWhy(t *testing.T) {
	want := map[string]string{"nothing_meets_map": "nowhere here", "flat_surface": "everywhere here"}
	for _, k := range degenerate() {
		if w := want[k.name]; !strings.Contains(svg(t, k.picture(t)), w) {
			t.Errorf("%s does not say that the SLA is met %s", k.name, w)
		}
	}
}

func TestRefusals(t *testing.T) {
	bad := func(change func(*Candidate)) error {
		cs := prefillCandidates()
		change(&cs[2])
		_, p := PrefillPerformance(caption(), cs)
		_, d := DecodePerformance(caption(), cs)
		if (p == nil) != (d == nil) {
			t.Errorf("prefill gave %v, decode %v", p, d)
		}
		return p
	}
	withSample := func(d profile.DecodeSample) error {
		s := decodeSurface()
		s.Samples[7] = d
		_, err := DecodeITLInterpolation(caption(), s, itlSurface(), nil)
		return err
	}
	withPrefill := func(d profile.PrefillSample) error {
		s := prefillSurface()
		s.Samples[3] = d
		_, err := PrefillTTFTInterpolation(caption(), s, nil, Beside{})
		return err
	}
	withCaption := func(change func(*Caption)) error {
		c := caption()
		change(&c)
		_, err := PrefillPerformance(c, nil)
		return err
	}
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		err  error
		want string
	}{
		{bad(func(k *Candidate) { k.ThroughputPerGPU = nan }), `series "TP:4": throughput per GPU is NaN`},
		{bad(func(k *Candidate) { k.ThroughputPerGPU = inf }), `series "TP:4": throughput per GPU is +Inf`},
		{bad(func(k *Candidate) { k.Interval.High = inf }), `series "TP:4": upper end of throughput per GPU is +Inf`},
		{bad(func(k *Candidate) { k.InFlight = nan }), `series "TP:4": in-flight count is NaN`},
		{bad(func(k *Candidate) { k.Latency = -time.Millisecond }), `series "TP:4": TTFT in ms is -1`},
		{bad(func(k *Candidate) { k.Low, k.High = 2, 1 }), `series "TP:4": an interval's lower end is above its upper end`},
		{bad(func(k *Candidate) { k.ThroughputPerGPU = 1e16 }), "want 0 to 1e+15"},
		{withSample(profile.DecodeSample{KVUsage: nan, Context: 2925}), `series "sample 7 of context 2,925": KV usage is NaN`},
		{withSample(profile.DecodeSample{KVUsage: 0.5, Context: inf}), `context is +Inf`},
		{withSample(profile.DecodeSample{KVUsage: 0.5, Context: 1, ITL: -1}), `ITL in ms is -1e-06`},
		{withPrefill(profile.PrefillSample{ISL: 5, ThroughputPerGPU: nan}), `series "ISL 5": throughput per GPU is NaN`},
		{withPrefill(profile.PrefillSample{ISL: -5}), `series "ISL -5": ISL is -5`},
		{withCaption(func(c *Caption) { c.Provenance = 9 }), "invalid provenance 9"},
		{withCaption(func(c *Caption) { c.SLA.TTFT = -1 }), "want none below 0"},
		{withCaption(func(c *Caption) { c.ISL = -1 }), "want none below 0"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", c.err, c.want)
		}
	}
}

// A fit that claims to know a value and gives none is refused; one that says
// that it does not know may give anything.
func TestBrokenFits(t *testing.T) {
	nan := func(float64) (float64, bool) { return math.NaN(), true }
	if _, err := PrefillTTFTInterpolation(caption(), prefillSurface(), nan, Beside{}); !errors.Is(err, errNotANumber) {
		t.Errorf("a fit of NaN gave %v", err)
	}
	flat := func(_, _ float64) (float64, bool) { return math.Inf(1), true }
	if _, err := DecodeITLInterpolation(caption(), decodeSurface(), flat, nil); !errors.Is(err, errNotANumber) {
		t.Errorf("a surface of +Inf gave %v", err)
	}
	unsure := func(float64) (float64, bool) { return math.NaN(), false }
	p, err := PrefillThroughputInterpolation(caption(), prefillSurface(), unsure, unsure, Beside{})
	if err != nil {
		t.Fatal(err)
	}
	checkTexts(t, texts(t, svg(t, p)))
	nowhere := func(_, _ float64) (float64, bool) { return math.NaN(), false }
	if p, err = DecodeThroughputInterpolation(caption(), decodeSurface(), nowhere, nowhere, nil); err != nil {
		t.Fatal(err)
	}
	checkTexts(t, texts(t, svg(t, p)))
}

func TestFitsSayWhatTheInterpolationSays(t *testing.T) {
	pf, err := interpolation.FitPrefill(prefillSurface())
	if err != nil {
		t.Fatal(err)
	}
	df, err := interpolation.FitDecode(decodeSurface(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []float64{50, 3000, 20000} {
		v, in := TTFTCurve(pf)(x)
		w := pf.TTFT(x)
		if v != w.Value.Seconds()*1000 && math.Abs(v-w.Value.Seconds()*1000) > 1e-9 || in != w.InRange {
			t.Errorf("TTFT at %g: %g %t, want %v %t", x, v, in, w.Value, w.InRange)
		}
		r, in := PrefillThroughputCurve(pf)(x)
		if w := pf.ThroughputPerGPU(x); r != w.Value || in != w.InRange {
			t.Errorf("prefill throughput at %g: %g %t, want %v", x, r, in, w)
		}
	}
	for _, x := range [][2]float64{{0.3, 3000}, {0.9, 3000}, {0.5, 20000}} {
		v, in := ITLSurface(df)(x[0], x[1])
		if w := df.ITL(x[0], x[1]); math.Abs(v-w.Value.Seconds()*1000) > 1e-9 || in != w.InRange {
			t.Errorf("ITL at %v: %g %t, want %v", x, v, in, w)
		}
		r, in := DecodeThroughputSurface(df)(x[0], x[1])
		if w := df.ThroughputPerGPU(x[0], x[1]); r != w.Value || in != w.InRange {
			t.Errorf("decode throughput at %v: %g %t, want %v", x, r, in, w)
		}
	}
}

func TestBrokenWriter(t *testing.T) {
	p := six()[0].picture(t)
	if err := p.WritePNG(failing{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("WritePNG gave %v", err)
	}
	if err := p.WriteSVG(failing{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("WriteSVG gave %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }
