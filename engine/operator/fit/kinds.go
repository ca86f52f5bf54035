package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"plimsoll/engine/operator"
)

// products reads matrix products. Engines choose their kernels by trying them, so
// the fastest of all engines' counts; spikes of single sizes go: no product takes
// longer than one with more tokens. vLLM's table of FP8 by blocks on Blackwell is of a
// kernel several times slower than the one that it serves with (MiniMax-M2.5 on B300
// would take twice as long as measured).
func (c *collector) products(dir string) error {
	t, err := readTable(filepath.Join(dir, "gemm.csv.gz"), "gpu", "engine", "gemm_dtype", "m", "n", "k")
	if err != nil {
		return err
	}
	type shape struct{ n, k float64 }
	type at struct {
		gpu   string
		dtype string
		shape
	}
	best := map[at]map[float64]float64{}
	for _, row := range t.rows {
		a := at{t.text(row, "gpu"), t.text(row, "gemm_dtype"), shape{t.number(row, "n"), t.number(row, "k")}}
		slow := a.dtype == "fp8_block" && t.text(row, "engine") == "vllm" && !strings.HasPrefix(a.gpu, "h") && a.gpu != "l40s"
		if a.n < 256 || a.k < 256 || slow {
			continue
		}
		if best[a] == nil {
			best[a] = map[float64]float64{}
		}
		m, us := t.number(row, "m"), t.number(row, "us")
		if old, ok := best[a][m]; !ok || us < old {
			best[a][m] = us
		}
	}
	for a, times := range best {
		k := operator.Curve{Kind: operator.KindMatMul, GPU: gpus[a.gpu], Version: "all", DType: operator.DType(a.dtype)}
		g := c.of(k, func() group { return group{start: operator.ProductStart(), time: operator.ProductX} })
		ms := make([]float64, 0, len(times))
		for m := range times {
			ms = append(ms, m)
		}
		slices.Sort(ms)
		least := times[ms[len(ms)-1]]
		for _, m := range slices.Backward(ms) {
			least = min(least, times[m])
			g.add(least, fmt.Sprint(a.shape), m, a.n, a.k)
		}
	}
	return nil
}

func (c *collector) attention(dir string) error {
	t, err := readTable(filepath.Join(dir, "generation_attention.csv.gz"), "gpu", "engine", "version", "kv_cache_dtype", "batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size")
	if err != nil {
		return err
	}
	for _, row := range t.rows {
		seqs, window := t.number(row, "batch_size"), t.number(row, "window_size")
		k := c.curve(t, row, operator.KindDecode, "kv_cache_dtype")
		if g := c.of(k, func() group { return group{start: operator.DecodeStart(), time: operator.DecodeX} }); g != nil {
			h := []float64{t.number(row, "num_heads"), t.number(row, "num_key_value_heads"), t.number(row, "head_dim")}
			if !served(h, seqs) || t.number(row, "step") < 60 {
				continue
			}
			g.add(t.number(row, "us"), fmt.Sprint(h), h[0], h[1], h[2], window, seqs, t.number(row, "step")+1)
		}
	}
	if t, err = readTable(filepath.Join(dir, "context_attention.csv.gz"), "gpu", "engine", "version", "attn_dtype", "kv_cache_dtype", "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size"); err != nil {
		return err
	}
	for _, row := range t.rows {
		seqs, isl, window := t.number(row, "batch_size"), t.number(row, "isl"), t.number(row, "window_size")
		if t.text(row, "attn_dtype") != "bfloat16" {
			continue
		}
		k := c.curve(t, row, operator.KindPrefill, "kv_cache_dtype")
		if g := c.of(k, func() group { return group{start: operator.PrefillStart(), time: operator.PrefillX} }); g != nil {
			h := []float64{t.number(row, "num_heads"), t.number(row, "num_key_value_heads"), t.number(row, "head_dim")}
			if !served(h, seqs) {
				continue
			}
			g.add(t.number(row, "us"), fmt.Sprint(h), h[0], h[1], h[2], window, seqs, seqs*isl, seqs*isl*(isl+1)/2)
		}
	}
	return nil
}

// served reports whether models are served with such heads, and so many sequences.
func served(h []float64, seqs float64) bool { return h[0] <= 16*h[1] && seqs <= 512 && h[2] >= 64 }

// curve names the curve that a row belongs to.
func (c *collector) curve(t table, row []string, kind operator.Kind, dtype string) operator.Curve {
	return operator.Curve{Kind: kind, GPU: gpus[t.text(row, "gpu")], Engine: t.text(row, "engine"), Version: t.text(row, "version"), DType: operator.DType(t.text(row, dtype))}
}

// mla reads compressed attention. vLLM 0.14's and L40S's tables were measured
// without graphs: launches of 150 to 300 µs hide the kernel.
func (c *collector) mla(dir string) error {
	for _, file := range []struct {
		name  string
		kind  operator.Kind
		start []float64
		time  func([]float64, operator.DType, []float64) float64
	}{
		{"generation_mla.csv.gz", operator.KindMLADecode, operator.DecodeStart(), operator.MLADecodeX},
		{"context_mla.csv.gz", operator.KindMLAPrefill, operator.PrefillStart(), operator.MLAPrefillX},
	} {
		t, err := readTable(filepath.Join(dir, file.name), "gpu", "engine", "version", "kv_cache_dtype", "num_heads", "batch_size", "isl", "step")
		if err != nil {
			return err
		}
		for _, row := range t.rows {
			if t.text(row, "engine") == "vllm" {
				continue
			}
			g := c.of(c.curve(t, row, file.kind, "kv_cache_dtype"), func() group { return group{start: file.start, time: file.time} })
			if g == nil {
				continue
			}
			seqs, heads, isl := t.number(row, "batch_size"), t.number(row, "num_heads"), t.number(row, "isl")
			if file.kind == operator.KindMLADecode {
				g.add(t.number(row, "us"), fmt.Sprint(heads), heads, seqs, t.number(row, "step")+1)
			} else {
				g.add(t.number(row, "us"), fmt.Sprint(heads), heads, seqs, seqs*isl, seqs*isl*(isl+1)/2)
			}
		}
	}
	return nil
}

// experts reads routed experts under a skewed load: it fits most engines better
// than a balanced one. TensorRT-LLM's table of FP8 by blocks on Blackwell is of a kernel
// that takes twice as long as the one that it serves with (DeepSeek-R1 on B200 at 8 in
// flight would take 14 ms a step instead of 11); SGLang's is of that one.
func (c *collector) experts(dir string) error {
	t, err := readTable(filepath.Join(dir, "moe.csv.gz"), "gpu", "engine", "version", "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution")
	if err != nil {
		return err
	}
	for _, row := range t.rows {
		if t.text(row, "distribution") != "power_law_1.2" {
			continue
		}
		k := c.curve(t, row, operator.KindExperts, "moe_dtype")
		of := []operator.Curve{k}
		if k.DType == operator.FP8Block && strings.Contains(k.GPU, "B") { // Blackwell's names
			switch k.Engine {
			case "trtllm":
				continue
			case "sglang":
				k.Engine = "trtllm"
				of = append(of, k)
			}
		}
		for _, k := range of {
			g := c.of(k, func() group { return group{start: operator.ExpertsStart(), time: operator.ExpertsX} })
			if g == nil {
				continue
			}
			width := t.number(row, "inter_size") / t.number(row, "moe_tp_size")
			hidden, topk, count := t.number(row, "hidden_size"), t.number(row, "topk"), t.number(row, "num_experts")
			g.add(t.number(row, "us"), fmt.Sprint(hidden, t.number(row, "inter_size"), topk, count), t.number(row, "num_tokens"), hidden, width, topk, count, t.number(row, "moe_ep_size"))
		}
	}
	return nil
}

// collectives reads the engines' all-reduce, in graphs where they serve with these,
// and NCCL's others.
func (c *collector) collectives(dir string) error {
	t, err := readTable(filepath.Join(dir, "allreduce.csv.gz"), "gpu", "engine", "version", "num_gpus", "message_size", "kernel_source")
	if err != nil {
		return err
	}
	shape := func() group { return group{start: operator.CollectiveStart(), time: operator.CollectiveX} }
	for _, row := range t.rows {
		if strings.HasSuffix(t.text(row, "kernel_source"), "_eager") && t.text(row, "gpu") != "b60" {
			continue
		}
		k := operator.Curve{Kind: operator.KindAllReduce, GPU: gpus[t.text(row, "gpu")], Engine: t.text(row, "engine"), Version: t.text(row, "version")}
		if g := c.of(k, shape); g != nil {
			g.add(t.number(row, "us"), "", 2*t.number(row, "message_size"), t.number(row, "num_gpus"))
		}
	}
	if t, err = readTable(filepath.Join(dir, "nccl.csv.gz"), "gpu", "nccl", "op", "dtype", "num_gpus", "message_size"); err != nil {
		return err
	}
	kinds := map[string]operator.Kind{"all_gather": operator.KindAllGather, "reduce_scatter": operator.KindScatter, "alltoall": operator.KindAllToAll}
	for _, row := range t.rows {
		kind, ok := kinds[t.text(row, "op")]
		if !ok || t.text(row, "dtype") != "half" {
			continue
		}
		k := operator.Curve{Kind: kind, GPU: gpus[t.text(row, "gpu")], Version: t.text(row, "nccl")}
		if g := c.of(k, shape); g != nil {
			g.add(t.number(row, "us"), "", 2*t.number(row, "message_size"), t.number(row, "num_gpus"))
		}
	}
	return nil
}
