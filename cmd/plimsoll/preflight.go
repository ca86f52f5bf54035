package main

import (
	"bytes"
	"fmt"
	"slices"

	"plimsoll/engine"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/latency"
)

// preflight is what one GPU of a candidate has its memory for, by the latency
// model, before anything is launched.
type preflight struct {
	Label string `json:"label"`
	latency.Memory
	KVTokens int  `json:"kv_tokens"` // over all ranks
	Fits     bool `json:"fits"`
}

// preflight is that of every layout considered whose shape can be; nothing where
// model or GPU are unknown, or the engine runs already.
func (d deployment) preflight(o profileOptions) []preflight {
	if d.model == nil || d.gpu == nil || d.kind == engine.KindEndpoint {
		return nil
	}
	layouts, _ := d.layouts(o)
	c := o.holding(d.base(o))
	var out []preflight
	for _, p := range layouts {
		c.Parallelism, c.Nodes = p, d.nodes(p)
		mem, tokens, err := latency.Preflight(*d.model, *d.gpu, c)
		if mem == (latency.Memory{}) || p.GPUs() > d.gpuCount {
			continue
		}
		out = append(out, preflight{Label: c.Label(), Memory: mem, KVTokens: tokens, Fits: err == nil})
	}
	return out
}

// defaults are what the plan takes of the engine's release where nothing was asked for;
// empty where no model stands for it.
func (d deployment) defaults(o profileOptions) string {
	if d.model == nil || d.gpu == nil || d.kind == engine.KindEndpoint {
		return ""
	}
	return dep.Defaults(*d.model, *d.gpu, d.base(o))
}

// verdict is the last column of the table.
func (p preflight) verdict() string {
	if p.Fits {
		return "fits"
	}
	return "does not fit"
}

func preflightTable(b *bytes.Buffer, rooms []preflight, defaults string) {
	if len(rooms) == 0 {
		return
	}
	may := fmt.Sprintf("; the engine may take %.1f", gigabytes(rooms[0].Budget))
	if slices.ContainsFunc(rooms, func(p preflight) bool { return p.Budget != rooms[0].Budget }) {
		may = "" // SGLang's share leaves out what its layouts differ in
	}
	if defaults != "" {
		may += "; " + defaults
	}
	fmt.Fprintf(b, "\nMemory of one GPU, GB (estimated%s)\n", may)
	t := newTable("configuration", "weights", "activations", "buffers", "left for KV", "KV tokens in all", "")
	for _, p := range rooms {
		t.row(p.Label, oneDecimal(p.Weights), oneDecimal(p.Activation), oneDecimal(p.NonTorch), oneDecimal(p.KV), itoa(p.KVTokens), p.verdict())
	}
	b.WriteString(t.text(""))
}

func gigabytes(bytes int64) float64 { return float64(bytes) / 1e9 }

func oneDecimal(bytes int64) string { return fmt.Sprintf("%.1f", gigabytes(bytes)) }

// preflight says the same with --verbose, a line for each candidate.
func (u *console) preflight(rooms []preflight) {
	if u.opts.dryRun {
		return // the plan has the table
	}
	for _, p := range rooms {
		u.verbosef("%s: %.1f GB of a GPU for weights, %.1f for activations, %.1f for buffers, %.1f left of %.1f for KV cache: %d tokens in all: %s (estimated)", p.Label,
			gigabytes(p.Weights), gigabytes(p.Activation), gigabytes(p.NonTorch), gigabytes(p.KV), gigabytes(p.Budget), p.KVTokens, p.verdict())
	}
}
