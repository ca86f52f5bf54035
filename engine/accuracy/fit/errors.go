package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/accuracy"
	"plimsoll/engine/latency"
)

const source = "InferenceX and NVIDIA's measurements in ai-dynamo/aiconfigurator @ 095f58a51, vLLM runs published with inference-sim, a profile of ai-dynamo/dynamo (all Apache-2.0)"

// fewest is from how many rows on a group's own errors count; with fewer, those of all
// groups do where they are wider.
const fewest = 16

// state writes the errors on rows held out into the fits.
func state(all []*study) []latency.Fit {
	var hs []*held
	for _, s := range all {
		hs = append(hs, s.held...)
	}
	of := func(l level, words string, ok func(*held) bool) latency.Held {
		var groups []accuracy.Residuals
		for _, h := range hs {
			if ok(h) && len(h.r[l]) > 0 {
				groups = append(groups, h.r[l])
			}
		}
		return accuracy.Across(words+", "+engine.Count(len(groups), "group"), groups)
	}
	// Three groups have a TTFT that is not a closed loop's: all of them together.
	first := func(h latency.Held, l level, words string) latency.Held {
		h.TTFT = of(l, words, func(h *held) bool { return h.row.Loop != accuracy.Closed }).TTFT
		return h
	}
	kind := func(moe bool) func(*held) bool { return func(h *held) bool { return h.row.Model.MoE() == moe } }
	var fits []latency.Fit
	for _, s := range all {
		f := s.fit
		f.Dense = first(of(model, "models left out, dense", kind(false)), model, "models left out")
		f.Experts = first(of(model, "models left out, with experts", kind(true)), model, "models left out")
		f.DenseVersion = first(of(version, "versions left out, dense", kind(false)), version, "versions left out")
		f.ExpertsVersion = first(of(version, "versions left out, with experts", kind(true)), version, "versions left out")
		f.NoKernels = of(tables, "kernels of the GPU left out", func(*held) bool { return true })
		f.SixPoints = of(six, "models left out, then six points of them", func(*held) bool { return true })
		for i := range f.Groups {
			g := &f.Groups[i]
			m := s.t.ps[where(s.t.ps, func(p point) bool { return modelOf(p) == g.Model })[0]].row.Model
			if g.GPU == "" {
				mine := func(h *held) bool { return h.row.Model.Name == g.Model }
				g.Held = wider(of(group, "GPUs and weights of the model left out", mine), first(of(group, "GPUs and weights of a model left out", kind(m.MoE())), group, "GPUs and weights of a model left out"))
				continue
			}
			own := accuracy.Residuals(nil)
			for _, h := range s.held {
				if h.row.Model.Name == g.Model && h.row.GPU.Name == g.GPU && h.row.Config.Weights == g.Weights {
					own = h.r[half]
				}
			}
			g.Held = wider(accuracy.Summary("layouts of the group left out", own), first(of(half, "layouts of a group left out", kind(m.MoE())), half, "layouts of a group left out"))
		}
		for i, g := range f.Groups { // a model's error on another GPU is at least that on its own
			for _, own := range f.Groups {
				if g.GPU == "" && own.Model == g.Model {
					h := &f.Groups[i].Held
					h.TPOT, h.TTFT, h.Closed = h.TPOT.Wider(own.TPOT), h.TTFT.Wider(own.TTFT), h.Closed.Wider(own.Closed)
				}
			}
		}
		fits = append(fits, f)
	}
	return fits
}

// off is how far a fit is off rows that are in none.
func off(rows []accuracy.Row, fit latency.Fit) (latency.Held, error) {
	var r accuracy.Residuals
	for _, row := range rows {
		m, err := latency.NewWith(row.Model, row.GPU, row.Engine(), fit)
		if err != nil {
			return latency.Held{}, err
		}
		p, err := accuracy.Predict(m, row)
		if err != nil {
			return latency.Held{}, err
		}
		r = r.Of(p, row)
	}
	return accuracy.Summary("", r), nil
}

// wider is own, or all where own has few rows and all is wider.
func wider(own, all latency.Held) latency.Held {
	if own.TTFT.N < fewest {
		own.TTFT = own.TTFT.Wider(all.TTFT)
	}
	if own.Closed.N < fewest {
		own.Closed = own.Closed.Wider(all.Closed)
	}
	if own.TPOT.N < fewest {
		own.TPOT = own.TPOT.Wider(all.TPOT)
	}
	return own
}

func write(path string, fits []latency.Fit) error {
	var b bytes.Buffer
	for i, f := range fits {
		groups := f.Groups
		f.Groups = nil
		head, err := json.Marshal(f)
		if err != nil {
			return err
		}
		lines := make([]string, len(groups))
		for j, g := range groups {
			line, err := json.Marshal(g)
			if err != nil {
				return err
			}
			lines[j] = string(line)
		}
		separator := "["
		if i > 0 {
			separator = ","
		}
		fmt.Fprintf(&b, "%s\n%s,\"groups\":[\n%s]}", separator, head[:len(head)-1], strings.Join(lines, ",\n"))
	}
	b.WriteString("]\n")
	return os.WriteFile(path, b.Bytes(), 0o644) //nolint:gosec // a file of the repository
}
