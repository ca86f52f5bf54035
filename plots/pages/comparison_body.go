package pages

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/profile"
)

// comparisonBody is what the template shows.
type comparisonBody struct {
	Letters   [2]string
	Names     [2]string
	Summary   []string
	Estimated bool // intervals are a model's errors
	Picks     []figureTable
	Phases    []comparedPhase
	Facts     []factRow
	Charts    bool
	Behind    [2]sideBody
}

// figureTable is figures of both sides, under a title.
type figureTable struct {
	Title string
	At    string // at what load; empty: rows say
	Rows  []figureRow
}

// comparedPhase is what both sides looked at in a phase.
type comparedPhase struct {
	Phase profile.Phase
	Pairs []pointPair
}

// factRow is what each side says of one thing.
type factRow struct {
	Name   string
	Values [2]string
	Other  bool // they differ
}

// sideBody is what stands behind a side.
type sideBody struct {
	Letter, Name string
	Ending       Ending
	Verified     []string
	LeftOut      []Fact
	Assumptions  []string
	Command      string
}

func (c Comparison) body() comparisonBody {
	b := comparisonBody{Letters: sideLetters(), Facts: c.facts(), Charts: len(c.charts()) > 0}
	for i, s := range c.Sides {
		b.Names[i] = s.Name
		b.Estimated = b.Estimated || s.Provenance == profile.Estimated
		b.Behind[i] = sideBody{sideLetters()[i], s.Name, s.Ending, s.Verified, s.LeftOut, s.Assumptions, s.Command}
	}
	for _, phase := range c.Sides[0].phases() {
		x := figureTable{Title: string(phase), Rows: c.phaseRows(phase)}
		b.Picks = append(b.Picks, x)
		b.Phases = append(b.Phases, comparedPhase{phase, c.pairs(phase)})
		b.Summary = append(b.Summary, sentence(x))
	}
	b.Picks = append(b.Picks, c.costs())
	return b
}

// costs are what a request takes at both sides' recommended rates, or, where one has
// none, at the load of both picks' points.
func (c Comparison) costs() figureTable {
	recommended := c.Sides[0].recommends() && c.Sides[1].recommends()
	at := "at the recommended rates"
	if !recommended && c.Sides[0].aggregated() {
		at = "at the rate that held in the search"
	} else if !recommended {
		at = "at full closed-loop load"
	}
	row := func(name, unit string, of func(Profile, bool) quantity) figureRow {
		return rowOf(name, unit, of(c.Sides[0].Profile, recommended), of(c.Sides[1].Profile, recommended))
	}
	costs := figureTable{"cost", at, []figureRow{row("GPU time of a request", "GPU-seconds", Profile.gpuSeconds)}}
	if c.Sides[0].USD > 0 && c.Sides[1].USD > 0 {
		costs.Rows = append(costs.Rows, row("Cost of 1,000 requests", "USD", Profile.usdPerThousand))
	}
	return costs
}

// sentence says of a phase what was picked, and what became of its throughput.
func sentence(x figureTable) string {
	picks, last := x.Rows[0], x.Rows[len(x.Rows)-1]
	s := fmt.Sprintf("%s: %s in both", x.Title, picks.Values[0])
	if picks.Values[0] != picks.Values[1] {
		s = fmt.Sprintf("%s: A picks %s, B %s", x.Title, picks.Values[0], picks.Values[1])
	}
	if last.Change == "–" {
		return s + "; throughputs are not comparable."
	}
	share, _, _ := strings.Cut(last.Change, " (")
	if last.Shown {
		return fmt.Sprintf("%s; B's throughput per GPU is %s.", s, share)
	}
	return fmt.Sprintf("%s; throughput per GPU %s: %s.", s, share, last.Verdict)
}

// facts are those of either side, in the first's order.
func (c Comparison) facts() []factRow {
	var out []factRow
	for side, s := range c.Sides {
		for _, f := range s.Facts {
			i := slices.IndexFunc(out, func(r factRow) bool { return r.Name == f.Name })
			if i < 0 {
				i = len(out)
				out = append(out, factRow{Name: f.Name, Values: [2]string{"–", "–"}})
			}
			out[i].Values[side] = f.Text
		}
	}
	for i := range out {
		out[i].Other = out[i].Values[0] != out[i].Values[1]
	}
	return out
}
