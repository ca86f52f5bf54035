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
	from   latency.Coefficients // the prior
	sample latency.Held         // error on the rows that made the fit
	prior  latency.Held         // error of the prior on them: zero where there is none
	h200   latency.Held         // error on the rows of the H200
	six    []draws              // calibrations of the prior on six of the rows
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
	unlike := otherVersions(results)
	for i := range results {
		// What a fit is off by on an engine of which it has no row: as far as recent
		// versions of vLLM were from each other, and as its own rows from the rest.
		f := &results[i].fit
		f.OtherVersion, f.SixPoints = wider(unlike.OtherVersion, results[i].prior), wider(unlike.SixPoints, sixHeld(results[i]))
	}
	for i := range results {
		results[i].fit.OtherGPU = otherGPU(results, i)
		fill(&results[i].fit, results[0].fit)
	}
	return results, nil
}

// otherGPU is what another GPU adds to the error of fit i: its own leave-one-GPU-out;
// without, figure by figure the larger of another's and of what the H200, whose
// engine is another too, shows beyond that.
func otherGPU(results []result, i int) latency.Held {
	r := results[i]
	if own(r, r.fit.OtherGPU.TPOT).N > 0 {
		return r.fit.OtherGPU
	}
	var out latency.Held
	for _, o := range results {
		if own(o, o.fit.OtherGPU.TPOT).N > 0 {
			out = wider(out, o.fit.OtherGPU)
		}
	}
	return latency.Held{TTFT: larger(out.TTFT, r.h200.TTFT.Beyond(r.fit.OtherVersion.TTFT)), TPOT: larger(out.TPOT, r.h200.TPOT.Beyond(r.fit.OtherVersion.TPOT))}
}

// larger is the larger of both errors, each figure by itself.
func larger(a, b latency.Error) latency.Error {
	out := a.Wider(b)
	out.Median, out.Mean, out.P90 = max(a.Median, b.Median), max(a.Mean, b.Mean), max(a.P90, b.P90)
	out.Factor50, out.Factor90 = max(a.Factor50, b.Factor50), max(a.Factor90, b.Factor90)
	return out
}

// otherVersions are the widest errors on recent versions of vLLM, each predicted
// from the others.
func otherVersions(results []result) (f latency.Fit) {
	for _, r := range results {
		if slices.Contains(recent, r.fit.Name) {
			f.OtherVersion, f.SixPoints = wider(f.OtherVersion, r.prior), wider(f.SixPoints, sixHeld(r))
		}
	}
	return f
}

func wider(a, b latency.Held) latency.Held {
	return latency.Held{TTFT: a.TTFT.Wider(b.TTFT), TPOT: a.TPOT.Wider(b.TPOT)}
}

func fitOne(rows []row, f family) (result, error) {
	r := result{fit: f.fit, obs: observations(rows, f.rows...), from: latency.Physical()}
	var err error
	if len(f.priors) > 0 {
		if r.from, err = latency.Estimate(r.from, observations(rows, f.priors...)); err != nil {
			return r, err
		}
	}
	if r.fit.Coefficients, err = latency.Estimate(r.from, r.obs); err != nil {
		return r, err
	}
	r.fit = r.fit.On(r.obs)
	if r.sample, err = errorsOf("in sample", r.fit.Coefficients, r.obs); err != nil {
		return r, err
	}
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

// fill gives f the errors of pooled for what its own rows do not show. Where it
// has no TTFT at all, its TTFT is that of other versions.
func fill(f *latency.Fit, pooled latency.Fit) {
	for _, e := range []struct {
		own  *latency.Error
		from latency.Error
	}{
		{&f.TTFT, f.OtherVersion.TTFT},
		{&f.OtherTP.TTFT, pooled.OtherTP.TTFT},
		{&f.OtherTP.TPOT, pooled.OtherTP.TPOT},
		{&f.OtherModel.TTFT, pooled.OtherModel.TTFT},
		{&f.OtherModel.TPOT, pooled.OtherModel.TPOT},
	} {
		if e.own.N == 0 {
			*e.own = e.from
		}
	}
}
