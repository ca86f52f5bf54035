package main

import (
	"bytes"
	"fmt"
	"strings"
)

// text is what was found as people read it.
func (t tuning) text(b *bytes.Buffer, f tuneFile) {
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	for _, l := range t.fit.head(t.fit.file()) {
		switch {
		case strings.HasPrefix(l, "Load: "):
			line("Fit: %s", t.fit.facts.text(1))
			line("Report: %s", t.report.facts.text(1))
		case strings.HasPrefix(l, "Replayed: "):
			line("Seeds: %d to %d, the same for all settings; ± is the 95 %% interval of their mean", f.Seeds[0], f.Seeds[len(f.Seeds)-1])
		default:
			line("%s", l)
		}
	}
	line("Policy: %s, the fewest %s among settings that hold %g %%", f.Policy, f.Cost, 100*f.Target)
	line("Search: %d settings in %d of at most %d replays", f.Search.Settings, f.Search.Replays, f.Search.Budget)
	if !f.Search.Ended {
		line("INTERRUPTED: the tuned settings were replayed with %d of %d seeds", f.Search.Seeds, len(f.Seeds))
	}
	p := newTable("parameter", "default", "tuned", "searched")
	for _, x := range f.Parameters {
		p.row(x.Name, x.Default, x.Tuned, x.Searched)
	}
	b.WriteString("\n" + p.text("") + "\n" + t.figuresTable(f).text("") + "\n")
	for _, l := range t.foot(f) {
		line("%s", l)
	}
}

func (t tuning) figuresTable(f tuneFile) *table {
	head := []string{"part", "settings", "attained", "TTFT", "ITL", "time under SLO", "GPU-hours", "scalings"}
	if t.options.replay.usd > 0 {
		head = append(head, "USD")
	}
	out := newTable(head...)
	row := func(part, settings string, x tuneFiguresFile) {
		cells := []string{part, settings, x.Both.share(), x.TTFT.share(), x.ITL.share(), x.UnderSLO.share(), x.GPUHours.figure(), x.Scalings.figure()}
		if t.options.replay.usd > 0 {
			cells = append(cells, x.Money.figure())
		}
		out.row(cells...)
	}
	t.each(f, row)
	return out
}

// each goes through the parts' settings, as they are shown.
func (t tuning) each(f tuneFile, do func(part, settings string, x tuneFiguresFile)) {
	parts := []tunePartFile{f.Fit}
	if f.Report != nil {
		parts = append(parts, *f.Report)
	}
	for i, x := range parts {
		name := []string{"fit", "report"}[i]
		do(name, "default", x.Default)
		if t.changed() {
			do(name, "tuned", x.Tuned)
		}
	}
}

// foot says what is to be made of the figures.
func (t tuning) foot(f tuneFile) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	t.each(f, func(part, settings string, x tuneFiguresFile) {
		if x.HeldBack.Mean > 0 {
			add("%s, %s settings: the budget held them back in %s of decisions", part, settings, x.HeldBack.share())
		}
	})
	if t.changed() {
		add("tuned less default on the fit part, seed by seed: %s", f.Fit.Less.words(f.Cost))
		if f.Report != nil {
			add("tuned less default on the report part, seed by seed: %s", f.Report.Less.words(f.Cost))
			add("Optimism, fit less report: attained %+.2f points, %s saved against the default %+.1f points (%.1f %% less %.1f %%)",
				100*f.Optimism.Both, f.Cost, 100*f.Optimism.Saving, -100*f.Fit.Less.Share, -100*f.Report.Less.Share)
		}
	}
	if n := len(f.Search.Back); n > 0 {
		add("Put back to the default, since that cost nothing beyond the interval: %s", strings.Join(f.Search.Back, ", "))
	}
	switch {
	case f.Recommended:
		add("RECOMMENDED: %s", f.Why)
	case t.changed():
		add("NOT RECOMMENDED: %s", f.Why)
	default:
		add("THE DEFAULT SETTINGS STAY: %s", f.Why)
	}
	if f.Report != nil && !f.Holds {
		add("What is to be run does not hold %g %% on the report part", 100*f.Target)
	}
	add("Not modelled: %s", strings.Join(f.NotModelled, "; "))
	add("Again: %s", f.Command)
	return lines
}

func (d tuneDifferenceFile) words(cost string) string {
	half := func(m seedMean, times float64) string {
		if m.Half == nil {
			return ""
		}
		return fmt.Sprintf(" ± %.2g", times**m.Half)
	}
	return fmt.Sprintf("attained %+.2f%s points, %s %+.4g%s (%+.1f %%)", 100*d.Both.Mean, half(d.Both, 100), cost, d.Cost.Mean, half(d.Cost, 1), 100*d.Share)
}
