package main

import (
	"context"
	"net/http"
	"time"

	"plimsoll/engine/scrape"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/sweep"
)

// watchEvery is how often an engine's own running count is read while it is
// under load: seldom enough to cost it nothing, often enough for a window of
// half a second.
const watchEvery = 100 * time.Millisecond

// measurer sends load through the measuring client and watches the engine's
// own running count meanwhile.
type measurer struct {
	client *load.Client
	http   *http.Client
	url    string // of the engine's metrics; empty = do not watch
}

// Measure implements sweep.Measurer.
func (m measurer) Measure(ctx context.Context, w profile.Workload) (sweep.Measurement, error) {
	if m.url == "" || w.Warmup || w.InFlight == 1 && w.OSL == 1 {
		rs, err := m.client.Measure(ctx, w)
		return sweep.Measurement{Requests: rs}, err
	}
	watch, stop := context.WithCancel(ctx)
	seen := make(chan []sweep.Running, 1)
	go func() { seen <- m.watch(watch) }()
	rs, err := m.client.Measure(ctx, w)
	stop()
	return sweep.Measurement{Requests: rs, Running: <-seen}, err
}

// watch reads the running count until ctx ends. Its base is within a
// millisecond of the records', which windows of whole steps do not notice. An
// engine that does not answer gives no samples: the sweep then says so.
func (m measurer) watch(ctx context.Context) []sweep.Running {
	var rs []sweep.Running
	base := time.Now()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return rs
		case <-tick.C:
		}
		at := time.Since(base)
		r, err := scrape.Read(ctx, m.http, m.url)
		if err != nil || !r.Running.Known {
			continue
		}
		rs = append(rs, sweep.Running{At: (at + time.Since(base)) / 2, N: r.Running.V})
	}
}
