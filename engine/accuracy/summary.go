package accuracy

import (
	"math"

	"plimsoll/engine/latency"
)

// Kinds of latency that rows have.
const (
	TPOT       = iota
	TTFT       // of prompts alone, or in an open loop
	ClosedTTFT // of a closed loop
	Kinds
)

// saturated is the share of what came below which an engine does not keep up.
const saturated = 0.9

// Residuals are ln(predicted/measured) of rows, of the kinds by turns; NaN where one was
// not measured.
type Residuals []float64

// Of puts the residuals of one row behind others.
func (r Residuals) Of(p Prediction, row Row) Residuals {
	first, closed := Off(p.TTFT, row.TTFT), math.NaN()
	switch {
	case row.Loop == Closed:
		first, closed = closed, first
	case row.Loop == Open && p.Throughput < saturated*row.Rate*float64(row.OSL): // TTFT depends on how long it went on
		first = math.NaN()
	}
	return append(r, Off(p.TPOT, row.TPOT), first, closed)
}

// Off is ln(predicted/measured); NaN where nothing was measured.
func Off(predicted, measured float64) float64 {
	if measured == 0 {
		return math.NaN()
	}
	return math.Log(predicted / measured)
}

// Summary is the error of residuals.
func Summary(basis string, r Residuals) latency.Held {
	return latency.Held{TPOT: latency.ErrorOf(basis, r.ratios(TPOT)), TTFT: latency.ErrorOf(basis, r.ratios(TTFT)), Closed: latency.ErrorOf(basis, r.ratios(ClosedTTFT))}
}

// Across is the error of the residuals of whole groups, for another group.
func Across(basis string, groups []Residuals) latency.Held {
	of := func(kind int) latency.Error {
		ratios := make([][]float64, len(groups))
		for i, r := range groups {
			ratios[i] = r.ratios(kind)
		}
		return latency.ErrorAcross(basis, ratios)
	}
	return latency.Held{TPOT: of(TPOT), TTFT: of(TTFT), Closed: of(ClosedTTFT)}
}

// ratios are predicted over measured of a kind.
func (r Residuals) ratios(kind int) (out []float64) {
	for i := kind; i < len(r); i += Kinds {
		if !math.IsNaN(r[i]) {
			out = append(out, math.Exp(r[i]))
		}
	}
	return out
}

// Tally sums up groups: the median of their medians, the worst of these, and the 90th
// percentile of all rows; by kind.
type Tally struct{ medians, rows [Kinds][]float64 }

// FewestRows is from how many rows on a group's median counts.
const FewestRows = 5

// Add counts the residuals of one group.
func (t *Tally) Add(r Residuals) {
	for kind := range Kinds {
		var e []float64
		for _, x := range r.ratios(kind) {
			e = append(e, math.Abs(x-1))
		}
		t.rows[kind] = append(t.rows[kind], e...)
		if len(e) >= FewestRows {
			t.medians[kind] = append(t.medians[kind], quantile(0.5, e))
		}
	}
}

// Of is the median of medians, the worst, and the 90th percentile of rows of a kind; NaN
// where there are none.
func (t Tally) Of(kind int) (median, worst, p90 float64) {
	return quantile(0.5, t.medians[kind]), quantile(1, t.medians[kind]), quantile(0.9, t.rows[kind])
}

func quantile(p float64, v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return latency.Quantile(p, v, nil)
}

// Result is what the model gives for a row, and by which factor measurements may lie from
// it in nine of ten.
type Result struct {
	Prediction
	TPOTFactor, TTFTFactor float64
	Left                   string // why there is none; empty = there is
}

// Evaluate predicts a row by the shipped fit for its engine.
func Evaluate(r Row) Result {
	if r.Left != "" {
		return Result{Left: r.Left}
	}
	m, err := latency.NewWith(r.Model, r.GPU, r.Engine(), r.Fit())
	if err != nil {
		return Result{Left: err.Error()}
	}
	p, err := Predict(m, r)
	if err != nil {
		return Result{Left: err.Error()}
	}
	out := Result{Prediction: p, TPOTFactor: m.ITLError().Factor90, TTFTFactor: m.TTFTError().Factor90}
	if r.Loop == Closed {
		out.TTFTFactor = m.ClosedTTFTError().Factor90
	}
	return out
}
