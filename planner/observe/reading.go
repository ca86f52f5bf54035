package observe

import (
	"math"
	"slices"

	"github.com/prometheus/common/model"
)

// counterKey names what a process counted: a bucket of a histogram by its bound,
// else with the bound 0.
type counterKey struct {
	what  string
	bound float64
}

// arrived is the key of requests that came: those that were counted as they came,
// or else those that ended and those that are held. It may go back a little, where
// gauges and counters are not of one instant.
const arrived = "arrived"

// reading is one look at one process.
type reading struct {
	preset   string  // whose names were read
	began    float64 // Unix seconds; NaN where it does not say
	counters map[counterKey]float64
	// Gauges; NaN where it does not say.
	running, waiting, kvMean, kvMost, prefillQueue float64
}

// read takes from an exposition what the names of a choice say.
func (c choice) read(e exposition, prefillQueue string) reading {
	n := c.names
	r := reading{preset: n.Preset, counters: map[counterKey]float64{}}
	byName := map[string][]sample{}
	for _, s := range e {
		name := string(s.labels[model.MetricNameLabel])
		if c.labels.match(s.labels) || name == processStart || name == prefillQueue {
			byName[name] = append(byName[name], s)
		}
	}
	for _, x := range []struct{ what, name string }{
		{"started", first(n.Started)},
		{"finished", first(n.Finished)},
		{"prompt", first(n.PromptTokens)},
		{"output", first(n.OutputTokens)},
		{"lookups", first(n.Lookups)},
		{"hits", first(n.Hits)},
	} {
		r.count(x.what, byName[x.name])
	}
	for _, h := range []struct{ what, name string }{
		{"isl", first(n.ISL)}, {"osl", first(n.OSL)}, {"ttft", first(n.TTFT)}, {"itl", first(n.ITL)}, {"tpot", first(n.TPOT)}, {"e2e", first(n.E2E)},
	} {
		r.count(h.what+".count", byName[h.name+"_count"])
		r.count(h.what+".sum", byName[h.name+"_sum"])
		r.count(h.what+".bucket", byName[h.name+"_bucket"])
	}
	whole := func(name string) []sample { return wholes(byName[name], n.Shares) }
	r.began, _ = total(byName[processStart])
	r.running, _ = total(whole(first(n.Running)))
	r.waiting, _ = total(whole(first(n.Waiting)))
	r.prefillQueue, _ = total(byName[prefillQueue])
	r.kvMean, r.kvMost = total(byName[first(n.KVUse)])
	r.kvMean /= float64(len(byName[first(n.KVUse)]))
	if n.RunningHasWaiting {
		r.running = max(0, r.running-r.waiting)
	}
	r.arrive()
	return r
}

// processStart is what Prometheus' client libraries call it.
const processStart = "process_start_time_seconds"

// count adds series up.
func (r reading) count(what string, samples []sample) {
	for _, s := range samples {
		r.counters[counterKey{what, s.bound}] += s.value
	}
}

// arrive counts the requests that came.
func (r reading) arrive() {
	if v, ok := r.counters[counterKey{what: "started"}]; ok {
		r.counters[counterKey{what: arrived}] = v
		return
	}
	ended, ok := r.counters[counterKey{what: "finished"}]
	if held := r.running + r.waiting; ok && !math.IsNaN(held) {
		r.counters[counterKey{what: arrived}] = ended + held
	}
}

// total is the sum of series and their largest; NaN of none.
func total(samples []sample) (sum, most float64) {
	if len(samples) == 0 {
		return missing(), missing()
	}
	most = math.Inf(-1)
	for _, s := range samples {
		sum, most = sum+s.value, max(most, s.value)
	}
	return sum, most
}

// wholes are the series that are no share of another.
func wholes(samples []sample, shares string) []sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.labels[model.LabelName(shares)] != "" })
}

// another reports whether r is of another process than before, which began to
// count at 0: by its own word, or because something counted fell or is gone.
func (r reading) another(before reading) bool {
	if !math.IsNaN(r.began) && !math.IsNaN(before.began) {
		return r.began != before.began
	}
	for key, v := range before.counters {
		if now, ok := r.counters[key]; key.what != arrived && (!ok || now < v) {
			return true
		}
	}
	return false
}

// since is what was counted after a reading of the same process; all, where it
// was another.
func (r reading) since(before reading) map[counterKey]float64 {
	if r.another(before) {
		return r.counters
	}
	gained := make(map[counterKey]float64, len(r.counters))
	for key, v := range r.counters {
		was := before.counters[key] // a counter that is new began at 0
		if v < was && key.what != arrived {
			was = 0 // one that fell within a process did so again
		}
		gained[key] = v - was
	}
	return gained
}
