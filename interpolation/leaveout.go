package interpolation

import (
	"errors"
	"math"
	"slices"
	"time"

	"plimsoll/profile"
)

// LeftOut is one sample of a surface beside what a fit of all others says of it.
type LeftOut struct {
	Index               int // of the sample in its surface
	Measured, Predicted time.Duration
	Error               float64 // relative: |Predicted − Measured| / Measured
	Stated              float64 // the prediction's own Error
	InRange             bool    // the others cover it; false at the ends of what was measured
}

// LeaveOneOut is how well a surface predicts each of its samples from the
// others, and the summary of it. Samples at the ends of the surface count too,
// where leaving one out means to extrapolate; Covered is without them.
type LeaveOneOut struct {
	Samples          []LeftOut
	Mean, P90, Worst float64 // relative errors; P90 as numpy's default quantile
}

// Covered is the summary over the samples that lie within the range of the others.
func (l LeaveOneOut) Covered() LeaveOneOut {
	var in []LeftOut
	for _, s := range l.Samples {
		if s.InRange {
			in = append(in, s)
		}
	}
	return summary(in)
}

// errAlone is what is left of a surface of one sample when that is left out.
var errAlone = errors.New("leaving one out: one sample, want at least 2")

// LeaveOneOutPrefill predicts the TTFT of each sample of a surface that
// FitPrefill accepts from the others.
func LeaveOneOutPrefill(s profile.PrefillSurface) (LeaveOneOut, error) {
	if len(s.Samples) < 2 {
		return LeaveOneOut{}, errAlone
	}
	var l []LeftOut
	for i, p := range s.Samples {
		f, err := FitPrefill(profile.PrefillSurface{Samples: without(s.Samples, i)})
		if err != nil {
			return LeaveOneOut{}, err
		}
		l = append(l, leftOut(i, p.TTFT, f.TTFT(float64(p.ISL))))
	}
	return summary(l), nil
}

// LeaveOneOutDecode predicts the ITL of each sample of a surface that FitDecode
// accepts from the others.
func LeaveOneOutDecode(s profile.DecodeSurface, gpus int) (LeaveOneOut, error) {
	if len(s.Samples) < 2 {
		return LeaveOneOut{}, errAlone
	}
	var l []LeftOut
	for i, p := range s.Samples {
		d, err := FitDecode(profile.DecodeSurface{Samples: without(s.Samples, i), MaxKVTokens: s.MaxKVTokens}, gpus)
		if err != nil {
			return LeaveOneOut{}, err
		}
		l = append(l, leftOut(i, p.ITL, d.ITL(p.KVUsage, p.Context)))
	}
	return summary(l), nil
}

func without[T any](s []T, i int) []T { return slices.Delete(slices.Clone(s), i, i+1) }

func leftOut(i int, measured time.Duration, p Latency) LeftOut {
	off := math.Abs(float64(p.Value-measured)) / float64(measured)
	return LeftOut{Index: i, Measured: measured, Predicted: p.Value, Error: off, Stated: p.Error, InRange: p.InRange}
}

func summary(s []LeftOut) LeaveOneOut {
	l := LeaveOneOut{Samples: s}
	if len(s) == 0 {
		return l
	}
	var off []float64
	for _, x := range s {
		off = append(off, x.Error)
		l.Mean += x.Error / float64(len(s))
	}
	slices.Sort(off)
	l.P90, l.Worst = profile.Quantile(off, 0.9), off[len(off)-1]
	return l
}

// Load is a place on a decode surface.
type Load struct {
	InFlight float64 // requests
	Context  float64 // tokens, mean of a running sequence
}

// Unsure is the index of the candidate, by ISL in tokens, whose TTFT the fit is
// least sure of, and the relative error that it expects there: a measurement at
// that one tells the most. −1 without candidates.
func (p Prefill) Unsure(islTokens []float64) (index int, relative float64) {
	return least(islTokens, func(x float64) float64 { return p.TTFT(x).Error })
}

// Unsure is the index of the candidate whose ITL the fit is least sure of, and
// the relative error that it expects there. −1 without candidates.
func (d Decode) Unsure(candidates []Load) (index int, relative float64) {
	return least(candidates, func(l Load) float64 { return d.ITLAt(l.InFlight, l.Context).Error })
}

func least[T any](candidates []T, of func(T) float64) (index int, relative float64) {
	index = -1
	for i, c := range candidates {
		if e := of(c); index < 0 || e > relative {
			index, relative = i, e
		}
	}
	return index, relative
}
