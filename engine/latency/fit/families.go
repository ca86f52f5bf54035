package main

import (
	"fmt"
	"slices"

	"plimsoll/engine/latency"
)

// family is a set of rows that one fit is for.
type family struct {
	fit    latency.Fit // Name, Engine, Version, Source
	rows   []string    // families of rows.csv
	priors []string    // families of rows.csv whose fit is the prior; none = physics alone
}

const (
	silicon = "aiconfigurator's silicon export @ 095f58a51 (Apache-2.0)"
	blis    = "inference-sim's published ground truth (Apache-2.0)"
)

var recent = []string{"vllm-0.15.1", "vllm-0.12", "vllm-fp8"}

// families are the shipped ones, the default first. The prior of a version of
// vLLM is the fit to the other versions, so that it has seen none of its rows.
func families() []family {
	return []family{
		{latency.Fit{Name: "vllm", Engine: "vllm", Source: "recent versions together: the rows of vllm-0.15.1, vllm-0.12 and vllm-fp8"}, recent, nil},
		{latency.Fit{Name: "vllm-0.15.1", Engine: "vllm", Version: "0.15.1", Source: blis}, recent[:1], recent[1:]},
		{latency.Fit{Name: "vllm-0.12", Engine: "vllm", Version: "0.12.0", Source: silicon}, recent[1:2], []string{recent[0], recent[2]}},
		{latency.Fit{Name: "vllm-fp8", Engine: "vllm", Source: silicon + ", whose rows of Llama-3.1-70B do not say the version"}, recent[2:], recent[:2]},
		{latency.Fit{Name: "trtllm-1.0.0rc3", Engine: "trtllm", Version: "1.0.0rc3", Source: silicon}, []string{"trtllm-1.0.0rc3"}, recent},
		{latency.Fit{Name: "vllm-2023", Engine: "vllm", Version: "2023", Source: "Splitwise (Mutinifni/splitwise-sim @ 8f99e7dc, MIT)"}, []string{"vllm-2023"}, recent},
	}
}

// result is a fitted family with what the page shows of it.
type result struct {
	fit    latency.Fit
	obs    []latency.Observation
	prior  latency.Coefficients
	sample latency.Held // error on the rows that made the fit
	six    []draws      // calibrations of the prior on six of the rows
}

func fitAll(rows []row) ([]result, error) {
	var results []result
	for _, f := range families() {
		r, err := fitOne(rows, f)
		if err != nil {
			return nil, fmt.Errorf("fitting %s: %w", f.fit.Name, err)
		}
		results = append(results, r)
	}
	pooled := &results[0]
	for _, r := range results[1:4] {
		// What the pooled fit would be off by on a version that it has not seen.
		pooled.fit.OtherVersion = latency.Held{
			TTFT: widest(pooled.fit.OtherVersion.TTFT, r.fit.OtherVersion.TTFT),
			TPOT: widest(pooled.fit.OtherVersion.TPOT, r.fit.OtherVersion.TPOT),
		}
		pooled.fit.SixPoints = latency.Held{
			TTFT: widest(pooled.fit.SixPoints.TTFT, r.fit.SixPoints.TTFT),
			TPOT: widest(pooled.fit.SixPoints.TPOT, r.fit.SixPoints.TPOT),
		}
	}
	// Where a family's rows cannot tell, it takes what the pooled ones showed.
	for i := range results {
		fill(&results[i].fit, pooled.fit)
	}
	return results, nil
}

func fitOne(rows []row, f family) (result, error) {
	r := result{fit: f.fit, obs: observations(rows, f.rows...), prior: latency.Physical()}
	var err error
	if len(f.priors) > 0 {
		if r.prior, err = latency.Estimate(r.prior, observations(rows, f.priors...)); err != nil {
			return r, err
		}
	}
	if r.fit.Coefficients, err = latency.Estimate(r.prior, r.obs); err != nil {
		return r, err
	}
	r.fit.Rows = rowsOf(r.obs)
	r.sample = summary("in sample", predictAll(r.fit.Coefficients, r.obs))
	return r, r.holdOut(rows, f)
}

// unseen are the fits that a family may start from, none of which has seen a row
// of it: first its own prior, then what the other families' fits are without it
// in their priors.
func unseen(rows []row, f family, prior latency.Coefficients) ([]latency.Fit, error) {
	out := []latency.Fit{{Name: "other versions", Coefficients: prior}}
	for _, other := range families()[1:] {
		if other.fit.Name == f.fit.Name {
			continue
		}
		priors := slices.DeleteFunc(slices.Clone(other.priors), func(name string) bool { return slices.Contains(f.rows, name) })
		k, err := latency.Estimate(latency.Physical(), observations(rows, priors...))
		if err != nil {
			return nil, err
		}
		if k, err = latency.Estimate(k, observations(rows, other.rows...)); err != nil {
			return nil, err
		}
		out = append(out, latency.Fit{Name: other.fit.Name, Coefficients: k})
	}
	return out, nil
}

func rowsOf(obs []latency.Observation) []latency.Rows {
	var out []latency.Rows
	for _, o := range obs {
		like := latency.Rows{Model: o.Model.Name, GPU: o.GPU.Name, TP: o.Config.Parallelism.TP}
		i := slices.IndexFunc(out, func(r latency.Rows) bool { r.N = 0; return r == like })
		if i < 0 {
			i, out = len(out), append(out, like)
		}
		out[i].N++
	}
	return out
}

// fill gives f the errors of pooled for what its own rows do not show.
func fill(f *latency.Fit, pooled latency.Fit) {
	for _, e := range []struct {
		own  *latency.Error
		from latency.Error
	}{
		{&f.TTFT, pooled.OtherModel.TTFT},
		{&f.TPOT, pooled.OtherModel.TPOT},
		{&f.OtherTP.TTFT, pooled.OtherTP.TTFT},
		{&f.OtherTP.TPOT, pooled.OtherTP.TPOT},
		{&f.OtherModel.TTFT, pooled.OtherModel.TTFT},
		{&f.OtherModel.TPOT, pooled.OtherModel.TPOT},
		{&f.OtherGPU.TTFT, pooled.OtherGPU.TTFT},
		{&f.OtherGPU.TPOT, pooled.OtherGPU.TPOT},
		{&f.OtherVersion.TTFT, pooled.OtherVersion.TTFT},
		{&f.OtherVersion.TPOT, pooled.OtherVersion.TPOT},
		{&f.SixPoints.TTFT, pooled.SixPoints.TTFT},
		{&f.SixPoints.TPOT, pooled.SixPoints.TPOT},
	} {
		if e.own.N == 0 {
			*e.own = e.from
		}
	}
}

// widest is the error with the larger median.
func widest(a, b latency.Error) latency.Error {
	if b.Median > a.Median {
		return b
	}
	return a
}
