package interpolation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Facts are what a surface can be held against; 0 means not known.
type Facts struct {
	Params     float64 // parameters that a token passes through (the active ones of a mixture of experts)
	PeakFLOPS  float64 // dense peak of one GPU at the type computed in, FLOP/s
	GPUs       int     // of the engine
	MaxNumSeqs int     // the engine's limit on running sequences
}

// The codes of the warnings.
const (
	CodeFewPoints       = "few_points"      // fewer than a cubic needs (upstream's planner fails on them)
	CodeTTFTNotRising   = "ttft_not_rising" // TTFT falls with ISL somewhere
	CodeTTFTFlat        = profile.CodeTTFTFlat
	CodeFLOPS           = profile.CodeFLOPS
	CodeKVUsage         = profile.CodeKVUsage
	CodeOneContext      = "one_context_row"     // nothing is known of other contexts (upstream's planner fails on it)
	CodeUnmeasuredKV    = "unmeasured_kv_range" // loads up to a full KV cache were not measured (upstream fills them in)
	CodeKVAboveOne      = "kv_usage_above_one"  // more tokens in flight than the capacity: requests waited
	CodeThroughputClash = "throughput_mismatch" // throughput times ITL is not the requests in flight
	CodeITLNotRising    = "itl_not_rising"      // ITL falls with load somewhere
	CodeUnevenRows      = "uneven_rows"         // contexts of a row differ, or little load was not measured (upstream's planner interpolates badly)
)

const (
	fewPoints     = 4    // a cubic spline through fewer is not determined
	clash         = 0.05 // relative, of throughput·GPUs·ITL to the requests in flight
	mostKV        = 2    // KV usage beyond which no queue explains it
	measuredKV    = 0.80 // top of a row below which "the full cache" is an extrapolation
	measuredSeqs  = 0.95 // of MaxNumSeqs: the engine cannot be loaded further
	flatFromISL   = 1000 // tokens; below, TTFT is mostly overhead and may be flat
	flatRatio     = 4    // of ISLs, the least span that says anything
	flatExponent  = 0.4  // TTFT ~ ISL^e with e below this is not a prefill: 3× over a 16× span
	launchFloor   = 0.1  // s, assumed, not measured: launching kernels takes less, and may hide a small model's arithmetic
	noiseFall     = 0.02 // relative fall that is noise rather than news
	listedAtMost  = 6    // rows named in a message
	flopsPerParam = 2    // a multiply and an add per parameter and token; attention comes on top
)

// CheckPrefill names what is suspicious in a surface. It proves nothing: a
// profile that is wrong by 10× can agree with itself, since throughput is
// computed from TTFT (upstream shipped one, from prompts of a wrong tokenizer).
func CheckPrefill(s profile.PrefillSurface, f Facts) []profile.Warning {
	var w []profile.Warning
	if n := len(s.Samples); n < fewPoints {
		w = append(w, profile.Warnf(CodeFewPoints, "%s, want at least %d", engine.Count(n, "prefill point"), fewPoints))
	}
	if p, err := FitPrefill(s); err == nil {
		w = append(w, wildWarnings(p.wild, func(i int) string {
			return fmt.Sprintf("TTFT %.4g ms at ISL %d", s.Samples[i].TTFT.Seconds()*1e3, s.Samples[i].ISL)
		})...)
	}
	var falls []string
	var fast tooFast
	for i, p := range s.Samples {
		if i > 0 && float64(p.TTFT) < float64(s.Samples[i-1].TTFT)*(1-noiseFall) {
			falls = append(falls, fmt.Sprintf("ISL %d", p.ISL))
		}
		fast.add(p.ThroughputPerGPU, f, fmt.Sprintf("ISL %d", p.ISL))
	}
	if falls != nil {
		w = append(w, profile.Warnf(CodeTTFTNotRising, "TTFT falls although the prompt is longer at %s", list(falls)))
	}
	if fast.at != nil {
		w = append(w, fast.warning("prefill", f))
	} else {
		w = append(w, flat(s.Samples, f)...)
	}
	return w
}

// tooFast is where throughput is above the GPU's peak.
type tooFast struct {
	most  float64 // tokens/s/GPU
	worst string  // where that is
	at    []string
}

func (t *tooFast) add(tokensPerGPU float64, f Facts, where string) {
	peak := PeakTokens(f)
	if peak <= 0 || tokensPerGPU <= peak {
		return
	}
	if t.at = append(t.at, where); tokensPerGPU > t.most {
		t.most, t.worst = tokensPerGPU, where
	}
}

func (t *tooFast) warning(phase string, f Facts) profile.Warning {
	peak := PeakTokens(f)
	return profile.Warnf(CodeFLOPS,
		"%s throughput is above what the GPU can compute, at %s: %s tokens/s/GPU at %s is %.3g times its peak of %s (%.3g FLOP/s dense, %d·%.3g FLOP per token). Prompts or outputs were shorter than stated, or cached",
		phase, list(t.at), engine.Number(t.most), t.worst, t.most/peak, engine.Number(peak), f.PeakFLOPS, flopsPerParam, f.Params)
}

// PeakTokens is the tokens/s/GPU beyond which a throughput implies more
// arithmetic than the GPU has; 0 where the facts do not say.
func PeakTokens(f Facts) float64 {
	if f.Params <= 0 || f.PeakFLOPS <= 0 {
		return 0
	}
	return f.PeakFLOPS / (flopsPerParam * f.Params)
}

// flat looks for TTFT that hardly grows. A first sample that is slower than the next, such
// as that of an engine's first request, is an outlier.
func flat(samples []profile.PrefillSample, f Facts) []profile.Warning {
	i := slices.IndexFunc(samples, func(p profile.PrefillSample) bool { return p.ISL >= flatFromISL })
	if i < 0 || i == len(samples)-1 {
		return nil
	}
	a, b, next := samples[i], samples[len(samples)-1], samples[i+1]
	if next.TTFT < a.TTFT && float64(b.ISL) >= flatRatio*float64(next.ISL) {
		a = next
	}
	if !levels(a, b, f) {
		return nil
	}
	span, grown := float64(b.ISL)/float64(a.ISL), float64(b.TTFT)/float64(a.TTFT)
	return []profile.Warning{profile.Warnf(CodeTTFTFlat,
		"TTFT hardly grows with ISL: from %.4g ms at ISL %d to %.4g ms at ISL %d, %.1f× for a prompt %.1f× as long (expected: at least %.1f×). Prompts were shorter than stated, or cached",
		profile.Milliseconds(a.TTFT), a.ISL, profile.Milliseconds(b.TTFT), b.ISL, grown, span, math.Pow(span, flatExponent))}
}

// levels reports whether TTFT hardly grows from a to b. Where the peak is known, a short
// floor may hide the prompts' arithmetic, and what TTFT grows by may be all that it takes.
func levels(a, b profile.PrefillSample, f Facts) bool {
	span := float64(b.ISL) / float64(a.ISL)
	if span < flatRatio || float64(b.TTFT)/float64(a.TTFT) >= math.Pow(span, flatExponent) {
		return false
	}
	peak := PeakTokens(f) * float64(max(f.GPUs, 1))
	if peak <= 0 {
		return true
	}
	floor, hidden := a.TTFT.Seconds(), float64(b.ISL)/peak
	return (floor > launchFloor || hidden > floor) && b.TTFT.Seconds()-floor < float64(b.ISL-a.ISL)/peak
}

// CheckDecode names what is suspicious in a surface that FitDecode accepts.
func CheckDecode(s profile.DecodeSurface, f Facts) []profile.Warning {
	var w []profile.Warning
	if n := len(s.Samples); n < fewPoints {
		w = append(w, profile.Warnf(CodeFewPoints, "%s, want at least %d", engine.Count(n, "decode point"), fewPoints))
	}
	d, err := FitDecode(s, max(f.GPUs, 1))
	if err != nil {
		return w // FitDecode says what is wrong
	}
	if len(d.rows) == 1 {
		w = append(w, profile.Warnf(CodeOneContext, "measured only at context %s. Other contexts are unknown; measure at least two", tidy(d.rows[0].context)))
	}
	w = append(w, wildWarnings(d.wild, func(i int) string {
		p := s.Samples[i]
		return fmt.Sprintf("row %d: ITL %.4g ms at context %s with %s in flight", i, p.ITL.Seconds()*1e3, tidy(p.Context), tidy(p.KVUsage*d.maxKV/p.Context))
	})...)
	w = append(w, d.unevenWarnings(f)...)
	w = append(w, d.kvWarnings(s, f)...)
	w = append(w, d.fallWarnings(s)...)
	w = append(w, sampleWarnings(s, f)...)
	return append(w, overfull(s)...)
}

// overfull looks for KV usage that no engine has, such as one in percent.
func overfull(s profile.DecodeSurface) []profile.Warning {
	var at []string
	var most float64
	var worst string
	for i, p := range s.Samples {
		share := p.KVUsage * float64(s.MaxKVTokens) / float64(s.KVTokensAt(p.Context))
		if share <= mostKV {
			continue
		}
		if at = append(at, fmt.Sprintf("row %d", i)); share > most {
			most, worst = share, fmt.Sprintf("row %d (context %s)", i, tidy(p.Context))
		}
	}
	if at == nil {
		return nil
	}
	return []profile.Warning{profile.Warnf(CodeKVUsage,
		"KV usage is above %d, at %s: %s uses %.3g times what the cache holds. The figures may be percentages, or the capacity is another engine's",
		mostKV, list(at), worst, most)}
}

// unevenWarnings looks at what Dynamo's planner makes of the rows: it interpolates between
// samples by KV use and context, unscaled, and takes the nearest one outside their hull.
func (d *Decode) unevenWarnings(f Facts) []profile.Warning {
	var thin, loaded []string
	for i := range d.rows {
		r := &d.rows[i]
		if r.high > r.low {
			thin = append(thin, fmt.Sprintf("%s to %s", tidy(r.low), tidy(r.high)))
		}
		if corner := i == 0 || i == len(d.rows)-1; corner && r.min() > float64(max(f.GPUs, 1))*(1+clash) { // a request on each attention replica
			loaded = append(loaded, fmt.Sprintf("%s in flight at context %s", tidy(r.min()), tidy(r.context)))
		}
	}
	var w []profile.Warning
	if thin != nil {
		w = append(w, profile.Warnf(CodeUnevenRows, "contexts differ within a row (%s). Dynamo's interpolator may give an ITL and throughput there that are far off or negative", list(thin)))
	}
	if loaded != nil {
		w = append(w, profile.Warnf(CodeUnevenRows, "low load was not measured (the lowest: %s). Below it, Dynamo's interpolator takes an idle engine to be as slow as the nearest sample", list(loaded)))
	}
	return w
}

// kvWarnings looks at how far each row reaches.
func (d *Decode) kvWarnings(s profile.DecodeSurface, f Facts) []profile.Warning {
	var short, over []string
	for i := range d.rows {
		r := &d.rows[i]
		top := r.max() * r.context / float64(s.KVTokensAt(r.context))
		full := f.MaxNumSeqs > 0 && r.max() >= measuredSeqs*float64(f.MaxNumSeqs)
		switch {
		case top > mostKV: // overfull says it
		case top > 1+clash:
			over = append(over, fmt.Sprintf("%.2f at context %s", top, tidy(r.context)))
		case top < measuredKV && !full:
			short = append(short, fmt.Sprintf("%.2f at context %s", top, tidy(r.context)))
		}
	}
	var w []profile.Warning
	if short != nil {
		w = append(w, profile.Warnf(CodeUnmeasuredKV, "KV usage was measured only up to %s", list(short)))
	}
	if over != nil {
		w = append(w, profile.Warnf(CodeKVAboveOne, "KV usage is above 1 (%s). Requests were waiting, or the capacity is not the engine's", list(over)))
	}
	return w
}

// fallWarnings looks at what was measured, for the fit does not fall. Samples
// whose intervals overlap may be the other way round.
func (d *Decode) fallWarnings(s profile.DecodeSurface) []profile.Warning {
	order := slices.Clone(s.Samples)
	load := func(p profile.DecodeSample) float64 { return p.KVUsage * d.maxKV / p.Context }
	slices.SortStableFunc(order, func(a, b profile.DecodeSample) int {
		return cmp.Or(cmp.Compare(d.nearest(a.Context).context, d.nearest(b.Context).context), cmp.Compare(load(a), load(b)))
	})
	var falls []string
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		r := d.nearest(b.Context)
		fell := float64(b.ITL) < float64(a.ITL)*(1-noiseFall) && b.ITL+b.Half < a.ITL-a.Half
		if fell && d.nearest(a.Context) == r && !sameLoad(load(a), load(b)) {
			falls = append(falls, fmt.Sprintf("context %s from %s to %s in flight", tidy(r.context), tidy(load(a)), tidy(load(b))))
		}
	}
	if falls == nil {
		return nil
	}
	return []profile.Warning{profile.Warnf(CodeITLNotRising, "ITL falls although the load rises at %s", list(falls))}
}

// sampleWarnings holds each sample against itself: by Little's law throughput
// times ITL is the number of requests in flight, whatever the engine.
func sampleWarnings(s profile.DecodeSurface, f Facts) []profile.Warning {
	type oddity struct {
		off  float64
		text string
	}
	var odd []oddity
	var fast tooFast
	for i, p := range s.Samples {
		n := p.KVUsage * float64(s.MaxKVTokens) / p.Context
		little := p.ThroughputPerGPU * float64(f.GPUs) * p.ITL.Seconds()
		if off := math.Abs(little-n) / n; f.GPUs > 0 && p.ThroughputPerGPU > 0 && off > clash {
			odd = append(odd, oddity{off, fmt.Sprintf("row %d by %.0f %% (context %s: %.0f in flight by KV usage, %.0f by throughput times ITL)",
				i, 100*off, tidy(p.Context), n, little)})
		}
		fast.add(p.ThroughputPerGPU, f, fmt.Sprintf("row %d", i))
	}
	var w []profile.Warning
	if odd != nil {
		slices.SortStableFunc(odd, func(a, b oddity) int { return cmp.Compare(b.off, a.off) }) // the worst is named whatever else is
		var rows []string
		for _, o := range odd {
			rows = append(rows, o.text)
		}
		w = append(w, profile.Warnf(CodeThroughputClash, "throughput and KV usage disagree by more than %.0f %%: %s", 100*clash, list(rows)))
	}
	if fast.at != nil {
		w = append(w, fast.warning("decode", f))
	}
	return w
}

// list joins the first few and counts the rest.
func list(s []string) string {
	if len(s) <= listedAtMost {
		return strings.Join(s, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(s[:listedAtMost], ", "), len(s)-listedAtMost)
}
