package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/profile"
	"plimsoll/sweep"
)

// candidates are the configurations to try, and those left out with their reasons.
func (d deployment) candidates(o profileOptions) ([]engine.Config, []profile.Skip, error) {
	base := d.base(o)
	if d.kind == engine.KindEndpoint {
		base.Parallelism = engine.TP(d.gpuCount)
		return []engine.Config{base}, nil, nil
	}
	layouts, refused := d.layouts(o)
	fits := d.fits(o)
	cs, unfit := dep.Candidates(base, d.gpuCount, layouts, fits)
	for i := range cs {
		cs[i].Nodes = d.nodes(cs[i].Parallelism)
		if d.modelled() {
			cs[i].Limits = latency.Limits(*d.model, *d.gpu, cs[i])
		}
	}
	refused = append(refused, unfit...)
	dep.ByGPUs(refused)
	var skips []profile.Skip
	reasons := make([]string, 0, len(refused))
	for _, r := range refused {
		s := profile.Skip{Label: engine.Config{Parallelism: r.Parallelism, Nodes: d.nodes(r.Parallelism)}.Label(), Reason: r.Err.Error()}
		if d.model != nil {
			s.Reason = strings.TrimPrefix(s.Reason, d.model.Name+" at "+r.Parallelism.Label()+": ") // which is said anyway
		}
		skips = append(skips, s)
		reasons = append(reasons, s.Label+": "+s.Reason)
	}
	if len(cs) > 0 {
		return d.forTraffic(o, cs), skips, nil
	}
	e := field.Errorf("no layout is left: %s", strings.Join(reasons, "; "))
	if d.model != nil && d.gpu != nil {
		return nil, skips, d.wouldFit(e, base, layouts, o, fits)
	}
	return nil, skips, e
}

// nodes are those that a layout spans, as far as the GPU is known.
func (d deployment) nodes(p engine.Parallelism) engine.Nodes {
	if d.gpu == nil || d.kind == engine.KindEndpoint {
		return engine.Nodes{}
	}
	return d.gpu.Nodes(p)
}

// layouts are those asked for, else those worth trying, with what was left out of
// these.
func (d deployment) layouts(o profileOptions) ([]engine.Parallelism, []dep.Refusal) {
	if len(o.layouts) > 0 {
		return o.layouts, nil
	}
	return dep.Layouts(d.model, d.spreadsExperts(), d.gpuCount, d.weights.Weights)
}

// spreadsExperts reports whether the engine can be asked for TEP and DEP.
func (d deployment) spreadsExperts() bool {
	switch d.kind { //nolint:exhaustive // the others can
	case engine.KindCommand:
		return d.template.Uses("EP") && d.template.Uses("DP")
	case engine.KindLlamaCpp:
		return false
	}
	return true
}

// fits says why a configuration cannot run, as far as that is known: the model's
// shape alone, or memory too where the GPU is known.
func (d deployment) fits(o profileOptions) func(engine.Config) error {
	known := d.room(o)
	return func(c engine.Config) error {
		if isReal(string(d.kind)) { // whether it has such a layout at all
			if _, err := d.server.Spec(c, engine.Launch{Port: 1, LogPath: "trial.log"}); err != nil {
				return err
			}
		}
		return known(c)
	}
}

// room is fits as far as memory decides it.
func (d deployment) room(o profileOptions) func(engine.Config) error {
	switch {
	case d.model == nil, d.gpu == nil && !d.spreadsExperts(): // such an engine may be one on the CPU, with TP threads
		return func(engine.Config) error { return nil }
	}
	return func(c engine.Config) error {
		c = o.holding(c)
		if d.gpu != nil && d.modelled() && o.kvTokens > 0 {
			if err := dep.KVBeyond(*d.model, *d.gpu, c, o.kvTokens); err != nil {
				return fmt.Errorf("--kv-tokens: %w", err)
			}
		}
		return dep.Room(*d.model, d.gpu, c)
	}
}

// holding is c with a context for one request of the target at least.
func (o profileOptions) holding(c engine.Config) engine.Config {
	c.Limits.MaxModelLen = max(c.Limits.MaxModelLen, o.isl+o.osl)
	return c
}

// wouldFit hints at what would have room: another layout, or the ones asked for
// on more GPUs; and at the largest one asked for, smaller weights or a shorter
// context.
func (d deployment) wouldFit(e *field.Error, base engine.Config, asked []engine.Parallelism, o profileOptions, fits func(engine.Config) error) error {
	most := engine.TP(d.gpuCount)
	for i, p := range asked {
		if n := p.GPUs(); n <= d.gpuCount && (i == 0 || n >= most.GPUs()) {
			most = p
		}
	}
	worth, _ := dep.Layouts(d.model, d.spreadsExperts(), mostHinted, base.Weights)
	others := append(worth, dep.PowersOfTwo(mostHinted)...)
	for _, p := range append(slices.Clone(asked), others...) {
		if base.Parallelism = p; fits(base) != nil {
			continue
		}
		if p.GPUs() <= d.gpuCount {
			e = e.Hint("%s would do", layoutFlag(p))
		} else {
			e = e.Hint("--gpu-count %d with %s would do", p.GPUs(), layoutFlag(p))
		}
		break
	}
	if base.Parallelism = most; fits(base) == nil {
		return e
	}
	if w := dep.SmallerWeights(base, fits); w != "" {
		e = e.Hint("--weights %s with %s would do", w, layoutFlag(most))
	}
	if n := dep.ContextRoom(*d.model, *d.gpu, base); n >= o.isl+o.osl && n < base.Limits.MaxModelLen {
		e = e.Hint("--max-context-length %d with %s would do", n, layoutFlag(most))
	}
	return e
}

// layoutWarnings says which candidates span servers, and which parts of their layouts a
// template leaves out.
func (d deployment) layoutWarnings(cs []engine.Config) []profile.Warning {
	out := dep.NodesWarnings(cs...)
	if m, err := d.speed(cs[0]); err == nil && d.modelled() {
		c := cs[0]
		c.Nodes = engine.Nodes{} // which is said
		out = append(out, dep.ModelWarnings(m, c)...)
	}
	for _, part := range []struct {
		name string
		of   func(engine.Parallelism) int
	}{
		{"TP", func(p engine.Parallelism) int { return p.TP }},
		{"PP", func(p engine.Parallelism) int { return p.PP }},
		{"DP", func(p engine.Parallelism) int { return p.DP }},
		{"EP", func(p engine.Parallelism) int { return p.EP }},
	} {
		i := slices.IndexFunc(cs, func(c engine.Config) bool { return part.of(c.Parallelism.Normal()) > 1 })
		if d.kind == engine.KindCommand && i >= 0 && !d.template.Uses(part.name) {
			out = append(out, profile.Warnf("template_"+strings.ToLower(part.name),
				"the command does not use {{.%s}}, so %s starts the same engine. Add it to the command", part.name, cs[i].Parallelism.Label()))
		}
	}
	return out
}

// mostHinted is the most GPUs that a hint names.
const mostHinted = 64

// layoutFlag is the flag that asks for a layout, as a shell takes it.
func layoutFlag(p engine.Parallelism) string {
	flag := layoutArgs(p)
	if strings.Contains(flag[1], " ") {
		flag[1] = strconv.Quote(flag[1])
	}
	return strings.Join(flag, " ")
}

// layoutArgs is the same as arguments.
func layoutArgs(p engine.Parallelism) []string {
	if p = p.Normal(); p == engine.TP(p.TP) {
		return []string{"--tp", itoa(p.TP)}
	}
	return []string{"--parallelism", p.Label()}
}

// checkContext refuses a workload that the model cannot hold.
func (d deployment) checkContext(o profileOptions) error {
	limit, what := 0, ""
	if d.model != nil {
		limit, what = d.model.MaxContext, d.model.Name
	}
	if o.maxContext > 0 && (limit == 0 || o.maxContext < limit) {
		limit, what = o.maxContext, "--max-context-length"
	} else if o.maxContext > limit && limit > 0 {
		return field.Errorf("--max-context-length %d: %s takes %d at most", o.maxContext, what, limit)
	}
	if d.modelled() && o.kvTokens > 0 && (limit == 0 || o.kvTokens < limit) {
		limit, what = o.kvTokens, "--kv-tokens"
	}
	if limit > 0 && o.isl+o.osl > limit {
		return field.Errorf("--isl %d and --osl %d are %d tokens together, but %s holds %d", o.isl, o.osl, o.isl+o.osl, what, limit)
	}
	return nil
}

// model of a configuration's speed, where model and GPU are known.
func (d deployment) speed(c engine.Config) (latency.Model, error) {
	if d.model == nil || d.gpu == nil {
		return latency.Model{}, errors.New("model or GPU unknown")
	}
	return latency.NewWith(*d.model, *d.gpu, c, d.fit)
}

// expectation adapts a latency model to what the sweep asks of it.
type expectation struct {
	latency.Model
	kvTokens int
	context  int // tokens of a sequence that runs in the engine
}

func (e expectation) KVTokens() int { return cmp.Or(e.kvTokens, e.KVTokensAt(e.context)) }

// WindowedKV implements sweep.Expectation.
func (e expectation) WindowedKV() engine.WindowedKV {
	if e.kvTokens > 0 { // the flag says one capacity
		return engine.WindowedKV{}
	}
	return e.Model.WindowedKV()
}

func (e expectation) TTFT(isl int) time.Duration { return e.Model.TTFT(isl, 0) }

// Errors implements sweep.Expectation.
func (e expectation) Errors() (ttft, itl profile.ModelError) {
	return dep.ModelError(e.TTFTError()), dep.ModelError(e.ITLError())
}

func (d deployment) expect(c engine.Config) (sweep.Expectation, bool) {
	m, err := d.speed(c)
	return expectation{m, d.kvTokens, d.context}, err == nil
}

// forTraffic gives modelled candidates a context for the longest request that is to
// be played, as far as the model and each one's KV cache have it; surfaces reach no
// further for that. One that was asked for stays.
func (d deployment) forTraffic(o profileOptions, cs []engine.Config) []engine.Config {
	if !d.modelled() || o.maxContext > 0 {
		return cs
	}
	for i, c := range cs {
		room := cmp.Or(o.kvBlocks(sim.DefaultBlockSize)*sim.DefaultBlockSize, dep.ContextRoom(*d.model, *d.gpu, c))
		cs[i].Limits.MaxModelLen = max(c.Limits.MaxModelLen, min(o.traffic.longest(), d.model.MaxContext, room))
	}
	return cs
}

// kvWarnings are those of the candidates whose KV cache --kv-tokens says, and otherwise the
// first one of what the engine does with it.
func (d deployment) kvWarnings(o profileOptions, cs []engine.Config) (out []profile.Warning) {
	for _, c := range cs {
		l, err := d.speed(c)
		if err != nil {
			continue
		}
		own, _ := c.Steps(d.gpu.Name, d.gpu.MemoryBytes)
		switch most := l.Limits().MaxNumSeqs; {
		case d.modelled() && o.kvTokens > 0:
			out = append(out, dep.KVWarnings("--kv-tokens", l, c.Label(), o.kvTokens)...)
		case len(out) > 0:
		case d.modelled():
			out = append(out, dep.EngineWarnings(l, false)...)
		case d.kind == engine.KindVLLM && c.Limits.MaxNumSeqs == 0 && most < own:
			out = append(out, profile.Warnf("state_blocks", "%s: from 0.25 on vLLM does not start with its default of %d sequences: its KV cache has blocks for the states of about %d. Set --max-num-seqs %[3]d", c.Label(), own, most))
		}
	}
	return out
}
