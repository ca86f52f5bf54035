package main

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine"
	dep "plimsoll/engine/deployment"
	"plimsoll/profile"
)

// star marks a GPU whose step times are from its data sheet alone.
const star = "✱"

func starred(gpu string, fromDataSheet bool) string {
	if fromDataSheet {
		return gpu + star
	}
	return gpu
}

// starred is the candidate's name with the mark.
func (c candidate) starred() string { return starred(c.name(), c.layout.FromDataSheet()) }

// starLine says what the mark means; off is the model's error there, zero = not known.
func starLine(off engine.Factors) string {
	line := star + " no kernels of this GPU were measured: from its data sheet"
	if most := max(off.TTFT, off.ITL); most > 1 {
		line += fmt.Sprintf(", error up to ×%.2f in nine of ten comparisons", most)
	}
	return line
}

// starNote is the legend of plans that have the mark, and why they come last.
func starNote(plans ...sizedPlan) []string {
	var off engine.Factors
	var nodes []string
	marked := 0
	for _, p := range plans {
		nodes = append(nodes, modelLines(p.Warnings)...)
		if p.candidate.layout.FromDataSheet() {
			marked++
			off = engine.Factors{TTFT: max(off.TTFT, p.candidate.off.TTFT), ITL: max(off.ITL, p.candidate.off.ITL)}
		}
	}
	switch marked {
	case 0:
	case len(plans):
		nodes = append(nodes, starLine(off))
	default:
		nodes = append(nodes, starLine(off)+"; ranked behind measured GPUs that hold the SLO")
	}
	return slices.Compact(nodes)
}

// starredBelow is the legend of a run on one GPU that warnings say so of.
func starredBelow(ws []profile.Warning, ttft, itl profile.ModelError) []string {
	lines := modelLines(ws)
	if fromDataSheet(ws) {
		lines = append(lines, starLine(engine.FactorsOf(ttft.Factor90, itl.Factor90)))
	}
	return lines
}

// modelLines are the layouts that span servers, with the network assumed between them, and
// what is likely too optimistic.
func modelLines(ws []profile.Warning) (lines []string) {
	for _, w := range ws {
		if said, _, _ := strings.Cut(w.Message, ". "); w.Code == dep.CodeNodes || w.Code == dep.CodeSlower {
			lines = append(lines, said)
		}
	}
	return lines
}

// fromDataSheet reports whether warnings say so of the GPU that they are about.
func fromDataSheet(ws []profile.Warning) bool {
	return slices.ContainsFunc(ws, func(w profile.Warning) bool { return w.Code == dep.CodeDataSheet })
}
