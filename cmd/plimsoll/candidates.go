package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/profile"
	"plimsoll/sweep"
)

// candidates are the sizes to try, and those left out with their reasons.
func (d deployment) candidates(o profileOptions) ([]engine.Config, []profile.Skip, error) {
	base := d.base(o)
	if d.kind == engine.KindEndpoint {
		base.Parallelism = engine.TP(d.gpuCount)
		return []engine.Config{base}, nil, nil
	}
	var fits func(engine.Config) error
	if d.model != nil && d.gpu != nil {
		fits = func(c engine.Config) error {
			c.Limits.MaxModelLen = max(c.Limits.MaxModelLen, o.isl+o.osl) // one request of the target at least
			if d.modelled() && o.kvTokens > 0 {
				if err := kvBeyond(*d.model, *d.gpu, c, o.kvTokens); err != nil {
					return fmt.Errorf("--kv-tokens: %w", err)
				}
			}
			return latency.Check(*d.model, *d.gpu, c)
		}
	}
	cs, skips := sweep.Candidates(base, d.gpuCount, o.tps, fits)
	reasons := make([]string, 0, len(skips))
	for i := range skips {
		s := &skips[i]
		if d.model != nil {
			s.Reason = strings.TrimPrefix(s.Reason, d.model.Name+" at "+s.Label+": ") // which is said anyway
		}
		reasons = append(reasons, s.Label+": "+s.Reason)
	}
	if len(cs) > 0 {
		return cs, skips, nil
	}
	e := usagef("no tensor-parallel size is left: %s", strings.Join(reasons, "; "))
	if fits != nil {
		return nil, skips, d.wouldFit(e, base, o, fits)
	}
	return nil, skips, e
}

// wouldFit hints at what would have room: another size, or the sizes asked for
// on more GPUs; and at the largest size asked for, smaller weights or a shorter
// context.
func (d deployment) wouldFit(e *usageError, base engine.Config, o profileOptions, fits func(engine.Config) error) error {
	for _, n := range append(slices.Clone(o.tps), 1, 2, 4, 8, 16, 32, 64) {
		if base.Parallelism = engine.TP(n); fits(base) != nil {
			continue
		}
		if n <= d.gpuCount {
			e = e.hint("--tp %d would do", n)
		} else {
			e = e.hint("--gpu-count %d with --tp %d would do", n, n)
		}
		break
	}
	size := d.gpuCount
	if len(o.tps) > 0 {
		size = min(size, slices.Max(o.tps))
	}
	if base.Parallelism = engine.TP(size); fits(base) == nil {
		return e
	}
	if w := smallerWeights(base, fits); w != "" {
		e = e.hint("--weights %s with --tp %d would do", w, size)
	}
	if n := contextRoom(*d.model, *d.gpu, base); n >= o.isl+o.osl && n < base.Limits.MaxModelLen {
		e = e.hint("--max-context-length %d with --tp %d would do", n, size)
	}
	return e
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
		return usagef("--max-context-length %d: %s takes %d at most", o.maxContext, what, limit)
	}
	if d.modelled() && o.kvTokens > 0 && (limit == 0 || o.kvTokens < limit) {
		limit, what = o.kvTokens, "--kv-tokens"
	}
	if limit > 0 && o.isl+o.osl > limit {
		return usagef("--isl %d and --osl %d are %d tokens together: %s holds %d", o.isl, o.osl, o.isl+o.osl, what, limit)
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
}

func (e expectation) KVTokens() int { return orElse(e.kvTokens, e.Model.KVTokens()) }

func (e expectation) TTFT(isl int) time.Duration { return e.Model.TTFT(isl, 0) }

func (d deployment) expect(c engine.Config) (sweep.Expectation, bool) {
	m, err := d.speed(c)
	return expectation{m, d.kvTokens}, err == nil
}
