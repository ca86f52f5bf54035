package main

import (
	"fmt"
	"strings"

	"plimsoll/engine/latency"
)

// page is Markdown in the making.
type page struct{ strings.Builder }

func (p *page) line(format string, a ...any) { p.WriteString(fmt.Sprintf(format, a...) + "\n") }

func (p *page) table(columns ...string) {
	p.line("\n| %s |", strings.Join(columns, " | "))
	p.line("|%s", strings.Repeat("---|", len(columns)))
}

func (p *page) row(cells ...string) { p.line("| %s |", strings.Join(cells, " | ")) }

// markdown is FIT.md.
func (s study) markdown() []byte {
	var p page
	p.line("# How the latency model was fitted, and how far off it is")
	p.line("\nWritten by `make fit` from `testdata/rows.csv` (sources and licences in `testdata/README.md`); a test refits and compares.")
	p.line("Errors are |predicted/measured − 1| in %%, as median / mean / 90th percentile (number of points); all but *in sample* are of rows that the coefficients have not seen.")
	p.method()
	p.coefficients(s.results)
	p.heldOut(s.results)
	p.versions(s.results)
	p.coverage(s.unlike)
	p.sixPoints(s.results, s.within)
	p.profile(s.h200)
	p.picks(s.chosen)
	p.targets(s)
	return []byte(p.String())
}

func (p *page) method() {
	p.line("\n## Form\n")
	p.line("step = max(weights, matrix products) + attention + KV + per layer + per step + per layer of a step with a prompt + per sequence + collectives (latency and bytes);")
	p.line("`work.go` has the physics, `coefficients.go` what is fitted, `load.go` how TTFT and TPOT of a loaded engine follow from steps.")
	p.line("Σ(ln(predicted/measured)/0.04)² + Σ(ln(k/prior)/spread)² is minimised over ln k (`solve.go`), with a spread of %g for factors and %g for spans; no factor goes below the data sheet's speed, but for the all-reduce's, whose bytes a switch that adds up halves.", latency.FactorSpread, latency.SpanSpread)
	p.line("The prior of a version of vLLM is the fit to the other versions, that of TensorRT-LLM and of the vLLM of 2023 the fit to recent vLLM, that of all recent vLLM round numbers from physics (`Physical`).")
	p.line("The maximum of weights and products was chosen over their sum and p-norms of 2 and 4 for its errors on held-out TP and versions (on the H200 the sum was nearer before calibration); spreads from 0.15 to 1 hardly differ there.")
	p.line("So those errors helped to choose the form, and no coefficient; the waiting for a step scheduled ahead was found in the residuals of 0.15.1. The H200 rows chose nothing.")
	p.line("\n- **Closed loop**: TPOT only; TTFT there is how the client's requests bunch. A prompt interrupts the others for as long as steps with it take longer. What the KV cache cannot hold waits (Little's law).")
	p.line("- **Open loop** (0.15.1): ITL and TTFT; the request waits for the running step, and for the one scheduled ahead.")
	p.line("- **One at a time** (Splitwise, H200): TTFT is the prompt's steps and the time per request.")
	p.line("- TensorRT-LLM above %d in flight is left out: at TP4 and TP8 TPOT falls by half from 64 to 128 in flight while TTFT grows fivefold: the client decides there.", trtMostInFlight)
}

func (p *page) coefficients(results []result) {
	p.line("\n## Coefficients\n\nFactors over the data sheet; spans in µs.")
	p.table("fit", "points", "weights", "experts", "KV", "FLOPs", "FLOPs ≤ 8 bit", "attention", "all-reduce", "layer", "collective", "prompt layer", "sequence", "step", "request")
	for _, r := range results {
		k := r.fit.Coefficients
		cells := []string{"`" + r.fit.Name + "`", fmt.Sprint(len(r.obs))}
		for _, x := range []float64{k.Weights, k.Experts, k.KV, k.FLOPs, k.LowFLOPs, k.Attention, k.AllReduce} {
			cells = append(cells, fmt.Sprintf("%.2f", x))
		}
		for _, x := range []float64{k.Layer, k.Collective, k.PrefillLayer, k.Request, k.Step, k.Overhead} {
			cells = append(cells, fmt.Sprintf("%.3g", 1e6*x))
		}
		p.row(cells...)
	}
	p.line("\nWhat a family's rows say little about stays at its prior: experts outside of 0.15.1, FLOPs of the other precision, the time per request where no row has a TTFT.")
	p.line("What batches cost in `vllm-2023` is split between KV and sequences by the prior alone: its rows have one context length.")
}

func (p *page) heldOut(results []result) {
	p.line("\n## Held out within a family\n\nEach row's TTFT and TPOT are left out together. “–”: one group only, so that the fit states the pooled one's error (on another GPU, that on the H200 below); a fit without any TTFT states that of other versions.")
	for _, what := range []string{"TPOT", "TTFT"} {
		p.table(what, "in sample", "leave-one-out", "leave-one-TP-out", "leave-one-model-out", "leave-one-GPU-out", "naive (weights+KV)/BW")
		for _, r := range results {
			if of(what, r.sample).N == 0 {
				continue
			}
			same := latency.Held{TTFT: r.fit.TTFT, TPOT: r.fit.TPOT}
			naive := "–"
			if what == "TPOT" {
				naive = text(summary("", naiveTPOT(r.obs)).TPOT)
			}
			p.row("`"+r.fit.Name+"`", text(of(what, r.sample)), text(of(what, same)), text(own(r, of(what, r.fit.OtherTP))),
				text(own(r, of(what, r.fit.OtherModel))), text(own(r, of(what, r.fit.OtherGPU))), naive)
		}
	}
	p.line("\nThe rows of 0.15.1 repeat few loads with other settings, so that leaving one out flatters: leaving out a model or a TP tells more.\nBeside it, as published, medians over runs: BLIS ITL 7.1, TTFT 17.6 on its held-out configurations; AIConfigurator 0.9.0 ITL 13.2 in the comparison that BLIS's authors made.")
}

func (p *page) versions(results []result) {
	p.line("\n## Another engine version\n\nThe prior, which has seen no row of the family, on the family: what an unmeasured version may be off by. The form carries over, the constants do not: measure a few points.")
	p.table("family", "TPOT", "TTFT")
	for _, r := range results[1:] {
		p.row("`"+r.fit.Name+"`", text(r.prior.TPOT), text(r.prior.TTFT))
	}
}

func (p *page) sixPoints(results []result, within []withinResult) {
	p.line("\n## Calibrated on six points\n\nThe error on all other points. Random: %d draws of six; median of the draws' medians, and their 10th and 90th percentile. Chosen: the six that `Informative` asks for, by the prior alone.", numDraws)
	p.line("\nAnother version: the prior is the fit to other versions, or of that and the fits to every other family (made without these rows) the nearest, `Nearest`, to the six.")
	p.table("rows", "latency", "before", "six random", "six random, nearest prior", "six chosen", "nearest prior there")
	for _, r := range results[1:] {
		for _, d := range r.six {
			before := r.prior.TPOT
			if d.ttft {
				before = r.prior.TTFT
			}
			p.row("`"+r.fit.Name+"`", d.what(), percent(before.Median), percent(d.at(0.5))+" ("+d.spread()+")", percent(d.nearestAt(0.5))+" ("+d.nearestSpread()+")", percent(d.chosen.Median), d.from)
		}
	}
	p.line("\n`Nearest` takes the fit with the largest evidence: to take the one with the least error before calibration left more on these rows.")
	p.line("`Informative` is D-optimal: choices that are A-optimal for the predictions left more, where the six came from random 60 %% of these rows. So both were chosen by such errors, which flatters them a little.")
	p.line("\nAnother TP of the same engine: the prior is the fit to its other TPs.")
	p.table("rows", "latency", "before", "six random", "six chosen")
	for _, w := range within {
		p.row(fmt.Sprintf("`%s` TP%d", w.family, w.tp), w.after.what(), percent(w.before.Median), percent(w.after.at(0.5))+" ("+w.after.spread()+")", percent(w.after.chosen.Median))
	}
}

func (p *page) picks(all []pickResult) {
	p.line("\n## The best configuration under an SLA\n\nEach closed-loop table (TP × concurrency at one ISL and OSL) is predicted by a fit without its rows; the choice under many caps is looked up in the table.")
	p.line("The formula is `ClosedLoop`; the simulation runs the loop through `engine/sim` (`fit/simulate.go`): all requests in flight start at once and each that ends is followed at once, %d times over,", requestsPerPlace)
	p.line("lengths are those of `testdata/README.md`, and the engine has the batch budget that vLLM and TensorRT-LLM document as the default on an H100, 8192 tokens. What the measuring clients did is not published: that is assumed.")
	p.line("Measured closed-loop TTFT is how such a client's requests bunch, which the formula takes to come independently.")
	for _, caps := range []struct {
		what string
		of   func(pickResult) verdicts
	}{
		{"caps on TPOT", func(r pickResult) verdicts { return r.itl }},
		{"caps on TTFT and TPOT", func(r pickResult) verdicts { return r.both }},
	} {
		p.table(caps.what, "predicted by", "tables", "caps", "same", "within 3 %", "over a cap", "worse")
		for _, r := range all {
			v := caps.of(r)
			share := func(n int) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(v.caps)) }
			p.row("`"+r.family+"`", r.by, fmt.Sprint(r.tables), fmt.Sprint(v.caps), share(v.equal), share(v.close), share(v.over), share(v.poor))
		}
	}
	p.table("error on the tables", "predicted by", "TTFT", "TPOT")
	for _, r := range all {
		p.row("`"+r.family+"`", r.by, text(r.errors.TTFT), text(r.errors.TPOT))
	}
}

func of(what string, h latency.Held) latency.Error {
	if what == "TTFT" {
		return h.TTFT
	}
	return h.TPOT
}

// own is an error that r's own rows have shown; zero where it was taken over.
func own(r result, e latency.Error) latency.Error {
	if !strings.HasSuffix(e.Basis, basis("", r.fit.Name)) {
		return latency.Error{}
	}
	return e
}

func text(e latency.Error) string {
	if e.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f / %.1f / %.1f (%d)", 100*e.Median, 100*e.Mean, 100*e.P90, e.N)
}

func percent(x float64) string { return fmt.Sprintf("%.1f", 100*x) }

func (d draws) what() string {
	if d.ttft {
		return "TTFT"
	}
	return "TPOT"
}

func (d draws) nearestSpread() string {
	return fmt.Sprintf("%.1f to %.1f", 100*d.nearestAt(0.1), 100*d.nearestAt(0.9))
}

func (d draws) spread() string { return fmt.Sprintf("%.1f to %.1f", 100*d.at(0.1), 100*d.at(0.9)) }
