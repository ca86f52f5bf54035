package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim"
	"plimsoll/profile"
	"plimsoll/profile/trace"
	"plimsoll/sweep"
)

// traffic is what comes to an engine on its own: Poisson arrivals of one length,
// unless a trace says when and how long, or a dataset what.
type traffic struct {
	isl, osl int
	arrivals []trace.Arrival // of a trace, whose instants are scaled to the rate; nil = Poisson
	mean     time.Duration   // between them
	prompts  []trace.Prompt  // of a dataset; nil = prompts are made up
	source   string
}

// mostArrivals of a trace are held; a dataset has the same bound, and 512 MiB.
const mostArrivals = 100_000

// openTraffic reads --trace and --dataset.
func openTraffic(o profileOptions) (traffic, error) {
	t := traffic{isl: o.isl, osl: o.osl, source: fmt.Sprintf("Poisson arrivals of ISL %d, OSL %d", o.isl, o.osl)}
	if o.trace != "" {
		words, err := t.readTrace(o.trace, o.traceOptions)
		if err != nil {
			return t, err
		}
		t.source = fmt.Sprintf("the %d requests of trace %s%s, at its gaps scaled to the rate", len(t.arrivals), o.trace, words)
	}
	if o.dataset != "" {
		if err := t.readDataset(o.dataset); err != nil {
			return t, err
		}
		when := "Poisson arrivals"
		if o.trace != "" {
			when = "arrivals of trace " + o.trace
		}
		t.source = fmt.Sprintf("%s with the %d prompts of dataset %s", when, len(t.prompts), o.dataset)
	}
	return t, nil
}

// readTrace holds a trace's requests, and says how it was read.
func (t *traffic) readTrace(name string, o trace.Options) (words string, err error) {
	f, _, closing, err := openTrace(name, o)
	if err != nil {
		return "", err
	}
	defer closing()
	if t.arrivals, err = trace.Collect(trace.Limit(trace.Rebase(f.Arrivals()), mostArrivals)); err != nil {
		return "", field.Errorf("--trace: %s", ofTrace(err))
	}
	n := len(t.arrivals)
	if n < 2 || t.arrivals[n-1].At <= 0 {
		return "", field.Errorf("--trace %s: %d requests at one instant have no rate: want two at least, apart", name, n)
	}
	t.mean = t.arrivals[n-1].At / time.Duration(n-1)
	if words = f.Words(); words != "" {
		words = " (" + words + ")"
	}
	if f.Tick > 0 && !o.SpreadTicks {
		words += fmt.Sprintf(", in bursts %.3g s apart (--spread-ticks spreads them)", f.Tick.Seconds())
	}
	return words, nil
}

func (t *traffic) readDataset(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return field.Errorf("--dataset: there is no file %s", name)
	}
	if err != nil {
		return field.Errorf("--dataset: %v", err)
	}
	defer func() { _ = f.Close() }() // only read
	if t.prompts, err = trace.ReadPrompts(f, name); err != nil {
		return field.Errorf("--dataset: %v", err)
	}
	return nil
}

// asks implements sweep.OpenLoop's Traffic.
func (t traffic) asks(rate float64, n int, seed uint64) ([]profile.Ask, error) {
	due, err := t.due(rate, n, seed)
	if err != nil {
		return nil, err
	}
	asks := make([]profile.Ask, n)
	rng := rand.New(rand.NewPCG(seed, uint64(len(t.prompts))))
	var order []int
	if len(t.prompts) > 0 {
		order = rng.Perm(len(t.prompts))
	}
	first := t.first(seed)
	for i := range asks {
		asks[i] = profile.Ask{Due: due[i], ISL: t.isl, OSL: t.osl}
		if k := len(t.arrivals); k > 0 {
			a := t.arrivals[(first+i)%k]
			asks[i].ISL, asks[i].OSL = a.ISL, a.OSL
		}
		if k := len(order); k > 0 {
			p := t.prompts[order[i%k]]
			asks[i].Prompt, asks[i].ISL, asks[i].OSL = p.Text, p.ISL, cmp.Or(p.OSL, t.osl)
		}
	}
	return asks, nil
}

// longest is the most tokens that a request has with its answer.
func (t traffic) longest() int {
	most := t.isl + t.osl
	for _, p := range t.prompts {
		most = max(most, p.ISL+cmp.Or(p.OSL, t.osl))
	}
	for _, a := range t.arrivals {
		if len(t.prompts) == 0 { // else only its instants are played
			most = max(most, a.ISL+a.OSL)
		}
	}
	return most
}

// first is where in the trace a load begins, so that another seed is another part;
// 0 where there is none.
func (t traffic) first(seed uint64) int {
	if len(t.arrivals) == 0 {
		return 0
	}
	return rand.New(rand.NewPCG(seed, 1)).IntN(len(t.arrivals))
}

// due are n rising instants from 0, at a mean rate of requests/s.
func (t traffic) due(rate float64, n int, seed uint64) ([]time.Duration, error) {
	if !(rate > 0 && rate <= trace.MaxRate) { // so that NaN is refused
		return nil, fmt.Errorf("rate %v is out of range: want above 0, at most %v requests per second", rate, float64(trace.MaxRate))
	}
	if len(t.arrivals) == 0 {
		return t.poisson(rate, n, seed), nil
	}
	// The part that is played may be calmer or busier than the trace: it is scaled by
	// its own mean, so that the load comes at the rate that it is said to.
	due, k := make([]time.Duration, n), len(t.arrivals)
	at, ats := time.Duration(0), make([]time.Duration, n)
	for i, here := 0, t.first(seed); i < n; i, here = i+1, (here+1)%k {
		ats[i] = at
		gap := t.mean // between its end and its beginning
		if here+1 < k {
			gap = t.arrivals[here+1].At - t.arrivals[here].At
		}
		at += gap
	}
	if at <= 0 {
		return nil, fmt.Errorf("%d requests of the trace in a row come at one instant: they have no rate", n)
	}
	for i := range due {
		due[i] = time.Duration(float64(ats[i]) / float64(at) * float64(n) / rate * float64(time.Second))
	}
	return due, nil
}

// poisson are n Poisson arrivals, the first at 0.
func (t traffic) poisson(rate float64, n int, seed uint64) []time.Duration {
	rng := rand.New(rand.NewPCG(seed, sim.Mix(sim.Mix(0, gapDomain), uint64(t.isl)))) //nolint:gosec // a length is not negative
	due, at := make([]time.Duration, n), 0.0                                          // in mean gaps
	for i := 1; i < n; i++ {
		at += rng.ExpFloat64()
		due[i] = time.Duration(math.Round(min(at/rate*float64(time.Second), math.MaxInt64/2)))
	}
	return due
}

// gapDomain keeps the random numbers of gaps apart from others of the seed.
const gapDomain = 0x7363686564756c65

// What a load is judged by at least, in requests, and at most, in time, where it is
// not told: in virtual time there is no reason to end before something is decided.
const (
	judgedVirtual = 1000
	judgedReal    = 100
	longestReal   = time.Minute
	longestSim    = 40 * time.Second // of aggregated engines: the embedded one's first run is a quick one
)

// openLoop is how picks are verified, and aggregated engines loaded.
func (o profileOptions) openLoop(d deployment) sweep.OpenLoop {
	l := sweep.OpenLoop{
		Mode: o.mode, Verify: o.verifies(d.kind), Requests: judgedReal, Longest: cmp.Or(o.loadTime, longestReal), Traffic: o.traffic.asks, Source: o.traffic.source,
		Virtual: o.loadsVirtually(d.kind), Bracket: !d.modelled(),
	}
	if l.Bracket && o.mode == sweep.Aggregated { // whose evidence is of all its loads
		l.Verify = o.verify == "always"
	}
	switch {
	case l.Virtual:
		l.Requests, l.Longest = judgedVirtual, o.loadTime
	case d.kind == engine.KindSim:
		l.Longest = cmp.Or(o.loadTime, longestSim)
	}
	if l.Virtual && d.kind == engine.KindSim {
		l.Source += ", in virtual time"
	}
	return l
}

// loadsVirtually reports whether loads that come on their own pass in virtual time.
// Those that verify picks of the embedded engine do, unless it is said how long they
// may last: it is the same engine, which in real time takes minutes until an interval
// can be given, and shows nothing more.
func (o profileOptions) loadsVirtually(kind engine.Kind) bool {
	return kind == engine.KindEstimate || kind == engine.KindSim && o.mode != sweep.Aggregated && o.loadTime == 0
}

// surfacesVirtually reports whether the surfaces of an engine in real time are measured
// in virtual time: with the sequences of a real engine they take hundreds of streams
// and minutes, and show nothing of the embedded one that virtual time does not.
func (o profileOptions) surfacesVirtually(kind engine.Kind) bool {
	return kind == engine.KindSim && o.mode != sweep.Aggregated
}

// ownTraffic reports whether the loads are of requests that the user gave.
func (o profileOptions) ownTraffic() bool { return o.trace != "" || o.dataset != "" }

// verifies reports whether picks are run under load: unless told, by requests that
// the user gave, which are for nothing else; and where the search is adaptive, since
// the grid is upstream's plan and no more, and where the engine is the run's own.
func (o profileOptions) verifies(kind engine.Kind) bool {
	switch o.verify {
	case "always":
		return true
	case "never":
		return false
	}
	return o.mode == sweep.Aggregated || o.ownTraffic() || o.search == sweep.Adaptive && kind != engine.KindEndpoint
}
