package main

import (
	"bytes"
	"fmt"
	"math"

	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
)

// explanation is where the time of a pick's latency goes, by the latency model.
type explanation struct {
	Phase   profile.Phase   `json:"phase"`
	Label   string          `json:"label"`
	Latency string          `json:"latency"` // what the terms add up to, in words
	Fit     string          `json:"fit"`
	Millis  float64         `json:"ms"`
	Terms   []explainedTerm `json:"terms"`
}

type explainedTerm struct {
	Name    string  `json:"term"`
	Millis  float64 `json:"ms"`
	Share   float64 `json:"share"` // of the whole, 0..1
	Formula string  `json:"formula"`
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

// explainTTFT adds up the terms of all steps that one prompt takes.
func explainTTFT(m latency.Model, ch recommend.Choice, isl int) explanation {
	x := explanation{
		Phase: profile.Prefill, Label: ch.Picked.Label(), Fit: m.Fit().Name,
		Latency: fmt.Sprintf("TTFT of one prompt of %d tokens", isl),
	}
	for b := range engine.Chunks(isl, 0, m.Limits().MaxNumBatchedTokens) {
		x.add(m.Terms(b))
	}
	if t := m.Overhead(); t > 0 {
		x.Terms = append(x.Terms, explainedTerm{Name: "overhead", Millis: t.Milliseconds(), Formula: "per request, outside of steps"})
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
	x.add(m.Terms(engine.Batch{DecodeSeqs: seqs, DecodeContext: int64(math.Round(float64(seqs) * p.Context))}))
	return x.summed()
}

// add sums the terms of one more step, by name.
func (x *explanation) add(terms []latency.Term) {
	first := len(x.Terms) == 0
	for i, t := range terms {
		if first {
			x.Terms = append(x.Terms, explainedTerm{Name: t.Name, Formula: t.Formula})
		}
		x.Terms[i].Millis += t.Time.Milliseconds()
	}
}

// summed fills in the sum and the shares, and drops terms that take no time.
func (x explanation) summed() explanation {
	kept := x.Terms[:0]
	for _, t := range x.Terms {
		x.Millis += t.Millis
		if t.Millis > 0 {
			kept = append(kept, t)
		}
	}
	x.Terms = kept
	for i := range x.Terms {
		x.Terms[i].Share = x.Terms[i].Millis / x.Millis
	}
	return x
}

// explainTables prints explanations as tables.
func explainTables(b *bytes.Buffer, xs []explanation) {
	for _, x := range xs {
		fmt.Fprintf(b, "\nWhere %s goes at %s: %.2f ms (fit %s)\n", x.Latency, x.Label, x.Millis, x.Fit)
		t := newTable("term", "ms", "share", "formula")
		for _, term := range x.Terms {
			t.row(term.Name, fmt.Sprintf("%.3f", term.Millis), fmt.Sprintf("%.1f %%", 100*term.Share), term.Formula)
		}
		b.WriteString(t.text("  "))
	}
}
