package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
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
	itl, decode   plots.Surface
}

func fit(rec store.Recommendation, ps profile.PrefillSurface, ds profile.DecodeSurface) fits {
	var f fits
	if p, err := interpolation.FitPrefill(ps); err == nil {
		f.ttft, f.prefill = plots.TTFTCurve(p), plots.PrefillThroughputCurve(p)
	}
	if rec.Decode == nil {
		return f
	}
	if d, err := interpolation.FitDecode(ds, rec.Decode.GPUs); err == nil {
		f.itl, f.decode = plots.ITLSurface(d), plots.DecodeThroughputSurface(d)
	}
	return f
}

// drawAll writes the six pictures, each as PNG and SVG, from what the files
// hold: the same call serves the run itself and `plimsoll plot DIR`.
func drawAll(dir string, run store.Run, rec store.Recommendation, ps profile.PrefillSurface, ds profile.DecodeSurface) error {
	f := fit(rec, ps, ds)
	pre, dec := captions(run, rec)
	pictures := []struct {
		name string
		draw func() (*plots.Picture, error)
	}{
		{"prefill_performance", func() (*plots.Picture, error) {
			return plots.PrefillPerformance(pre.all(), plotCandidates(run, rec, profile.Prefill))
		}},
		{"decode_performance", func() (*plots.Picture, error) {
			return plots.DecodePerformance(dec.all(), plotCandidates(run, rec, profile.Decode))
		}},
		{"prefill_ttft_interpolation", func() (*plots.Picture, error) {
			return plots.PrefillTTFTInterpolation(pre.Caption, ps, f.ttft)
		}},
		{"prefill_throughput_interpolation", func() (*plots.Picture, error) {
			return plots.PrefillThroughputInterpolation(pre.Caption, ps, f.prefill, f.ttft)
		}},
		{"decode_itl_interpolation", func() (*plots.Picture, error) {
			return plots.DecodeITLInterpolation(dec.Caption, ds, f.itl, mark(rec))
		}},
		{"decode_throughput_interpolation", func() (*plots.Picture, error) {
			return plots.DecodeThroughputInterpolation(dec.Caption, ds, f.decode, f.itl, mark(rec))
		}},
	}
	errs := make([]error, len(pictures))
	var all sync.WaitGroup
	for i, p := range pictures {
		all.Go(func() {
			pic, err := p.draw()
			if err == nil {
				err = savePicture(filepath.Join(dir, p.name), pic)
			}
			if err != nil {
				errs[i] = fmt.Errorf("drawing %s: %w", p.name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
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

// caption is a Caption for the pictures of one configuration.
type caption struct{ plots.Caption }

// all is the caption of a picture that compares configurations.
func (c caption) all() plots.Caption {
	out := c.Caption
	out.Configuration = ""
	return out
}

func captions(run store.Run, rec store.Recommendation) (prefill, decode caption) {
	var notes []string
	for _, s := range run.Skips {
		phase := ""
		if s.Phase != "" {
			phase = string(s.Phase) + " "
		}
		notes = append(notes, phase+s.Label+": "+firstLine(s.Reason))
	}
	base := plots.Caption{
		Model: rec.Model, GPU: rec.GPU, Engine: strings.TrimSpace(string(rec.Engine.Kind) + " " + rec.Engine.Version),
		ISL: rec.Workload.ISL, OSL: rec.Workload.OSL, SLA: run.SLA, Provenance: rec.Provenance, Feasible: rec.Feasible,
		Note: strings.Join(notes, "; "),
	}
	prefill, decode = caption{base}, caption{base}
	if p := rec.Prefill; p != nil {
		prefill.Configuration = p.Label
		prefill.setError(p.ModelError)
	}
	if p := rec.Decode; p != nil {
		decode.Configuration = p.Label
		decode.setError(p.ModelError)
	}
	return prefill, decode
}

// setError says what the bars of an estimate are.
func (c *caption) setError(e profile.ModelError) {
	if !e.Known() {
		return
	}
	c.Bars = "the model's error (p90)"
	said := "bars: the latency model's error, " + shownError(e)
	if c.Note != "" {
		said += "; " + c.Note
	}
	c.Note = said
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// plotCandidates are the sweep's points of one phase, judged as the pick was.
func plotCandidates(run store.Run, rec store.Recommendation, phase profile.Phase) []plots.Candidate {
	var cs []plots.Candidate
	for _, p := range run.Points {
		l := p.Latency(run.SLA.Stat)
		if p.Stage != profile.StageSweep || p.Phase != phase || l <= 0 {
			continue
		}
		c := plots.Candidate{
			Label: p.Config.Parallelism.Label(), Latency: l, ThroughputPerGPU: p.ThroughputPerGPU,
			Interval: p.ThroughputInterval(), InFlight: p.InFlight, Feasible: p.Meets(run.SLA), Picked: isPick(p, rec),
		}
		i := p.LatencyInterval(run.SLA.Stat)
		c.Low, c.High = time.Duration(i.Low), time.Duration(i.High)
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
	return &plots.Mark{
		KVUsage: d.KVUsage, Context: d.KVUsage * float64(rec.Surfaces.Decode.MaxKVTokens) / d.InFlight,
		Label: fmt.Sprintf("%s n=%.0f", d.Label, d.InFlight),
	}
}
