package plots

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/profile"
)

// Surface predicts a value at a KV usage (0..1) and a context (tokens); inRange
// is false outside what was measured. It is asked only while a picture is
// made, never when it is written.
type Surface func(kvUsage, context float64) (value float64, inRange bool)

// Mark is the operating point that was picked.
type Mark struct {
	KVUsage float64
	Context float64 // tokens
	Label   string  // "TP:2 n=16"
}

// DecodeITLInterpolation shows ITL over KV usage and context as a map with
// contours: itl is the fit, in milliseconds (nil where there is none), and
// picked the marked point (nil for none). Where nothing was measured, nothing
// is painted. Samples that span no area (one context, say) are drawn as lines.
func DecodeITLInterpolation(c Caption, s profile.DecodeSurface, itl Surface, picked *Mark) (*Picture, error) {
	return decodeMap(c.ofMeans(), s, itl, itl, picked, mapFace{
		title: "Decode: ITL by KV cache usage and context",
		name:  "ITL (ms, mean)", isITL: true,
		value: func(d profile.DecodeSample) float64 { return ms(d.ITL) },
	})
}

// DecodeThroughputInterpolation shows throughput per GPU (output tokens/s/GPU)
// over KV usage and context: throughput is the fit of it, and itl the fit of
// ITL in milliseconds, whose SLA is drawn. Both may be nil.
func DecodeThroughputInterpolation(c Caption, s profile.DecodeSurface, throughput, itl Surface, picked *Mark) (*Picture, error) {
	return decodeMap(c.ofMeans(), s, throughput, itl, picked, mapFace{
		title: "Decode: throughput per GPU by KV cache usage and context",
		name:  "Throughput (output tokens/s/GPU)",
		value: func(d profile.DecodeSample) float64 { return d.ThroughputPerGPU },
	})
}

// mapFace is what differs between the two pictures.
type mapFace struct {
	title, name string
	isITL       bool
	value       func(profile.DecodeSample) float64
}

// sample is a measured point of a map.
type sample struct {
	kv, context, value float64
	itl                time.Duration
}

func decodeMap(c Caption, s profile.DecodeSurface, value, itl Surface, picked *Mark, mf mapFace) (*Picture, error) {
	c.Provenance = profile.Weakest(c.Provenance, s.Provenance)
	errs := []error{c.check()}
	var samples []sample
	for i, d := range s.Samples {
		name := fmt.Sprintf("sample %d of context %s", i, number(d.Context))
		errs = append(errs,
			drawable(name, "KV usage", d.KVUsage), drawable(name, "context", d.Context),
			drawable(name, "ITL in ms", ms(d.ITL)), drawable(name, "throughput per GPU", d.ThroughputPerGPU))
		samples = append(samples, sample{d.KVUsage, d.Context, mf.value(d), d.ITL})
	}
	if picked != nil {
		errs = append(errs, drawable("picked", "KV usage", picked.KVUsage), drawable("picked", "context", picked.Context))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("plotting %s: %w", mf.title, err)
	}
	m := heatMap{caption: c, mapFace: mf, samples: samples, picked: picked, maxKV: s.MaxKVTokens}
	if value == nil || !spansArea(samples) {
		return m.lines().picture(), nil
	}
	if err := m.survey(value, itl); err != nil {
		return nil, fmt.Errorf("plotting %s: %w", mf.title, err)
	}
	if len(m.levels) == 0 { // the fit knows no place within the frame
		return m.lines().picture(), nil
	}
	return &Picture{title: mf.title, paint: m.paint}, nil
}

// spansArea reports whether the samples are more than points on one line.
func spansArea(ss []sample) bool {
	if len(ss) < 3 {
		return false
	}
	var kvs, contexts []float64
	for _, s := range ss {
		kvs, contexts = append(kvs, s.kv), append(contexts, s.context)
	}
	dx, dy := slices.Max(kvs)-slices.Min(kvs), slices.Max(contexts)-slices.Min(contexts)
	if dx <= 0 || dy <= 0 {
		return false
	}
	o := ss[0]
	for _, p := range ss {
		for _, q := range ss {
			area := (p.kv-o.kv)/dx*(q.context-o.context)/dy - (q.kv-o.kv)/dx*(p.context-o.context)/dy
			if math.Abs(area) > 1e-3 {
				return true
			}
		}
	}
	return false
}

// lines is the picture for samples that make no surface: value over KV usage,
// or over context where KV usage does not vary, one line for each of the other.
func (m heatMap) lines() chart {
	c := m.caption
	overContext := len(m.samples) > 0
	for _, s := range m.samples {
		overContext = overContext && s.kv == m.samples[0].kv
	}
	if len(m.samples) > 0 {
		why := "The samples span no area of KV usage and context, or have no fit: lines between samples, no surface."
		c.Note = joinSet(" ", why, c.Note)
	}
	ch := chart{
		caption: c, title: m.title, x: m.xName(), y: m.name,
		dots: dotWords{"meets the SLA", "fails the SLA"},
	}
	if overContext {
		ch.x = contextName
	}
	ch.series = m.rows(overContext)
	if at := ms(c.SLA.ITL); m.isITL && at > 0 {
		ch.limits = []limit{{horizontal: true, at: at, text: c.slaText("ITL", c.SLA.ITL)}}
		ch.zones = []zone{{horizontal: true, hi: at, text: fmt.Sprintf("feasible: ITL ≤ %s ms", number(at))}}
	}
	if m.picked != nil && len(m.samples) > 0 {
		at := m.picked.KVUsage
		if overContext {
			at = m.picked.Context
		}
		ch.guides = []guide{{at, joinSet(" ", shorten(clean(m.picked.Label), 28), "("+c.pickWord()+")")}}
	}
	return ch
}

func (m heatMap) rows(overContext bool) []series {
	ss := slices.Clone(m.samples)
	slices.SortStableFunc(ss, func(a, b sample) int {
		if overContext {
			return cmp.Compare(a.context, b.context)
		}
		if a.context != b.context {
			return cmp.Compare(a.context, b.context)
		}
		return cmp.Compare(a.kv, b.kv)
	})
	var out []series
	for i, s := range ss {
		if i == 0 || !overContext && s.context != ss[i-1].context {
			name := "context " + number(s.context) + " tokens"
			if overContext {
				name = "KV usage " + number(s.kv)
			}
			out = append(out, series{name: name, look: lookOf(len(out)), joined: true})
		}
		x := s.kv
		if overContext {
			x = s.context
		}
		r := &out[len(out)-1]
		r.dots = append(r.dots, dot{x: x, y: s.value, solid: m.meets(s)})
	}
	return out
}

func (m heatMap) meets(s sample) bool {
	return m.caption.SLA.ITL <= 0 || s.itl <= m.caption.SLA.ITL
}

const contextName = "Context of a running sequence (tokens)"

func (m heatMap) xName() string {
	if m.maxKV > 0 {
		return fmt.Sprintf("KV cache usage (fraction of %s tokens)", number(float64(m.maxKV)))
	}
	return "KV cache usage (fraction of 1)"
}
