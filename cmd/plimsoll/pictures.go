package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"plimsoll/interpolation"
	"plimsoll/plots"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// fits are a profile's surfaces as predictors; one is nil where there are too
// few points for it.
type fits struct {
	ttft, prefill plots.Curve
	beside        struct{ ttft, prefill plots.Beside }
	itl, decode   plots.Surface
}

func fit(rec store.Recommendation, ps profile.PrefillSurface, ds profile.DecodeSurface, batched profile.BatchedPrefill) fits {
	var f fits
	f.beside.prefill.Batched = batched
	if p, err := interpolation.FitPrefill(ps); err == nil {
		f.ttft, f.prefill = plots.TTFTCurve(p), plots.PrefillThroughputCurve(p)
		f.beside.ttft.Bounds, f.beside.prefill.Bounds = plots.TTFTBounds(p), plots.PrefillThroughputBounds(p)
		if rec.Prefill != nil {
			f.beside.ttft.Bounds = widened(f.beside.ttft.Bounds, rec.Prefill.ModelError)
			f.beside.prefill.Bounds = widened(f.beside.prefill.Bounds, rec.Prefill.ModelError)
		}
	}
	if rec.Decode == nil {
		return f
	}
	if d, err := interpolation.FitDecode(ds, rec.Decode.GPUs); err == nil {
		f.itl, f.decode = plots.ITLSurface(d), plots.DecodeThroughputSurface(d)
	}
	return f
}

// widened are bounds that hold the error of a latency model too: what the fit goes
// through is an estimate.
func widened(bounds func(x float64) (low, high float64), e profile.ModelError) func(x float64) (low, high float64) {
	if !e.Known() {
		return bounds
	}
	return func(x float64) (float64, float64) {
		low, high := bounds(x)
		return e.Around(low).Low, e.Around(high).High
	}
}

// picture is one to draw.
type picture struct {
	name string
	draw func() (*plots.Picture, error)
}

// drawAll writes the pictures, each as PNG and SVG, from what the files hold: the
// same call serves the run itself and `plimsoll plot DIR`. There are six, or two
// of aggregated engines and of a run that ended before its surfaces.
func drawAll(dir string, run store.Run, rec store.Recommendation, ps profile.PrefillSurface, ds profile.DecodeSurface, batched profile.BatchedPrefill) error {
	if rec.Mode == store.Aggregated {
		return draw(dir, aggregatedPictures(run, rec))
	}
	pre, dec := captionOf(run, rec, profile.Prefill), captionOf(run, rec, profile.Decode)
	all := []picture{
		{"prefill_performance", func() (*plots.Picture, error) {
			cs := plotCandidates(run, rec, profile.Prefill)
			return plots.PrefillPerformance(pre.of(cs), cs)
		}},
		{"decode_performance", func() (*plots.Picture, error) {
			cs := plotCandidates(run, rec, profile.Decode)
			return plots.DecodePerformance(dec.of(cs), cs)
		}},
	}
	if !rec.Simulates() {
		return draw(dir, all)
	}
	f := fit(rec, ps, ds, batched)
	return draw(dir, append(all,
		picture{"prefill_ttft_interpolation", func() (*plots.Picture, error) {
			return plots.PrefillTTFTInterpolation(pre.curve(f.ttft), ps, f.ttft, f.beside.ttft)
		}},
		picture{"prefill_throughput_interpolation", func() (*plots.Picture, error) {
			return plots.PrefillThroughputInterpolation(pre.curve(f.prefill), ps, f.prefill, f.ttft, f.beside.prefill)
		}},
		picture{"decode_itl_interpolation", func() (*plots.Picture, error) {
			return plots.DecodeITLInterpolation(dec.surface(), ds, f.itl, mark(rec))
		}},
		picture{"decode_throughput_interpolation", func() (*plots.Picture, error) {
			return plots.DecodeThroughputInterpolation(dec.surface(), ds, f.decode, f.itl, mark(rec))
		}},
	))
}

func draw(dir string, pictures []picture) error {
	return atOnce(len(pictures), func(i int) error {
		name := pictures[i].name
		pic, err := pictures[i].draw()
		if err == nil {
			err = savePicture(filepath.Join(dir, name), pic)
		}
		if err != nil {
			return fmt.Errorf("drawing %s: %w", name, err)
		}
		return nil
	})
}

func savePicture(base string, p *plots.Picture) error {
	for ext, write := range map[string]func(io.Writer) error{".png": p.WritePNG, ".svg": p.WriteSVG} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		if err := store.WriteFile(base+ext, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// plotCandidates are the sweep's points of one phase, judged as the pick was.
func plotCandidates(run store.Run, rec store.Recommendation, phase profile.Phase) []plots.Candidate {
	var cs []plots.Candidate
	for _, p := range run.Points {
		l := p.Latency(run.SLA)
		if p.Stage != profile.StageSweep || p.Phase != phase || l <= 0 || p.Invalid != "" {
			continue
		}
		c := plots.Candidate{
			Label: p.Config.Label(), Latency: l, ThroughputPerGPU: p.ThroughputPerGPU,
			InFlight: inFlight(p), Feasible: p.Meets(run.SLA), Picked: isPick(p, rec),
		}
		if c.Picked || !p.ModelError.Known() { // the model's error is one factor everywhere: its bars would cover each other
			i := p.LatencyInterval(run.SLA)
			c.Low, c.High, c.Interval = time.Duration(i.Low), time.Duration(i.High), p.ThroughputInterval()
		}
		cs = append(cs, c)
	}
	return cs
}

// isPick reports whether a point is the one that recommendation.json names.
func isPick(p profile.Point, rec store.Recommendation) bool {
	pick := rec.Decode
	if p.Phase == profile.Prefill {
		pick = rec.Prefill
	}
	return pick != nil && p.Config.Parallelism.Normal() == pick.Parallelism().Normal() &&
		p.ThroughputPerGPU == pick.ThroughputPerGPU && p.InFlight == pick.InFlight
}

func mark(rec store.Recommendation) *plots.Mark {
	d := rec.Decode
	if d == nil || d.InFlight <= 0 || rec.Surfaces.Decode == nil {
		return nil
	}
	most := float64(rec.Surfaces.Decode.MaxKVTokens)
	use, context := d.KVUsage, d.KVUsage*most/d.InFlight
	if rec.Surfaces.Decode.WindowedKV.Known() { // whose surface is over tokens in flight
		context = float64(rec.Workload.ISL) + float64(rec.Workload.OSL)/2
		use = d.InFlight * context / most
	}
	return &plots.Mark{
		KVUsage: use, Context: context,
		Label: fmt.Sprintf("%s n=%.0f", d.Label, d.InFlight),
	}
}
