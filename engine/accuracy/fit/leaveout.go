package main

import (
	"fmt"
	"math"

	"plimsoll/engine/accuracy"
)

// waiting is the TTFT, in seconds, above which a closed loop's requests mostly wait for
// others: what an engine can hold decides there, and tables do not say it.
const waiting = 5

// leaveOut marks rows that say nothing of the engine's steps.
func leaveOut(rows []accuracy.Row) {
	seen := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		key := fmt.Sprint(r.Group(), r.Version, r.Config, r.Loop, r.ISL, r.OSL, r.Concurrency, r.Rate, fmt.Sprintf("%.5g %.5g", r.TPOT, r.TTFT))
		switch {
		case r.Left != "":
		case seen[key]:
			r.Left = "repeat"
		case r.Loop == accuracy.Closed && r.TTFT > waiting:
			r.Left = "waits for room in the KV cache"
		case unexplained(*r):
			r.Left = "unexplained: precision or flags are not those that the table says"
		}
		seen[key] = true
	}
	speculation(rows)
}

// unexplained are groups that no one explains, AIConfigurator neither.
func unexplained(r accuracy.Row) bool {
	switch r.Model.Name {
	case "Qwen/Qwen3-32B":
		return r.GPU.Name == "GB200" || r.Config.Weights == "fp8"
	case "openai/gpt-oss-120b":
		return r.GPU.Name == "H100-SXM"
	}
	return false
}

// speculation marks rows that were measured with speculative decoding, which tables do
// not say. The time per token falls where answers get eight times longer, as drafts get
// better; or one of two rows of the same load is a tenth faster.
func speculation(rows []accuracy.Row) {
	series := map[string][]int{}
	for i, r := range rows {
		if r.Left == "" && r.Loop == accuracy.Closed {
			k := fmt.Sprint(r.Group(), r.Version, r.Config.Parallelism)
			series[k] = append(series[k], i)
		}
	}
	for _, at := range series {
		drafted(rows, at)
	}
	for i := range rows {
		if r := &rows[i]; r.Left == "" && drafts(*r) {
			r.Left = speculative
		}
	}
}

const speculative = "taken for speculative decoding"

// drafts are versions of which all of a model's rows were found to be speculative.
func drafts(r accuracy.Row) bool {
	if r.Model.Name == "Qwen/Qwen3.5-397B-A17B" { // at TP 4 twice as fast as at TP 8
		return r.GPU.Name == "B200-SXM" && r.Config.Weights == "fp8" && r.Config.Parallelism.TP == 4 && r.Config.Parallelism.EP == 1
	}
	return r.Model.Name == "deepseek-ai/DeepSeek-R1" && r.Config.Kind == "trtllm" &&
		(r.Version == "1.2.0rc6.post3" || r.Version == "1.3.0rc1" || r.Version == "1.1.0rc2.post2" && r.Config.Parallelism.EP > 1)
}

// load is what rows of a series differ in.
type load struct{ concurrency, isl, osl int }

// drafted marks the rows of one series.
func drafted(rows []accuracy.Row, at []int) {
	points, alone := map[load][]float64{}, map[load]float64{}
	for _, i := range at {
		r := rows[i]
		l := load{r.Concurrency, r.ISL, r.OSL}
		points[l] = append(points[l], r.TPOT)
		alone[l] = max(alone[l], r.TTFT*float64(r.Concurrency-1)/float64(r.OSL)) // while the others' prompts hold decoding up
	}
	slowest := func(l load) (most float64) {
		for _, t := range points[l] {
			most = max(most, t)
		}
		return most
	}
	fastest := func(l load) float64 {
		least := math.Inf(1)
		for _, t := range points[l] {
			least = min(least, t)
		}
		return least
	}
	falls, twins := false, false
	for l := range points {
		twins = twins || fastest(l) < 0.9*slowest(l)
		if l.concurrency > 8 || l.osl > 1100 {
			continue
		}
		for _, osl := range []int{8 * l.osl, 7372} {
			long := load{l.concurrency, l.isl, osl}
			falls = falls || points[long] != nil && fastest(long)-alone[long] < 0.92*(fastest(l)-alone[l])
		}
	}
	for _, i := range at {
		l := load{rows[i].Concurrency, rows[i].ISL, rows[i].OSL}
		if falls && (!twins || len(points[l]) == 1) || twins && rows[i].TPOT < 0.9*slowest(l) {
			rows[i].Left = speculative
		}
	}
}
