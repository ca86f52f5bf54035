package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
)

// explanation is where the time of a pick's latency goes, by the latency model.
type explanation struct {
	Phase     profile.Phase       `json:"phase"`
	Label     string              `json:"label"`
	Latency   string              `json:"latency"` // what the operators add up to, in words
	Fit       string              `json:"fit"`
	Millis    float64             `json:"ms"`
	Operators []explainedOperator `json:"operators"`
}

// explainedOperator is one kind of operator on one GPU; FLOPs and Bytes are 0 where it
// multiplies, or moves, nothing.
type explainedOperator struct {
	Name   string  `json:"operator"`
	Millis float64 `json:"ms"`
	Share  float64 `json:"share"` // of the whole, 0..1
	FLOPs  float64 `json:"flops,omitempty"`
	Bytes  float64 `json:"bytes,omitempty"`
}

// explained is recommendation.json with its explanations, for --format json.
type explained struct {
	store.Recommendation
	Explain []explanation `json:"explain"`
}

// explain lays out the picks' latencies at the target.
func (d deployment) explain(o profileOptions, prefill, decode recommend.Choice) ([]explanation, error) {
	pre, err := d.speed(prefill.Picked.Point.Config)
	if err != nil {
		return nil, fmt.Errorf("explaining prefill: %w", err)
	}
	dec, err := d.speed(decode.Picked.Point.Config)
	if err != nil {
		return nil, fmt.Errorf("explaining decode: %w", err)
	}
	return []explanation{explainTTFT(pre, prefill, o.isl), explainITL(dec, decode)}, nil
}

// explainTTFT adds up the operators of all steps that one prompt takes.
func explainTTFT(m latency.Model, ch recommend.Choice, isl int) explanation {
	x := explanation{
		Phase: profile.Prefill, Label: ch.Picked.Label(), Fit: m.Fit().Name,
		Latency: fmt.Sprintf("TTFT of one prompt of %d tokens", isl),
	}
	for b := range engine.Chunks(isl, 0, m.Limits().MaxNumBatchedTokens) {
		x.add(m.Operators(b))
	}
	if t := m.Outside(isl); t > 0 {
		x.Operators = append(x.Operators, explainedOperator{Name: "outside of steps", Millis: t.Milliseconds()})
	}
	return x.summed()
}

// explainITL is one decode step at the load of the pick.
func explainITL(m latency.Model, ch recommend.Choice) explanation {
	p := ch.Picked.Point
	seqs := int(math.Round(p.InFlight))
	x := explanation{
		Phase: profile.Decode, Label: ch.Picked.Label(), Fit: m.Fit().Name,
		Latency: fmt.Sprintf("ITL of %s in flight, %.0f tokens of context each", engine.Count(seqs, "request"), p.Context),
	}
	x.add(m.Operators(engine.Batch{DecodeSeqs: seqs, DecodeContext: int64(math.Round(float64(seqs) * p.Context))}))
	return x.summed()
}

// add sums the operators of one more step, by name.
func (x *explanation) add(operators []latency.Operator) {
	for _, o := range operators {
		i := slices.IndexFunc(x.Operators, func(e explainedOperator) bool { return e.Name == o.Name })
		if i < 0 {
			i, x.Operators = len(x.Operators), append(x.Operators, explainedOperator{Name: o.Name})
		}
		e := &x.Operators[i]
		e.Millis, e.FLOPs, e.Bytes = e.Millis+o.Time.Milliseconds(), e.FLOPs+o.FLOPs, e.Bytes+o.Bytes
	}
}

// summed fills in the sum and the shares.
func (x explanation) summed() explanation {
	for _, o := range x.Operators {
		x.Millis += o.Millis
	}
	for i := range x.Operators {
		x.Operators[i].Share = x.Operators[i].Millis / x.Millis
	}
	return x
}

// explainTables prints explanations as tables.
func explainTables(b *bytes.Buffer, xs []explanation) {
	for _, x := range xs {
		fmt.Fprintf(b, "\nWhere %s goes at %s: %.2f ms (fit %s)\n", x.Latency, x.Label, x.Millis, x.Fit)
		t := newTable("operator", "ms", "share", "TFLOP/s/GPU", "TB/s/GPU")
		for _, o := range x.Operators {
			t.row(o.Name, fmt.Sprintf("%.3f", o.Millis), fmt.Sprintf("%.1f %%", 100*o.Share), o.tera(o.FLOPs), o.tera(o.Bytes))
		}
		b.WriteString(t.text("  "))
	}
}

// tera is how much of n the operator gets through, in units of 10¹² a second.
func (o explainedOperator) tera(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g", n/o.Millis/1e9)
}
