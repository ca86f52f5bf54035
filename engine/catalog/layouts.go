package catalog

import (
	"fmt"

	"plimsoll/engine"
)

// Splits says why m's shape does not divide into p; nil = it does. weights is how
// they are stored: blocks of quantized ones are not split. TP has to divide the
// attention heads and the width of every part that it splits; it may be a
// multiple of the KV heads, of which ranks then keep copies. Experts are spread
// over all GPUs of a pipeline stage (EP = TP·DP) or split by TP like the rest.
func (m Model) Splits(p engine.Parallelism, weights engine.DType) error {
	if p.TP < 0 || p.PP < 0 || p.DP < 0 || p.EP < 0 {
		return fmt.Errorf("parallelism TP %d, PP %d, DP %d, EP %d: want no negative number", p.TP, p.PP, p.DP, p.EP)
	}
	p = p.Normal()
	switch {
	case m.QHeads%p.TP != 0:
		return fmt.Errorf("TP %d does not divide the %d attention heads of %s", p.TP, m.QHeads, m.Name)
	case !m.dividesKV(p) && p.TP%m.KVHeads != 0:
		return fmt.Errorf("TP %d neither divides the %d KV heads of %s nor is a multiple of them", p.TP, m.KVHeads, m.Name)
	case m.LinearValueHeads%p.TP != 0:
		return fmt.Errorf("TP %d does not divide the %d heads of linear attention of %s", p.TP, m.LinearValueHeads, m.Name)
	case p.PP > m.Layers:
		return fmt.Errorf("PP %d is more than the %d layers of %s", p.PP, m.Layers, m.Name)
	case p.EP > 1 && !m.MoE():
		return fmt.Errorf("EP %d: %s has no experts to spread", p.EP, m.Name)
	case p.EP > 1 && p.EP != p.TP*p.DP:
		return fmt.Errorf("EP %d: want 1 or %d (TP·DP, all GPUs of a pipeline stage)", p.EP, p.TP*p.DP)
	case p.EP > 1 && m.Experts%p.EP != 0:
		return fmt.Errorf("EP %d does not divide the %d experts of %s", p.EP, m.Experts, m.Name)
	}
	return m.splitsWidths(p, weights)
}

// dividesKV reports whether each KV head is on one rank of TP only. Under MLA the
// count of a config.json is that of the query heads, and nothing is divided by
// it: one compressed entry serves all heads and is on every rank.
func (m Model) dividesKV(p engine.Parallelism) bool { return m.MLA() || m.KVHeads%p.TP == 0 }

// splitsWidths holds TP to the feed-forward parts that it splits.
func (m Model) splitsWidths(p engine.Parallelism, weights engine.DType) error {
	dense := !m.MoE() || m.DenseLayers > 0
	for _, part := range []struct {
		name  string
		width int
		split bool
	}{
		{"feed-forward width", m.FFN, dense},
		{"shared experts' width", m.SharedExperts * m.MoEFFN, m.MoE() && m.SharedExperts > 0},
		{"experts' width", m.MoEFFN, m.MoE() && p.EP == 1},
	} {
		block := m.QuantBlock
		if weights.Bytes() >= engine.BF16.Bytes() {
			block = 0 // nothing is quantized
		}
		switch each := part.width / p.TP; {
		case !part.split || p.TP == 1:
		case part.width%p.TP != 0:
			return fmt.Errorf("TP %d does not divide the %s %d of %s", p.TP, part.name, part.width, m.Name)
		case block > 0 && each%block != 0:
			return fmt.Errorf("TP %d leaves %d of the %s %d of %s to each GPU, which cuts its quantization blocks of %d", p.TP, each, part.name, part.width, m.Name, block)
		}
	}
	return nil
}

// Unfit is a layout that was considered and left out.
type Unfit struct {
	Parallelism engine.Parallelism
	Err         error // why, never nil
}

// Layouts are the layouts that are worth measuring for m on up to gpus GPUs, and
// those left out, both by rising number of GPUs, which are powers of two: TP for
// dense models; TEP and DEP for models with experts; TP for those too where the
// KV cache divides by heads. These are Dynamo's mappings: it gives MoE
// models TEP and DEP, Qwen3's TP besides, and treats all other families without
// MLA as dense (ai-dynamo/dynamo, benchmarks/profiler/utils/model_info.py and
// config_modifiers/parallelization_mapping.py, read 2026-11). Under MLA plain TP
// keeps the whole KV cache on every rank and cuts experts into slivers.
//
// Beyond what Splits asks, TP has to divide the KV heads, as there: a rank more
// only keeps copies. Not so where most layers have linear attention: their state
// divides, and there is little KV.
func (m Model) Layouts(gpus int, weights engine.DType) (fit []engine.Parallelism, out []Unfit) {
	for n := 1; n <= gpus; n *= 2 {
		for _, p := range m.mappings(n) {
			err := m.Splits(p, weights)
			if err == nil && !m.dividesKV(p) && m.LinearLayers == 0 {
				err = fmt.Errorf("TP %d does not divide the %d KV heads of %s, so GPUs would keep copies", p.TP, m.KVHeads, m.Name)
			}
			if err != nil {
				out = append(out, Unfit{p, err})
				continue
			}
			fit = append(fit, p)
		}
	}
	return fit, out
}

// mappings are the layouts of n GPUs by the model's kind; of one GPU there is one.
func (m Model) mappings(n int) []engine.Parallelism {
	tp := engine.TP(n)
	if n == 1 || !m.MoE() {
		return []engine.Parallelism{tp}
	}
	spread := []engine.Parallelism{{TP: n, PP: 1, DP: 1, EP: n}, {TP: 1, PP: 1, DP: n, EP: n}}
	if m.MLA() {
		return spread
	}
	return append([]engine.Parallelism{tp}, spread...)
}
