package plots

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"gonum.org/v1/plot/vg"

	"plimsoll/profile"
)

// Caption says what a picture shows and how far to trust it.
type Caption struct {
	Model         string
	GPU           string
	Engine        string
	Configuration string // "TP:2", where the picture shows a single one
	ISL, OSL      int    // tokens; 0 = not stated
	SLA           profile.SLA
	EachRequest   bool // the SLA is held against each request, not against a statistic
	// Provenance of the weakest number shown. Anything but measured is written
	// across the picture.
	Provenance profile.Provenance
	// Implausible says which figures cannot be right; empty: none. It is the first line.
	Implausible string
	// Bars says what the intervals are; empty = 95 % confidence intervals.
	Bars string
	// Feasible is false where nothing meets the SLA and the nearest is shown.
	Feasible bool
	// Note is printed below: what is missing and why ("TP:4 failed to start").
	// A picture without points shows it in their place.
	Note string
}

func (c Caption) check() error {
	if _, err := c.Provenance.MarshalText(); err != nil {
		return fmt.Errorf("caption: %w", err)
	}
	if c.SLA.TTFT < 0 || c.SLA.ITL < 0 {
		return fmt.Errorf("caption: SLA of TTFT %v and ITL %v: want none below 0", c.SLA.TTFT, c.SLA.ITL)
	}
	if c.ISL < 0 || c.OSL < 0 {
		return fmt.Errorf("caption: ISL %d and OSL %d: want none below 0", c.ISL, c.OSL)
	}
	return nil
}

// barText names the intervals in the legend.
func (c Caption) barText() string {
	if c.Bars == "" {
		return "95 % confidence interval"
	}
	return shorten(clean(c.Bars), 28)
}

// against is what the SLA is held against: each request or a statistic, the mean
// where none is named.
func (c Caption) against() string {
	if c.EachRequest {
		return "each request"
	}
	return clean(string(cmp.Or(c.SLA.Stat, profile.Mean)))
}

// ofMeans is the caption of samples that are means, as a profile's surfaces are:
// it says so where the SLA is held against something else.
func (c Caption) ofMeans() Caption {
	if c.against() != string(profile.Mean) {
		c.Note = joinSet(" ", fmt.Sprintf("Samples are means: they show where the mean, not %s, meets the SLA.", c.against()), c.Note)
	}
	return c
}

// slaText is "SLA TTFT 200 ms (mean)".
func (c Caption) slaText(name string, d time.Duration) string {
	return fmt.Sprintf("SLA %s %s ms (%s)", name, number(ms(d)), c.against())
}

// lines are the subtitle: what ran, and what was asked of it.
func (c Caption) lines() []string {
	what := joinSet(" · ", shorten(clean(c.Model), 56), clean(c.Configuration), shorten(clean(c.GPU), 40), shorten(clean(c.Engine), 40))
	var asked []string
	if c.ISL > 0 {
		asked = append(asked, fmt.Sprintf("ISL %s tokens", number(float64(c.ISL))))
	}
	if c.OSL > 0 {
		asked = append(asked, fmt.Sprintf("OSL %s tokens", number(float64(c.OSL))))
	}
	stat, of := c.against()+" ", ""
	if c.EachRequest {
		stat, of = "", " ("+c.against()+")"
	}
	var sla []string
	if c.SLA.TTFT > 0 {
		sla = append(sla, fmt.Sprintf("%sTTFT ≤ %s ms", stat, number(ms(c.SLA.TTFT))))
	}
	if c.SLA.ITL > 0 {
		sla = append(sla, fmt.Sprintf("%sITL ≤ %s ms", stat, number(ms(c.SLA.ITL))))
	}
	if len(sla) > 0 {
		asked = append(asked, "SLA: "+strings.Join(sla, ", ")+of)
	}
	return []string{what, strings.Join(asked, " · ")}
}

// bands are the warnings that nobody may miss.
func (c Caption) bands(empty bool) []band {
	var bs []band
	if c.Implausible != "" {
		bs = append(bs, band{"IMPLAUSIBLE — " + c.Implausible, true})
	}
	switch c.Provenance {
	case profile.Measured, profile.Given: // no profile has what was given
	case profile.Simulated:
		bs = append(bs, band{"SIMULATED — not measured on a GPU", false})
	case profile.Estimated:
		bs = append(bs, band{"ESTIMATED — computed by a latency model, not measured", false})
	case profile.Published:
		bs = append(bs, band{"PUBLISHED — a rule of thumb from a table, not measured", false})
	}
	if c.Feasible || (c.SLA.TTFT == 0 && c.SLA.ITL == 0) {
		return bs
	}
	if empty {
		return append(bs, band{"NOTHING MEETS THE SLA: no points", true})
	}
	return append(bs, band{"NOTHING MEETS THE SLA: nearest shown", true})
}

type band struct {
	text   string
	failed bool
}

// watermark is the word written across the data; empty for measured.
func (c Caption) watermark() string {
	if c.Provenance == profile.Measured {
		return ""
	}
	return strings.ToUpper(c.Provenance.String())
}

const (
	margin     vg.Length = 18
	bandHeight vg.Length = 23
)

// header draws bands, title and subtitle from the top of the page down, and
// gives the height at which they end.
func (c Caption) header(p pen, title string, empty bool) vg.Length {
	y := pageHeight
	for _, b := range c.bands(empty) {
		colour := colourWarning()
		if b.failed {
			colour = colourFailed()
		}
		p.rect(colour, vg.Rectangle{Min: vg.Point{X: 0, Y: y - bandHeight}, Max: vg.Point{X: pageWidth, Y: y}})
		f := face{13, true}
		p.centred(f, colourPaper(), vg.Point{X: pageWidth / 2, Y: y - bandHeight/2}, f.fit(b.text, pageWidth-2*margin))
		y -= bandHeight + 1
	}
	width := pageWidth - 2*margin
	y -= 26
	p.text(face{16, true}, colourInk(), vg.Point{X: margin, Y: y}, face{16, true}.fit(title, width))
	for _, l := range c.lines() {
		if l == "" {
			continue
		}
		y -= 15
		p.text(face{10.5, false}, colourQuiet(), vg.Point{X: margin, Y: y}, face{10.5, false}.fit(l, width))
	}
	if c.Provenance == profile.Measured {
		y -= 15
		p.text(face{10.5, true}, colourMeasured(), vg.Point{X: margin, Y: y}, "measured: a real engine answered")
	}
	return y - 14
}

// footer draws the note at the foot of the page and gives the height above it.
func (c Caption) footer(p pen) vg.Length {
	f := face{9.5, false}
	lines := f.wrap(clean(c.Note), pageWidth-2*margin, 3)
	y := margin - 6 + vg.Length(max(len(lines)-1, 0))*12
	for i, l := range lines {
		p.text(f, colourQuiet(), vg.Point{X: margin, Y: y - vg.Length(i)*12}, l)
	}
	if len(lines) == 0 {
		return margin - 6
	}
	return y + 16
}

func joinSet(sep string, parts ...string) string {
	var set []string
	for _, s := range parts {
		if s != "" {
			set = append(set, s)
		}
	}
	return strings.Join(set, sep)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
