package main

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"plimsoll/engine/accuracy"
	"plimsoll/engine/latency"
	"plimsoll/engine/operator"
)

const intro = `# Accuracy of the latency model

Written by ` + "`make accuracy`" + `. Nobody edits this page by hand.

Without a GPU, Plimsoll adds up the operators of a step: matrix products, attention, experts and collectives. Each is a curve fitted to measured kernels. To these it adds what only whole engines show, such as the host's time per step and per request, by engine, model and GPU. Then it simulates the load: batching, chunked prefill, queues.

This page says how far off that was on measured rows that it had not seen. A **group** is one model, weights, GPU and engine. Rows are held out by group or by layout, never one by one.

| what was known | |
|---|---|
| **new model** | nothing of the model; other models on the same engine |
| **new GPU** | the model on other GPUs, or with other weights |
| **new version** | the group and all others, but nothing of that version of the engine |
| **same group** | half of the group's layouts and prompt lengths; errors are on the other half |
| **no kernels** | as "new GPU", and no kernel of the GPU was measured: those of another are scaled by the data sheets (✱ in plans) |

An error is predicted / measured − 1, without its sign.

`

// page is docs/accuracy.md; torch are the errors on testdata/gpu, logs recorded loads.
func page(all []*study, rows []accuracy.Row, torch latency.Held, logs []recorded) []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	overall(&b, all)
	factors(&b, all)
	groups(&b, all)
	kernels(&b)
	leftOut(&b, rows)
	requests(&b, logs)
	own(&b, torch)
	others(&b)
	return bars.ReplaceAll(b.Bytes(), []byte("|"))
}

// bars are those of tables; numbers do without the spaces around them.
var bars = regexp.MustCompile(` ?\| ?`)

var kindNames = [accuracy.Kinds]string{"TPOT", "TTFT, prompts alone and open loops", "TTFT, closed loops"}

func overall(b *bytes.Buffer, all []*study) {
	b.WriteString("## In short\n\nMedian of the groups' medians / worst group's median / 90th percentile of all rows.\n\n| | new model | new GPU | new version | same group | no kernels |\n|---|---|---|---|---|---|\n")
	for kind, name := range kindNames {
		for _, moe := range []bool{false, true} {
			var sum [numLevels]accuracy.Tally
			for _, s := range all {
				for _, h := range s.held {
					for l := range sum {
						if h.row.Model.MoE() == moe {
							sum[l].Add(h.r[l])
						}
					}
				}
			}
			fmt.Fprintf(b, "| %s, %s |", name, kindOf(moe))
			for _, l := range []level{model, group, version, half, tables} {
				median, worst, p90 := sum[l].Of(kind)
				fmt.Fprintf(b, " %s |", triple(median, worst, p90))
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\nA closed-loop benchmark starts all its requests at once, so most of its TTFT is queueing. Production traffic arrives at random and queues less. To size a fleet, read the open-loop rows; few were measured.\n\n")
	dense, experts := latency.PublicDense, latency.PublicExperts
	fmt.Fprintf(b, "On %s, TPOT is off by %s in the median group and %s in the worst; %s, by %s and %s. %s, and %s: estimates there are likely too optimistic. Plans state no ITL nearer than that, but after six points of your own engine.\n\n",
		dense.Basis, percent(dense.Median), percent(dense.Worst), strings.TrimPrefix(experts.Basis, "rows of public tables that no fit saw, "), percent(experts.Median), percent(experts.Worst), latency.PublicAMD.Slower, latency.PublicMLA.Slower)
}

// factors is how often stated factors held.
func factors(b *bytes.Buffer, all []*study) {
	b.WriteString("## Stated factors\n\nPlans state a factor by which nine of ten measurements lie from the estimate at most. It widens with all that was not measured: model, GPU, kernels, or version of the engine. Here each group's factor comes from other groups: the median, and in how many groups it held for 80 % of rows or more.\n\n| | new model | new GPU | new version | no kernels |\n|---|---|---|---|---|\n")
	for kind, name := range kindNames {
		for _, moe := range []bool{false, true} {
			what := name + ", " + kindOf(moe)
			if kind == accuracy.TTFT { // of three groups, all together
				what = name
			}
			if kind == accuracy.TTFT && moe {
				continue
			}
			fmt.Fprintf(b, "| %s |", what)
			for _, l := range []level{model, group, version, tables} {
				fmt.Fprintf(b, " %s |", coverage(all, l, kind, moe))
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n")
}

// coverage is the median of what was stated of each group by others, and in how many it
// held for 80 % of rows.
func coverage(all []*study, l level, kind int, moe bool) string {
	var hs []*held
	for _, s := range all {
		hs = append(hs, slices.DeleteFunc(slices.Clone(s.held), func(h *held) bool { return kind != accuracy.TTFT && h.row.Model.MoE() != moe })...)
	}
	var stated []float64
	holds := 0
	for _, h := range hs {
		var others []accuracy.Residuals
		for _, o := range hs {
			if o.group != h.group && (l != model || o.row.Model.Name != h.row.Model.Name) {
				others = append(others, o.r[l])
			}
		}
		e := accuracy.Across("", others)
		factor := [accuracy.Kinds]latency.Error{e.TPOT, e.TTFT, e.Closed}[kind].Factor90
		rows, within := 0, 0
		for i := kind; i < len(h.r[l]); i += accuracy.Kinds {
			if off := math.Abs(h.r[l][i]); !math.IsNaN(off) {
				rows++
				if off <= math.Log(factor) {
					within++
				}
			}
		}
		if rows < accuracy.FewestRows {
			continue
		}
		stated = append(stated, factor)
		if 5*within >= 4*rows {
			holds++
		}
	}
	if len(stated) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f (%d/%d)", quantile(stated), holds, len(stated))
}

func kindOf(moe bool) string {
	if moe {
		return "experts"
	}
	return "dense"
}

func triple(median, worst, p90 float64) string {
	if math.IsNaN(median) {
		return "–"
	}
	return fmt.Sprintf("%s/%s/%s", percent(median), percent(worst), percent(p90))
}

func percent(x float64) string {
	return fmt.Sprintf("%.2g%%", 100*x)
}

func groups(b *bytes.Buffer, all []*study) {
	b.WriteString("## By group\n\nMedian errors: new model/new GPU/same group; TTFT is of closed loops where there are any. Factor: nine of ten TPOTs of the same group lay within it. Versions: releases that rows name; the fit of such a version states the group's own factor.\n\n| GPU | model | engine | versions | rows | TPOT | factor | TTFT |\n|---|---|---|---|---|---|---|---|\n")
	var hs []*held
	for _, s := range all {
		hs = append(hs, s.held...)
	}
	slices.SortFunc(hs, func(x, y *held) int {
		return strings.Compare(x.row.GPU.Name+x.group, y.row.GPU.Name+y.group)
	})
	for _, h := range hs {
		r := h.row
		var later, first []string
		for _, l := range []level{model, group, half} {
			s := accuracy.Summary("", h.r[l])
			later = append(later, cell(s.TPOT))
			if s.Closed.N > 0 {
				s.TTFT = s.Closed
			}
			first = append(first, cell(s.TTFT))
		}
		factor := "–"
		if e := accuracy.Summary("", h.r[half]).TPOT; e.N > 0 {
			factor = fmt.Sprintf("%.2f", e.Factor90)
		}
		releases := slices.DeleteFunc(slices.Clone(h.said), func(v string) bool { return v[0] < '0' || v[0] > '9' })
		fmt.Fprintf(b, "| %s | %s, %s | %s | %s | %d | %s | %s | %s |\n", r.GPU.Name, shortName(r.Model.Name), r.Config.Weights, r.Config.Kind, strings.Join(releases, ", "),
			len(h.r[model])/accuracy.Kinds, strings.Join(later, "/"), factor, strings.Join(first, "/"))
	}
	b.WriteString("\n")
}

func cell(e latency.Error) string {
	if e.N == 0 {
		return "–"
	}
	return percent(e.Median)
}

func shortName(model string) string { return model[strings.LastIndex(model, "/")+1:] }

// kernels sums up the operators' curves.
func kernels(b *bytes.Buffer) {
	medians, p90s, gpus := map[operator.Kind][]float64{}, map[operator.Kind][]float64{}, map[operator.Kind]map[string]bool{}
	for _, c := range operator.Curves() {
		medians[c.Kind], p90s[c.Kind] = append(medians[c.Kind], c.Median), append(p90s[c.Kind], c.P90)
		if gpus[c.Kind] == nil {
			gpus[c.Kind] = map[string]bool{}
		}
		gpus[c.Kind][c.GPU] = true
	}
	fmt.Fprintf(b, "## Operators\n\n%d curves, fitted to measured kernels (ai-dynamo/aiconfigurator @ 095f58a51, Apache-2.0; `make fit`). Errors are on shapes left out of each fit: the median curve's median and 90th percentile.\n\n| operator | curves | GPUs | median | p90 |\n|---|---|---|---|---|\n", len(operator.Curves()))
	for _, k := range slices.Sorted(maps.Keys(medians)) {
		fmt.Fprintf(b, "| %s | %d | %d | %s | %s |\n", k, len(medians[k]), len(gpus[k]), percent(quantile(medians[k])), percent(quantile(p90s[k])))
	}
	b.WriteString("\n")
}

func quantile(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

func leftOut(b *bytes.Buffer, rows []accuracy.Row) {
	reasons := map[string]int{}
	kept := 0
	for _, r := range rows {
		if r.Left == "" {
			kept++
			continue
		}
		why := r.Left
		if strings.Contains(why, "do not fit") || strings.Contains(why, "cuts its") {
			why = "cannot run as the table says"
		}
		reasons[why]++
	}
	fmt.Fprintf(b, "## Rows\n\n%d rows: InferenceX and NVIDIA's own runs as published with AIConfigurator, vLLM 0.15.1 as published with inference-sim, NVIDIA's profile of Llama-3.1-8B on H200. Tables do not say every flag. KV cache types, step sizes, memory shares and SGLang's `--scheduler-recv-interval` are those of InferenceX's scripts when the rows were measured; other KV types are what capacities and times agree with. Left out:\n\n", kept)
	for _, why := range slices.SortedFunc(maps.Keys(reasons), func(x, y string) int { return reasons[y] - reasons[x] }) {
		fmt.Fprintf(b, "- %d: %s\n", reasons[why], why)
	}
	b.WriteString("\nSpeculative decoding is not in the tables. It shows in TPOT that falls where answers are longer, or in one of two equal rows that is a tenth faster.\n\n")
}

// own are the errors on the project's own engine.
func own(b *bytes.Buffer, torch latency.Held) {
	fmt.Fprintf(b, "## An engine that nobody fitted\n\n`testdata/gpu` runs Llama-3.1-8B in bf16 on PyTorch, measured on one H100-SXM. Its rows are in no fit and in no number above. vLLM's fit is off by %s in TTFT (median of %d prompt lengths; 90th percentile %s) and by %s in ITL (median of %d loads; %s).\n\n",
		percent(torch.TTFT.Median), torch.TTFT.N, percent(torch.TTFT.P90), percent(torch.TPOT.Median), torch.TPOT.N, percent(torch.TPOT.P90))
}

// others are figures that others publish of their own models.
func others(b *bytes.Buffer) {
	b.WriteString("## Others\n\nOn their own rows, so not to be compared digit by digit: BLIS reports a median error of 29.0 % in p99 TTFT and 7.1 % in ITL over 36 held-out runs. AIConfigurator 0.9.0 had 13.2 % in ITL, as measured by BLIS's authors. AIConfigurator 0.11, run on those of the rows above that it can represent, with the labels put right: TPOT 26 % for dense models and 24 % with experts, TTFT of closed loops 33 % and 37 % (medians of groups' medians, November 2026). It refuses loads that the KV cache does not hold; Plimsoll queues them.\n")
}
