package main

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"plimsoll/engine/process"
	"plimsoll/engine/scrape"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/sweep"
)

// watchEvery is how often an engine's own running count is read while it is
// under load: seldom enough to cost it nothing, often enough for a window of
// half a second.
const watchEvery = 100 * time.Millisecond

// deathRattle is how long an engine whose connections broke is given to be
// found dead: its end is the reason then, not the failures that it caused.
const deathRattle = time.Second

// measurer sends load through the measuring client and watches the engine's
// own running count meanwhile.
type measurer struct {
	client *load.Client
	http   *http.Client
	url    string          // of the engine's metrics; empty = do not watch
	bases  chan time.Time  // what the client's records count from, one per measurement
	stop   *sweep.Failing  // ends a load that fails too often; nil = never
	meter  *process.Meter  // of what others take of this machine; nil where that cannot be told
	ended  <-chan struct{} // closed when the engine is known to have ended; nil = nobody knows
}

// sample is what an engine said at an instant of the clock.
type sample struct {
	at time.Time
	r  scrape.Reading
}

// Measure implements sweep.Measurer. The load ends with the engine: a way to it may
// hold requests for long that nobody will answer.
func (m measurer) Measure(ctx context.Context, w profile.Workload) (sweep.Measurement, error) {
	sending, stop := m.untilEnd(ctx)
	defer stop()
	end := m.meter.Begin()
	out, err := m.measure(sending, w)
	out.Machine = machine(end())
	m.waitIfBroken(ctx, out.Requests)
	return out, err
}

// machine is what a meter read, as the sweep has it.
func machine(s process.Share, ok bool) *profile.Machine {
	if !ok {
		return nil
	}
	return new(profile.Machine(s))
}

// waitIfBroken gives an engine whose connections broke, as those of one that ends
// do, a moment to be found dead.
func (m measurer) waitIfBroken(ctx context.Context, rs []profile.Request) {
	broke := slices.ContainsFunc(rs, func(r profile.Request) bool {
		return r.Failure == profile.FailConnect || r.Failure == profile.FailMalformed
	})
	if broke && m.ended != nil {
		waitEnd(ctx, m.ended)
	}
}

// untilEnd is ctx that also ends with the engine.
func (m measurer) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		select {
		case <-m.ended:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// died reports whether the engine is known to have ended; it is given a moment
// where its streams broke.
func (m measurer) died(ctx context.Context, err error) bool {
	if m.ended == nil {
		return false
	}
	if errors.Is(err, load.ErrBroken) {
		waitEnd(ctx, m.ended)
	}
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

func waitEnd(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(deathRattle):
	}
}

func (m measurer) measure(ctx context.Context, w profile.Workload) (sweep.Measurement, error) {
	ctx, end := m.guard(ctx, w.Requests)
	defer end()
	m.base() // of an earlier load that nobody asked about
	if m.url == "" || w.Warmup {
		rs, self, err := m.client.Measure(ctx, w)
		return sweep.Measurement{Requests: rs, Warnings: caveats(rs), Client: &self}, err
	}
	before := m.now(ctx)
	watch, stop := context.WithCancel(ctx)
	seen := make(chan []sample, 1)
	go func() { seen <- m.watch(watch) }()
	rs, self, err := m.client.Measure(ctx, w)
	stop()
	samples := <-seen
	later := m.now(ctx)
	out := sweep.Measurement{Requests: rs, Warnings: caveats(rs), Client: &self, Cached: cachedShare(before, later, rs), Server: counted(before, later, rs)}
	if base, ok := m.base(); ok {
		for _, s := range samples {
			out.Running = append(out.Running, runningAt(s.at.Sub(base), s.r))
		}
	}
	return out, err
}

// now is what the engine says; nothing where it does not answer.
func (m measurer) now(ctx context.Context) scrape.Reading {
	if m.url == "" {
		return scrape.Reading{}
	}
	r, _ := scrape.Read(ctx, m.http, m.url) // with an error it holds nothing
	return r
}

// ownPrompts is how far the engine's count of prompt tokens may differ from what was sent.
// Beyond it, its counters include other clients' prompts or miss some of ours.
const ownPrompts = 0.02

// cachedShare is the share of a load's prompt tokens that the engine found in its prefix
// cache, from its counters before and after; nil if they do not tell.
func cachedShare(before, after scrape.Reading, rs []profile.Request) *float64 {
	if !before.PrefixQueries.Known || !before.PrefixHits.Known || !after.PrefixQueries.Known || !after.PrefixHits.Known {
		return nil
	}
	sent := 0
	for _, q := range rs {
		if q.Sent != 0 {
			sent += cmp.Or(q.PromptTokens, q.ISL)
		}
	}
	queries, hits := after.PrefixQueries.V-before.PrefixQueries.V, after.PrefixHits.V-before.PrefixHits.V
	if sent == 0 || math.Abs(queries/float64(sent)-1) > ownPrompts || hits < 0 || hits > queries {
		return nil
	}
	return new(hits / queries)
}

// counted is what the engine says of these requests, which came between two readings.
func counted(before, later scrape.Reading, rs []profile.Request) *profile.Server {
	ttft, itl := profile.Means(rs, profile.Window{To: math.MaxInt64})
	s := profile.Server{TTFT: profile.Both(rise(before.TTFT, later.TTFT), ttft), ITL: profile.Both(rise(before.ITL, later.ITL), itl)}
	if s.TTFT.N == 0 && s.ITL.N == 0 {
		return nil
	}
	return &s
}

func rise(before, later scrape.Total) profile.Observed {
	mean, n := later.Since(before)
	return profile.Observed{N: n, Of: mean}
}

// recovery is what a server gets to notice that the requests of a load that was stopped,
// because it refused others, are gone.
const recovery = 2 * time.Second

// guard is the context of a load, which ends where too many requests fail.
func (m measurer) guard(ctx context.Context, requests int) (context.Context, context.CancelFunc) {
	guarded, end := context.WithCancel(ctx)
	if m.stop == nil {
		return guarded, end
	}
	var stopped atomic.Bool
	m.stop.Begin(requests, func() {
		stopped.Store(true)
		end()
	})
	return guarded, func() {
		end()
		if !stopped.Load() {
			return
		}
		select {
		case <-time.After(recovery):
		case <-ctx.Done():
		}
	}
}

// caveats is what the client doubts of its own records. Being late is none in a
// closed loop: there TTFT counts from sending, and ITL from when all stream.
func caveats(rs []profile.Request) []profile.Warning {
	return slices.DeleteFunc(load.Assess(rs).Warnings(), func(x profile.Warning) bool {
		return x.Code == "client_late"
	})
}

func (m measurer) base() (time.Time, bool) {
	select {
	case t := <-m.bases:
		return t, true
	default:
		return time.Time{}, false
	}
}

// watch reads the running count until ctx ends.
func (m measurer) watch(ctx context.Context) []sample {
	var ss []sample
	m.look(ctx, func(at time.Time, r scrape.Reading) { ss = append(ss, sample{at, r}) })
	return ss
}

// look reads what the engine runs until ctx ends. One that does not answer gives
// nothing: the sweep then says so.
func (m measurer) look(ctx context.Context, see func(at time.Time, r scrape.Reading)) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		asked := time.Now()
		r, err := scrape.Read(ctx, m.http, m.url)
		if err == nil && r.Running.Known {
			see(asked.Add(time.Since(asked)/2), r)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
