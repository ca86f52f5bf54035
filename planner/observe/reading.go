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

// The keys of requests that came, counted or still held, and of those that had a first
// token and neither run nor ended: their clients left. Both may go back a little, where
// gauges and counters are not of one instant.
const (
	arrived = "arrived"
	left    = "left"
)

// goesBack reports whether a counter that fell is none that began again.
func (k counterKey) goesBack() bool { return k.what == arrived || k.what == left }

// reading is one look at one process.
type reading struct {
	preset   string   // whose names were read
	counted  string   // the metric of requests
	lacks    string   // why it does not say how many requests run and wait
	caveats  []string // what more is to be known of it
	began    float64  // Unix seconds; NaN where it does not say
	counters map[counterKey]float64
	// Gauges; NaN where it does not say.
	running, waiting, queue, kvMean, kvMost, prefillQueue float64

	mixed bool // requests are in queue whose KV cache is on its way
}

// read takes from an exposition what the names of a choice say.
func (c choice) read(e exposition, prefillQueue string) reading {
	n := c.names
	r := reading{preset: n.Preset, counted: n.requests(), lacks: n.Lacks, caveats: c.caveats, counters: map[counterKey]float64{}}
	byName := map[string][]sample{}
	for _, s := range e {
		name := string(s.labels[model.MetricNameLabel])
		if c.labels.match(s.labels) || name == processStart || name == prefillQueue {
			byName[name] = append(byName[name], s)
		}
	}
	of := func(name string) []sample {
		base, fixed := split(name)
		if fixed == nil {
			return byName[base]
		}
		return slices.DeleteFunc(slices.Clone(byName[base]), func(s sample) bool { return !fixed.match(s.labels) })
	}
	for _, x := range []struct{ what, name string }{
		{"counted", n.requests()},
		{"firsts", first(n.FirstTokens)},
		{"finished", first(n.Finished)},
		{"prompt", first(n.PromptTokens)},
		{"output", first(n.OutputTokens)},
		{"lookups", first(n.Lookups)},
		{"hits", first(n.Hits)},
	} {
		r.count(x.what, of(x.name))
	}
	for _, h := range []struct{ what, name string }{
		{"isl", first(n.ISL)}, {"osl", first(n.OSL)}, {"ttft", first(n.TTFT)}, {"itl", first(n.ITL)}, {"tpot", first(n.TPOT)}, {"e2e", first(n.E2E)},
	} {
		r.count(h.what+".count", byName[h.name+"_count"])
		r.count(h.what+".sum", byName[h.name+"_sum"])
		r.count(h.what+".bucket", byName[h.name+"_bucket"])
	}
	whole := func(names []string) (sum float64) {
		if len(names) == 0 {
			return missing()
		}
		for _, name := range names {
			one, _ := total(wholes(of(name), n.Shares))
			sum += one
		}
		return sum
	}
	r.began, _ = total(byName[processStart])
	r.running, r.waiting = whole(n.Running), whole(n.Waiting)
	queue, mixed := n.queue()
	r.queue, r.mixed = whole(queue), mixed
	held := 0.0
	for _, gauges := range n.held() {
		held += whole(gauges)
	}
	r.arrive(held)
	r.prefillQueue, _ = total(byName[prefillQueue])
	r.kvMean, r.kvMost = total(byName[first(n.KVUse)])
	r.kvMean /= float64(len(byName[first(n.KVUse)]))
	if n.RunningHasWaiting {
		r.running = max(0, r.running-r.waiting)
	}
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

// arrive counts the requests that came: those that the engine has counted, and those that it
// holds and will count later. It also counts the requests whose clients left.
func (r reading) arrive(held float64) {
	if v, ok := r.counters[counterKey{what: "counted"}]; ok && !math.IsNaN(held) {
		r.counters[counterKey{what: arrived}] = v + held
	}
	firsts, ok := r.counters[counterKey{what: "firsts"}]
	ended, ends := r.counters[counterKey{what: "finished"}]
	if ok && ends && !math.IsNaN(r.running) {
		r.counters[counterKey{what: left}] = firsts - ended - r.running
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
		if now, ok := r.counters[key]; !key.goesBack() && (!ok || now < v) {
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
		if v < was && !key.goesBack() {
			was = 0 // one that fell within a process did so again
		}
		gained[key] = v - was
	}
	return gained
}
