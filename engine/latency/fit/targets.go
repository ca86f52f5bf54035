package main

import (
	"fmt"
	"slices"

	"plimsoll/engine/latency"
)

// goal is a target beside what was reached: a median in %, or a share.
type goal struct {
	what    string
	want    float64
	reached []float64
	where   []string
}

func (g *goal) add(where string, x float64) {
	g.reached, g.where = append(g.reached, x), append(g.where, where)
}

// targets lists the goals that were set beforehand, with each family's figure.
func (p *page) targets(s study) {
	p.line("\n## Targets\n\nMedian errors in %%, set before fitting; a figure over its target is marked ✗.")
	p.table("target", "at most", "reached")
	for _, g := range s.goals() {
		cells := ""
		for i, x := range g.reached {
			mark := ""
			if 100*x > g.want {
				mark = " ✗"
			}
			cells += fmt.Sprintf("%s %.1f%s; ", g.where[i], 100*x, mark)
		}
		p.row(g.what, fmt.Sprintf("%g", g.want), cells)
	}
	cells := ""
	for _, c := range s.chosen {
		if c.by != byFormula {
			continue
		}
		cells += fmt.Sprintf("%s %.0f %% of %d caps; ", c.family, 100*float64(c.itl.equal+c.itl.close)/float64(c.itl.caps), c.itl.caps)
	}
	p.row("best configuration under a TPOT cap, same or within 3 %", "all", cells)
	p.line("\nWhy not where not: a new version moves constants that six points do not fix all at once (what vLLM 0.12 spends per sequence of a step is %.1f times that of 0.15.1);", s.fit("vllm-0.12").Coefficients.Request/s.fit("vllm-0.15.1").Coefficients.Request)
	p.line("the rows of 0.15.1 end at 20 requests/s and have two models; the vLLM of 2023 launches kernels one by one and jumps between 2048 and 4096 tokens, and its TP8 is slower than its TP4.")
}

func (s study) goals() []goal {
	tpot := goal{what: "TPOT, same engine, a TP that was not fitted", want: 7}
	tpotSix := goal{what: "TPOT, the same after six points of it", want: 3}
	version := goal{what: "TPOT, another version, after six points", want: 3}
	versionChosen := goal{what: "TPOT, another version, after six chosen points, from the nearest fit", want: 3}
	ttft := goal{what: "TTFT, same engine, a TP that was not fitted", want: 18}
	ttftSix := goal{what: "TTFT, the same after six points of it", want: 8}
	ttftVersion := goal{what: "TTFT, another version, after six points", want: 8}
	ttftVersionChosen := goal{what: "TTFT, another version, after six chosen points, from the nearest fit", want: 8}
	for _, r := range s.results[1:] {
		if e := own(r, r.fit.OtherTP.TPOT); e.N > 0 {
			tpot.add(r.fit.Name, e.Median)
		}
		if e := own(r, r.fit.OtherTP.TTFT); e.N > 0 {
			ttft.add(r.fit.Name, e.Median)
		}
		for _, d := range r.six {
			if d.ttft {
				ttftVersion.add(r.fit.Name, d.at(0.5))
				ttftVersionChosen.add(r.fit.Name, d.chosen.Median)
			} else {
				version.add(r.fit.Name, d.at(0.5))
				versionChosen.add(r.fit.Name, d.chosen.Median)
			}
		}
		for _, isTTFT := range []bool{false, true} {
			var medians []float64
			for _, w := range s.within {
				if w.family == r.fit.Name && w.after.ttft == isTTFT {
					medians = append(medians, w.after.at(0.5))
				}
			}
			if len(medians) == 0 {
				continue
			}
			slices.Sort(medians)
			if middle := medians[len(medians)/2]; isTTFT {
				ttftSix.add(r.fit.Name, middle)
			} else {
				tpotSix.add(r.fit.Name, middle)
			}
		}
	}
	return []goal{tpot, tpotSix, version, versionChosen, ttft, ttftSix, ttftVersion, ttftVersionChosen}
}

// fit is the fit of that name.
func (s study) fit(name string) latency.Fit {
	i := slices.IndexFunc(s.results, func(r result) bool { return r.fit.Name == name })
	return s.results[i].fit
}
