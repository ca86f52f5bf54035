package latency

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

// layout refuses parallelism that the model's shape does not divide into.
func layout(m catalog.Model, p engine.Parallelism) error {
	if p.TP < 0 || p.PP < 0 || p.DP < 0 || p.EP < 0 {
		return fmt.Errorf("parallelism TP %d, PP %d, DP %d, EP %d: want no negative number", p.TP, p.PP, p.DP, p.EP)
	}
	p = p.Normal()
	switch {
	case m.QHeads%p.TP != 0:
		return fmt.Errorf("TP %d does not divide the %d attention heads of %s", p.TP, m.QHeads, m.Name)
	case !m.MLA() && m.KVHeads%p.TP != 0 && p.TP%m.KVHeads != 0:
		return fmt.Errorf("TP %d neither divides the %d KV heads of %s nor is a multiple of them", p.TP, m.KVHeads, m.Name)
	case p.PP > m.Layers:
		return fmt.Errorf("PP %d is more than the %d layers of %s", p.PP, m.Layers, m.Name)
	case p.EP > 1 && !m.MoE():
		return fmt.Errorf("EP %d: %s has no experts to spread", p.EP, m.Name)
	case p.EP > 1 && p.EP != p.TP*p.DP:
		return fmt.Errorf("EP %d: experts spread over all TP·DP = %d GPUs of a pipeline stage or over none", p.EP, p.TP*p.DP)
	case p.EP > 1 && m.Experts%p.EP != 0:
		return fmt.Errorf("EP %d does not divide the %d experts of %s", p.EP, m.Experts, m.Name)
	case m.MoE() && p.EP == 1 && m.MoEFFN%p.TP != 0:
		return fmt.Errorf("TP %d does not divide the experts' width %d of %s", p.TP, m.MoEFFN, m.Name)
	}
	return nil
}
