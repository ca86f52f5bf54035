package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/plots/pages"
	"plimsoll/profile"
)

// What the demands that a page offers are of the one that was asked for.
func rateSteps() []float64    { return []float64{0.5, 0.75, 1, 1.5, 2} }
func latencySteps() []float64 { return []float64{0.5, 1, 2} }

// stop is a place of an axis: a number as it is shown, and as a flag has it.
type stop struct {
	value float64
	text  string
}

// stopsAround are the steps times a number, each short enough to be a flag's, and
// the number itself as it is.
func stopsAround(own float64, steps []float64) (stops []stop, at int) {
	for i, k := range steps {
		v := own
		if k == 1 {
			at = i
		} else if short, err := strconv.ParseFloat(strconv.FormatFloat(own*k, 'g', 6, 64), 64); err == nil {
			v = short
		}
		stops = append(stops, stop{v, strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return stops, at
}

// grid sizes the cheapest plan for every demand that a page offers: as the plan
// itself was, so that the command of each gives the same.
func (o capacityOptions) grid(own sizedPlans, words planCommand) (pages.CapacityGrid, error) {
	words = words.atRate(o.workload.PeakQPS)
	var g pages.CapacityGrid
	var axes [3][]stop
	rates := rateSteps()
	if o.arrivals != nil { // a trace comes as it came
		rates = []float64{1}
	}
	for i, axis := range []struct {
		own   float64
		steps []float64
	}{{o.workload.PeakQPS, rates}, {profile.Milliseconds(o.slo.TTFTP99), latencySteps()}, {profile.Milliseconds(o.slo.ITLP99), latencySteps()}} {
		axes[i], g.Own[i] = stopsAround(axis.own, axis.steps)
	}
	for i, to := range []*[]float64{&g.QPS, &g.TTFT, &g.ITL} {
		for _, s := range axes[i] {
			*to = append(*to, s.value)
		}
	}
	g.Cells = make([]pages.CapacityCell, len(axes[0])*len(axes[1])*len(axes[2]))
	var done atomic.Int64
	err := atOnce(len(g.Cells), func(i int) error {
		at := [3]int{i / len(axes[2]) / len(axes[1]), i / len(axes[2]) % len(axes[1]), i % len(axes[2])}
		var err error
		if at == g.Own {
			g.Cells[i], err = cellOf(own.Plans, nil)
		} else {
			g.Cells[i], err = o.cell(axes[0][at[0]], axes[1][at[1]], axes[2][at[2]])
		}
		g.Cells[i].Command = words.with(at, g.Own, axes)
		if o.progress != nil {
			o.progress(fmt.Sprintf("sizing for the page, %d of %d", done.Add(1), len(g.Cells)))
		}
		return err
	})
	return g, err
}

// cell is the cheapest plan for another demand.
func (o capacityOptions) cell(qps, ttft, itl stop) (pages.CapacityCell, error) {
	ms := func(s stop) time.Duration { return time.Duration(math.Round(s.value * float64(time.Millisecond))) }
	o.slo.TTFTP99, o.slo.ITLP99 = ms(ttft), ms(itl)
	o.progress = nil
	if o.arrivals == nil {
		o.workload.PeakQPS = qps.value
	}
	z, err := o.chosen()
	if err != nil {
		return cellOf(nil, err)
	}
	return cellOf(z.plans, nil)
}

// cellOf is the cheapest of plans, or why there is none.
func cellOf(plans []sizedPlan, err error) (pages.CapacityCell, error) {
	switch {
	case errors.Is(err, capacity.ErrTooLarge):
		return pages.CapacityCell{Why: err.Error()}, nil
	case err != nil:
		return pages.CapacityCell{}, err
	case len(plans) == 0:
		return pages.CapacityCell{Why: "no layout was sized"}, nil
	case plans[0].Infeasible != nil:
		return pages.CapacityCell{Why: "no fleet holds it: " + plans[0].candidate.name() + ": " + plans[0].Infeasible.Why}, nil
	}
	return pages.CapacityCell{Plan: plans[0].shown()}, nil
}

// planCommand is a plan's command, whose demand can be another.
type planCommand struct{ flags [][2]string }

// planWords are the flags that were given, without those that say what is printed.
func planWords(c *cli.Context) planCommand {
	var out planCommand
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		switch name {
		case "report", "plot", "emit", "format", "quiet", "verbose", "help":
			continue
		}
		if !c.IsSet(name) {
			continue
		}
		if _, is := f.(*cli.BoolFlag); is {
			if c.Bool(name) {
				out.flags = append(out.flags, [2]string{name, ""})
			}
			continue
		}
		out.flags = append(out.flags, [2]string{name, c.String(name)})
	}
	return out
}

// with is the command with the demand at a place of the axes; what is as it was
// asked for stays as it was written.
func (p planCommand) with(at, own [3]int, axes [3][]stop) string {
	flags := slices.Clone(p.flags)
	for i, name := range []string{"peak-qps", "ttft-p99", "itl-p99"} {
		if at[i] == own[i] {
			continue
		}
		for k := range flags {
			if flags[k][0] == name {
				flags[k][1] = axes[i][at[i]].text
			}
		}
	}
	return planCommand{flags}.line()
}

// atRate is the command for a rate that was found.
func (p planCommand) atRate(qps float64) planCommand {
	flags := slices.Clone(p.flags)
	for i := range flags {
		if flags[i][0] == "gpu-count" {
			flags[i] = [2]string{"peak-qps", strconv.FormatFloat(qps, 'f', -1, 64)}
		}
	}
	return planCommand{flags}
}

// again is the command that writes the page.
func (p planCommand) again(file string) string {
	return planCommand{append(slices.Clone(p.flags), [2]string{"report", file})}.line()
}

// line is the command.
func (p planCommand) line() string {
	words := []string{"plimsoll", "capacity", "plan"}
	for _, f := range p.flags {
		words = append(words, "--"+f[0])
		if f[1] != "" {
			words = append(words, strings.TrimSpace(f[1]))
		}
	}
	return commandLine(words)
}
