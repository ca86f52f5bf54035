package plots

import (
	"bytes"
	"errors"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

func TestTimelinesAreWhole(t *testing.T) {
	for _, k := range timelines() {
		t.Run(k.name, func(t *testing.T) {
			p := k.picture(t)
			show(t, k.name, p)
			checkTexts(t, texts(t, svg(t, p)))
		})
	}
}

func TestTimelineGivesTheSameBytes(t *testing.T) {
	k := timelines()[0]
	p, q := k.picture(t), k.picture(t)
	first := svg(t, p)
	if svg(t, p) != first || svg(t, q) != first {
		t.Error("one input gave two different SVGs")
	}
	var b bytes.Buffer
	if err := p.WritePNG(&b); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if s := img.Bounds().Size(); s.X != 1200 || s.Y != 800 {
		t.Errorf("PNG is %v, want 1200 × 800", s)
	}
}

// An SLA held against each request is not said to be held against a mean.
func TestSLAOfEachRequestIsCalledSo(t *testing.T) {
	c := Caption{SLA: profile.SLA{TTFT: 200 * time.Millisecond, Stat: profile.Mean}, EachRequest: true}
	if got, want := c.lines()[1], "SLA: TTFT ≤ 200 ms (each request)"; got != want {
		t.Errorf("caption %q, want %q", got, want)
	}
	c.EachRequest = false
	if got, want := c.lines()[1], "SLA: mean TTFT ≤ 200 ms"; got != want {
		t.Errorf("caption %q, want %q", got, want)
	}
}

func TestWordsOnTimelines(t *testing.T) {
	want := map[string][]string{
		"timeline": {
			"SIMULATED — not measured on a GPU", ">SIMULATED<", "TP:1 × 2 to 4 replicas", "H100 SXM 80GB",
			"SLA: mean TTFT ≤ 200 ms, mean ITL ≤ 20 ms", "Requests (per second)", "arrived", "finished",
			"TTFT (ms) — log scale", "SLA 200 ms", "SLA 20 ms", "Replicas", "Time (hours)", "share at or below (%)",
		},
		"timeline_gaps":          {"nothing to show", "E2E (s)", "Time (minutes)"},
		"timeline_one_panel":     {"Time (seconds)"},
		"timeline_distributions": {"TTFT (ms) — log scale", "ITL (ms)", "requests", "gaps"},
		"timeline_2000_bins":     {"measured: a real engine answered", "Time (days)"},
		"timeline_outlier":       {"ITL (ms) — log scale", "Time (minutes)"},
		"timeline_zeros":         {"SLA 200 ms: off the axis ↑", "SLA 20 ms: off the axis →"},
		"timeline_full":          {"NOTHING MEETS THE SLA: nearest shown", "aggregated", "share (%)"},
		"timeline_nothing":       {"no points: the trace has no requests between 10:00 and 11:00"},
	}
	for _, k := range timelines() {
		doc := svg(t, k.picture(t))
		for _, w := range want[k.name] {
			if !strings.Contains(doc, w) {
				t.Errorf("%s does not say %q", k.name, w)
			}
		}
	}
}

func TestTimelineRefusals(t *testing.T) {
	with := func(change func([]Panel, []Distribution)) error {
		ps, ds := day(10)
		change(ps, ds)
		_, err := Timeline(fleetCaption(), "fleet", 0, time.Second, ps, ds)
		return err
	}
	over := func(start, width time.Duration, bins int) error {
		ps, _ := day(bins)
		_, err := Timeline(fleetCaption(), "fleet", start, width, ps, nil)
		return err
	}
	ps, ds := day(2)
	many := func(ps []Panel, ds []Distribution) error {
		_, err := Timeline(fleetCaption(), "fleet", 0, time.Second, ps, ds)
		return err
	}
	badCaption := fleetCaption()
	badCaption.ISL = -1
	_, captionErr := Timeline(badCaption, "fleet", 0, time.Second, nil, nil)
	inf := math.Inf(1)
	for _, c := range []struct {
		err  error
		want string
	}{
		{with(func(p []Panel, _ []Distribution) { p[3].Lines[1].Values[7] = inf }), `plotting timeline "fleet": series "TTFT: max": value of bin 7 is +Inf`},
		{with(func(p []Panel, _ []Distribution) { p[3].Lines[1].Values[0] = -1 }), `series "TTFT: max": value of bin 0 is -1`},
		{with(func(p []Panel, _ []Distribution) { p[3].Lines[1].Values[0] = 1e16 }), "want 0 to 1e+15"},
		{with(func(p []Panel, _ []Distribution) { p[0].Lines[0].Values = p[0].Lines[0].Values[1:] }), `series "Requests: arrived": 9 values: want 10`},
		{with(func(p []Panel, _ []Distribution) { p[0].Lines[0].Low = []float64{1} }), `a band of 1 low and 0 high ends around 10 values`},
		{with(func(p []Panel, _ []Distribution) {
			l := &p[0].Lines[0]
			l.Low, l.High = scaled(l.Values, 1.1), scaled(l.Values, 1)
		}), `series "Requests: arrived": bin 0: an interval's lower end is above its upper end`},
		{with(func(p []Panel, _ []Distribution) {
			l := &p[0].Lines[0]
			l.Low, l.High = scaled(l.Values, 0.9), scaled(l.Values, inf)
		}), `series "Requests: arrived": high end of bin 0 is +Inf`},
		{with(func(p []Panel, _ []Distribution) { p[3].Limits = []Limit{{"SLA", math.NaN()}} }), `series "TTFT: SLA": limit is NaN`},
		{with(func(p []Panel, _ []Distribution) { p[3].Limits = make([]Limit, 5) }), `"TTFT": 5 limits: want at most 4`},
		{with(func(p []Panel, _ []Distribution) { p[3].Lines = make([]Line, 5) }), `panel "TTFT": 5 lines: want at most 4`},
		{with(func(_ []Panel, d []Distribution) { d[0].Curves = make([]Quantiles, 5) }), `distribution "TTFT": 5 curves: want at most 4`},
		{with(func(_ []Panel, d []Distribution) { d[0].Curves[0].Points[3].Value = inf }), `series "TTFT: requests": value of quantile 3 is +Inf`},
		{with(func(_ []Panel, d []Distribution) { d[0].Curves[0].Points[3].Share = math.NaN() }), `series "TTFT: requests": share of quantile 3 is NaN`},
		{with(func(_ []Panel, d []Distribution) { d[0].Curves[0].Points[3].Share = 0.01 }), `series "TTFT: requests": quantile 3 (0.01 at or below`},
		{over(-1, time.Second, 3), "want a width above 0 and a start of at least 0"},
		{over(0, 0, 3), "bins of 0s from 0s on: want a width above 0"},
		{over(0, time.Second, 4097), "4097 bins: want at most 4096"},
		{over(0, math.MaxInt64/2, 3), "out of the range of time"},
		{over(0, math.MaxInt64/2+1, 2), "out of the range of time"},
		{over(math.MaxInt64-100, 1, 3), "out of the range of time"},
		{many(append(ps, ps...), nil), "10 panels and 0 distributions: want at most 6 and 4"},
		{many(nil, append(append(ds, ds...), ds...)), "0 panels and 6 distributions"},
		{captionErr, "caption: ISL -1"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v, want %q", c.err, c.want)
		}
	}
	if err := with(func(p []Panel, _ []Distribution) { p[0].Lines[0].Values[1] = inf }); !errors.Is(err, errNotANumber) {
		t.Errorf("an infinity gave %v", err)
	}
}

// What is drawn of a line goes through every value in the middle of its bin,
// and nowhere where there is none.
func TestLinesGoThroughTheirValues(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		gappy := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 2, math.NaN()}), rapid.Float64Range(0, 10))
		l := Line{Values: rapid.SliceOfN(gappy, 1, 40).Draw(t, "values"), Step: rapid.Bool().Draw(t, "step")}
		ts := timeAxis(time.Minute, time.Second, len(l.Values))
		f := frame{area: vg.Rectangle{Max: vg.Point{X: 500, Y: 100}}, x: ts.axis, y: axis{hi: 10}}
		drawn := make([]int, len(l.Values))
		for _, r := range runs(l.Values) {
			pts := l.points(f, ts, l.Values, r)
			for i, v := range l.Values {
				x := (float64(i) + 0.5) / float64(len(l.Values)) * 500
				y, on := heightAt(pts, x)
				if on {
					drawn[i]++
				}
				if on && !(math.Abs(y-10*v) < 1e-6) {
					t.Fatalf("bin %d is %g, drawn at %g", i, v, y/10)
				}
			}
		}
		for i, v := range l.Values {
			if want := map[bool]int{true: 0, false: 1}[math.IsNaN(v)]; drawn[i] != want {
				t.Fatalf("bin %d of %v is drawn %d times", i, l.Values, drawn[i])
			}
		}
	})
}

// heightAt is the height of a line of points that go right at x.
func heightAt(pts []vg.Point, at float64) (y float64, on bool) {
	const close = 1e-6
	for i, p := range pts {
		if math.Abs(float64(p.X)-at) < close {
			return float64(p.Y), true
		}
		if i > 0 && float64(pts[i-1].X) < at-close && float64(p.X) > at+close {
			q := pts[i-1]
			return float64(q.Y) + (at-float64(q.X))/float64(p.X-q.X)*float64(p.Y-q.Y), true
		}
	}
	return 0, false
}

func TestNamelessLinesHaveNoKey(t *testing.T) {
	p := Panel{Title: "Replicas", Lines: []Line{{Values: []float64{1}}, {Name: "wanted", Values: []float64{1}}}, Limits: []Limit{{"", 1}}}
	if ks := p.cell(timeAxis(0, time.Second, 1)).keys; len(ks) != 1 || ks[0].text != "wanted" {
		t.Errorf("legend %v, want that of the second line alone", ks)
	}
}

func TestTimeAxes(t *testing.T) {
	for _, c := range []struct {
		start, width time.Duration
		bins         int
		label, ticks string
	}{
		{0, time.Second, 60, "Time (seconds)", "0 10 20 30 40 50 60"},
		{0, time.Millisecond, 250, "Time (seconds)", "0.00 0.05 0.10 0.15 0.20 0.25"},
		{30 * time.Second, time.Second, 90, "Time (seconds)", "30 45 60 75 90 105 120"},
		{0, 5 * time.Second, 100, "Time (minutes)", "0 2 4 6 8"},
		{0, time.Minute, 90, "Time (minutes)", "0 15 30 45 60 75 90"},
		{24 * time.Hour, time.Minute, 60, "Time (minutes)", "1,440 1,450 1,460 1,470 1,480 1,490 1,500"},
		{0, 15 * time.Minute, 96, "Time (hours)", "0 3 6 9 12 15 18 21 24"},
		{0, time.Hour, 72, "Time (hours)", "0 12 24 36 48 60 72"},
		{0, time.Hour, 7 * 24, "Time (days)", "0 1 2 3 4 5 6 7"},
		{0, 24 * time.Hour, 31, "Time (days)", "0 7 14 21 28"},
		{0, 24 * time.Hour, 365, "Time (days)", "0 50 100 150 200 250 300 350"},
	} {
		a := timeAxis(c.start, c.width, c.bins).fitted(8)
		var ss []string
		for _, k := range a.ticks(8) {
			ss = append(ss, k.text)
		}
		if got := strings.Join(ss, " "); a.label != c.label || got != c.ticks {
			t.Errorf("%d bins of %v from %v: %s: %s, want %s: %s", c.bins, c.width, c.start, a.label, got, c.label, c.ticks)
		}
	}
}

func TestLinesAreToldApart(t *testing.T) {
	for i := range mostLines {
		for j := range i {
			a, b := lineStroke(i), lineStroke(j)
			if a.colour == b.colour || len(a.dashes) == len(b.dashes) && len(a.dashes) > 0 && a.dashes[0] == b.dashes[0] {
				t.Errorf("lines %d and %d look alike", i, j)
			}
		}
	}
}

func TestAnyTimelineIsRefusedOrDrawn(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		numbers := rapid.SampledFrom([]*rapid.Generator[float64]{tame(), tame(), wild()}).Draw(t, "numbers")
		bins := rapid.SampledFrom([]int{0, 1, 1, 2, 3, 17, 200}).Draw(t, "bins")
		var ps []Panel
		for range rapid.IntRange(0, mostPanels).Draw(t, "panels") {
			ps = append(ps, wildPanel(t, numbers, bins))
		}
		var ds []Distribution
		for range rapid.IntRange(0, mostDistributions).Draw(t, "distributions") {
			ds = append(ds, wildDistribution(t, numbers))
		}
		p, err := Timeline(wildCaption().Draw(t, "caption"), rapid.String().Draw(t, "title"),
			wildTime().Draw(t, "start"), wildTime().Draw(t, "width"), ps, ds)
		holds(t, p, err)
	})
}

// However much there is to say, there is room left for the data.
func TestFramesKeepTheirRoom(t *testing.T) {
	ps, ds := day(20)
	long := strings.Repeat("a long name ", 20)
	limits := []Limit{{long, 1}, {long, 2e14}, {long, 0}, {long, 1e15}}
	p := Panel{Title: long, Unit: long, Limits: limits}
	d := Distribution{Title: long, Unit: long, Limits: limits}
	for range mostLines {
		p.Lines = append(p.Lines, Line{Name: long, Values: scaled(ps[0].Lines[0].Values, 1e12)})
		d.Curves = append(d.Curves, Quantiles{long, ds[0].Curves[0].Points})
	}
	page := vg.Rectangle{Min: vg.Point{X: margin, Y: 50}, Max: vg.Point{X: pageWidth - margin, Y: 460}}
	tl := timeline{time: timeAxis(0, time.Second, 20)}
	for range mostPanels {
		tl.panels = append(tl.panels, p)
	}
	for range mostDistributions {
		tl.distributions = append(tl.distributions, d)
	}
	left, right := tl.columns(page)
	for i, c := range append(tl.strips(left), tl.spreads(right)...) {
		if s := c.area.Size(); s.X < 200 || s.Y < 20 {
			t.Errorf("frame %d has %v", i, s)
		}
	}
	c := fleetCaption()
	c.Feasible, c.Note = false, strings.Repeat(long, 10)
	k := pictureCase{"timeline_worst", func() (*Picture, error) {
		return Timeline(c, long, 0, time.Second, tl.panels, tl.distributions)
	}}
	show(t, k.name, k.picture(t))
	checkTexts(t, texts(t, svg(t, k.picture(t))))
}

// wildTime is a time that is often one of a usual timeline.
func wildTime() *rapid.Generator[time.Duration] {
	return rapid.OneOf(rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, time.Hour, 1000 * time.Hour}), wildDuration())
}

func wildPanel(t *rapid.T, numbers *rapid.Generator[float64], bins int) Panel {
	p := Panel{
		Title: rapid.String().Draw(t, "title"), Unit: rapid.SampledFrom([]string{"", "ms"}).Draw(t, "unit"),
		Log: rapid.Bool().Draw(t, "log"), Limits: wildLimits(t, numbers),
	}
	for range rapid.IntRange(0, mostLines).Draw(t, "lines") {
		// A few numbers over and over: drawing thousands would take rapid its time.
		some := rapid.SliceOfN(rapid.OneOf(numbers, rapid.Just(math.NaN())), 1, 5).Draw(t, "values")
		l := Line{
			Name: rapid.String().Draw(t, "name"), Values: make([]float64, bins),
			Step: rapid.Bool().Draw(t, "step"), Filled: rapid.Bool().Draw(t, "filled"),
		}
		for i := range l.Values {
			l.Values[i] = some[i*i%len(some)]
		}
		if rapid.Bool().Draw(t, "band") {
			l.Low, l.High = scaled(l.Values, 0.5), scaled(l.Values, 1)
		}
		p.Lines = append(p.Lines, l)
	}
	return p
}

func wildLimits(t *rapid.T, numbers *rapid.Generator[float64]) []Limit {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Limit {
		return Limit{rapid.String().Draw(t, "limit"), numbers.Draw(t, "at")}
	}), 0, mostLimits).Draw(t, "limits")
}

func wildDistribution(t *rapid.T, numbers *rapid.Generator[float64]) Distribution {
	d := Distribution{Title: rapid.String().Draw(t, "title"), Unit: "ms", Limits: wildLimits(t, numbers)}
	for range rapid.IntRange(0, mostLines).Draw(t, "curves") {
		q := Quantiles{Name: rapid.String().Draw(t, "name")}
		last := 0.0
		for i, v := range rapid.SliceOfN(numbers, 0, 6).Draw(t, "values") {
			last = max(last, v)
			q.Points = append(q.Points, Quantile{float64(i) / 6, last})
		}
		d.Curves = append(d.Curves, q)
	}
	return d
}

func BenchmarkTimeline(b *testing.B) {
	for _, n := range []int{100, 2000} {
		ps, ds := day(n)
		p, err := Timeline(fleetCaption(), "fleet", 0, time.Minute, ps, ds)
		if err != nil {
			b.Fatal(err)
		}
		for name, write := range map[string]func(io.Writer) error{"SVG": p.WriteSVG, "PNG": p.WritePNG} {
			b.Run(name+"/bins="+number(float64(n)), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := write(io.Discard); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
