package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll/planner/replay"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// rateTable is a load that a fluid takes without making requests of it.
type rateTable struct {
	bins  []replay.RateBin // of fluidBin each, one pass
	sigma float64
	span  time.Duration
	cv    float64 // of gaps, mean over requests
	p99   float64 // ISL
}

// table is the load as a table of rates; false where its file is none, or where it is
// to have a number of requests.
func (l replayLoad) table() (rateTable, bool, error) {
	a := l.arrivals
	if a.file == "" || a.requests > 0 {
		return rateTable{}, false, nil
	}
	r, once, err := openFile(a.file)
	if err != nil || once {
		return rateTable{}, false, err
	}
	f, err := trace.Open(r, a.file, a.options)
	_ = r.Close() // only read
	if err != nil || f.Format != trace.FormatServeGen {
		return rateTable{}, false, nil // who reads the requests says what is wrong
	}
	if r, _, err = openFile(a.file); err != nil {
		return rateTable{}, false, err
	}
	defer r.Close() //nolint:errcheck // only read
	var all []trace.Window
	for w, err := range trace.ReadWindows(r, a.file) {
		if err != nil {
			return rateTable{}, false, usagef("--trace: %s", traceFlags(err))
		}
		all = append(all, w)
	}
	if last := all[len(all)-1]; a.lasting(all) > l.longest() {
		return rateTable{}, true, a.late(a.lasting(all), last.Line)
	}
	t, err := a.tabled(all)
	return t, true, err
}

// tabled cuts out of windows what was asked for, as read does of arrivals, minute by
// minute.
func (a arrivals) tabled(all []trace.Window) (rateTable, error) {
	isl, osl := lengthsOf(a.options.Windows.ISL, a.seed), lengthsOf(a.options.Windows.OSL, a.seed+1)
	first := all[0].Start
	t := rateTable{span: a.lasting(all), sigma: isl.sigma}
	if t.span <= 0 {
		return t, usagef("the load holds no request").hint("a longer --duration, another part (--from, --to), or another --trace")
	}
	for i := range all {
		w := &all[i]
		w.ISL, w.OSL = cmp.Or(isl.mean, w.ISL), cmp.Or(osl.mean, w.OSL)
		if w.Rate > 0 && !(w.ISL >= 1 && w.OSL >= 1) { // so that NaN is refused
			return t, usagef("--trace: %s:%d: the window at %v has mean lengths %v and %v: want at least 1 token", w.File, w.Line, w.Start, w.ISL, w.OSL).hint("--isl and --osl give the lengths")
		}
	}
	requests := 0.0
	for from := time.Duration(0); from < t.span; from += fluidBin {
		to := min(from+fluidBin, t.span)
		at := func(x time.Duration) time.Duration {
			return first + a.from + time.Duration(float64(a.window.from+x)*a.speed)
		}
		b, cv := windowsBetween(all, at(from), at(to))
		n := b.Rate * a.speed * a.scale * (to - from).Seconds()
		b.Rate = n / (to - from).Seconds()
		t.bins = append(t.bins, b)
		t.cv, requests = t.cv+n*cv, requests+n
	}
	t.cv /= max(requests, 1)
	t.p99 = cmp.Or(isl.p99, t.highISL(requests))
	return t, nil
}

// lasting is how long what was asked for of windows takes.
func (a arrivals) lasting(all []trace.Window) time.Duration {
	if a.window != (span{}) {
		return a.window.length()
	}
	last := all[len(all)-1]
	end := last.Start + last.Length - all[0].Start
	if a.to > 0 {
		end = min(end, a.to)
	}
	d := time.Duration(float64(end-a.from) / a.speed)
	if a.duration > 0 {
		d = min(d, a.duration)
	}
	return d
}

// windowsBetween is the mean load between two instants of a table, and its CV.
func windowsBetween(all []trace.Window, from, to time.Duration) (b replay.RateBin, cv float64) {
	i, _ := slices.BinarySearchFunc(all, from, func(w trace.Window, at time.Duration) int { return cmp.Compare(w.Start+w.Length, at+1) })
	n := 0.0
	for ; i < len(all) && all[i].Start < to; i++ {
		w := all[i]
		part := w.Rate * (min(to, w.Start+w.Length) - max(from, w.Start)).Seconds()
		if part > 0 {
			n, b.ISL, b.OSL, cv = n+part, b.ISL+part*w.ISL, b.OSL+part*w.OSL, cv+part*w.CV
		}
	}
	if n == 0 {
		return replay.RateBin{}, 0
	}
	return replay.RateBin{Rate: n / (to - from).Seconds(), ISL: b.ISL / n, OSL: b.OSL / n}, cv / n
}

// highISL is the mean ISL below which that of 99 % of the requests' minutes is.
func (t rateTable) highISL(requests float64) float64 {
	bins := slices.Clone(t.bins)
	slices.SortFunc(bins, func(a, b replay.RateBin) int { return cmp.Compare(a.ISL, b.ISL) })
	left := 0.99 * requests
	for _, b := range bins {
		if left -= b.Rate * fluidBin.Seconds(); left <= 0 {
			return b.ISL
		}
	}
	return bins[len(bins)-1].ISL
}

// spreadLengths are how lengths lie; zeros where a table has its own.
type spreadLengths struct{ mean, p99, sigma float64 }

// lengthsOf draws some of the lengths that replace a table's.
func lengthsOf(l trace.Lengths, seed uint64) spreadLengths {
	if l == nil {
		return spreadLengths{}
	}
	const n = 20_000
	r := rand.New(rand.NewPCG(seed, n))
	all := make([]float64, n)
	var sum, logs, squares float64
	for i := range all {
		all[i] = float64(l.Draw(r))
		x := math.Log(all[i])
		sum, logs, squares = sum+all[i], logs+x, squares+x*x
	}
	slices.Sort(all)
	variance := squares/n - logs/n*logs/n
	return spreadLengths{sum / n, all[n*99/100], min(math.Sqrt(max(0, variance)), mostSigma)}
}

// mostSigma bounds how far the lengths of a fluid lie apart.
const mostSigma = 2

// facts are what is known of the table.
func (t rateTable) facts(words string) loadFacts {
	f := loadFacts{words: words, table: &t}
	f.stats.Duration = t.span - 1 // the last request is before the end
	var all minute
	most := 0.0
	for i, b := range t.bins {
		n := b.Rate * min(fluidBin, t.span-time.Duration(i)*fluidBin).Seconds()
		m := minute{n, n * b.ISL, n * b.OSL}
		f.minutes, all, most = append(f.minutes, m), all.plus(m), max(most, n)
	}
	f.stats.Requests, f.stats.Rate = int(math.Round(all.requests)), all.requests/t.span.Seconds()
	f.stats.Peaks = []trace.Peak{{Window: time.Minute, Requests: int(math.Round(most))}}
	f.stats.ISL = trace.LengthStats{Mean: all.isl / max(all.requests, 1), P99: t.p99}
	f.stats.OSL = trace.LengthStats{Mean: all.osl / max(all.requests, 1)}
	if t.cv > mostPoissonCV {
		f.warnings = append(f.warnings, profile.Warnf("fluid_poisson", "the table's gaps between arrivals have a CV of %.2g on average, a fluid's are Poisson's, with 1: bursts that the table has are left out", t.cv))
	}
	return f
}

// rates are the table, so many times over.
func (t rateTable) rates(repeat int) replay.Rates {
	r := replay.Rates{Every: fluidBin, Sigma: t.sigma}
	for at := time.Duration(0); at < t.span*time.Duration(repeat); at += fluidBin {
		r.Bins = append(r.Bins, t.bins[int(at%t.span/fluidBin)])
	}
	return r
}
