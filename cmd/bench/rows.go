package main

import "plimsoll/cmd/bench/cputime"

// benchmark is one of a package's, without the word Benchmark.
type benchmark struct{ pkg, name string }

// figure is what a benchmark says in one unit.
type figure struct {
	benchmark
	unit string
}

// in is a figure of b.
func (b benchmark) in(unit string) figure { return figure{b, unit} }

// row is a figure beside what it is compared with. Less is better.
type row struct {
	area, what string
	figure     figure
	against    string
	baseline   figure
}

// rows are those of the table.
func rows() []row {
	var all []row
	for _, of := range []func() []row{client, surfaces, search, latency, simulator, plans} {
		all = append(all, of()...)
	}
	return all
}

func client() []row {
	const pkg, area, aiohttp = "profile/load", "client", "asyncio and aiohttp, time after the read"
	ours := func(pattern string) benchmark { return benchmark{pkg, "Client/" + pattern} }
	theirs := func(pattern string) benchmark { return benchmark{pkg, "Aiohttp/" + pattern} }
	const staggered, stepped = "1000x20/staggered", "1000x20/stepped"
	return []row{
		{
			area, "added to the gaps of 1,000 streams, p99, 20,000 tokens/s staggered", ours(staggered).in("kernel-p99-µs"),
			aiohttp, theirs(staggered).in("read-p99-µs"),
		},
		{
			area, "… all streams on one step, as engines send", ours(stepped).in("kernel-p99-µs"),
			aiohttp, theirs(stepped).in("read-p99-µs"),
		},
		{
			area, "processor time per token there", ours(stepped).in("cpu-µs/token"),
			"asyncio and aiohttp", theirs(stepped).in("cpu-µs/token"),
		},
		{
			area, "parse a chunk, processor time", benchmark{pkg, "ParseChunk"}.in(cputime.Unit),
			"encoding/json into a struct", benchmark{pkg, "ParseChunkEncodingJSON"}.in(cputime.Unit),
		},
	}
}

func surfaces() []row {
	const pkg, area, dynamo = "interpolation", "surfaces", "Dynamo's formulas, not run: their errors by scipy 1.10.1 come with the tests"
	held := func(what, name string) row {
		b := benchmark{pkg, "HeldOut/" + name}
		return row{area, what, b.in("%error"), dynamo, b.in("%upstream")}
	}
	return []row{
		held("each TTFT of NVIDIA's H200 profile from the others, mean error", "prefill/measured"),
		held("each ITL of it", "decode/measured"),
		held("TTFT of five simulated engines, without noise, with it, and with an outlier", "prefill/simulated"),
		held("ITL of them", "decode/simulated"),
		{
			area, "the 41 fits and predictions of the H200's ITL, processor time", benchmark{pkg, "LeaveOneOutDecode"}.in(cputime.Unit),
			"Dynamo's formulas in scipy, here", benchmark{pkg, "LeaveOneOutScipy"}.in(cputime.Unit),
		},
	}
}

func search() []row {
	const area = "search cost"
	ours, grid := benchmark{"cmd/plimsoll", "Search/adaptive"}, benchmark{"cmd/plimsoll", "Search/grid"}
	return []row{
		{area, "engine-seconds for six deployments, loading not counted", ours.in("engine-ns/op"), "Dynamo's grid (`--search grid`)", grid.in("engine-ns/op")},
		{area, "engines launched", ours.in("launches"), "the grid", grid.in("launches")},
		{area, "requests sent", ours.in("requests"), "the grid", grid.in("requests")},
	}
}

func latency() []row {
	const area = "latency model"
	b := benchmark{"engine/latency/fit", "HeldOut"}
	return []row{
		{area, "TPOT of vLLM 0.15.1 at a TP size that was not fitted, median error", b.in("%tpot-other-tp"), "weights and KV cache once at the data sheet's bandwidth", b.in("%tpot-rule")},
		{area, "TPOT of it by the fit to other versions, after six points", b.in("%tpot-six"), "before them", b.in("%tpot-before")},
		{area, "TTFT of it, after six points", b.in("%ttft-six"), "before them", b.in("%ttft-before")},
	}
}

func simulator() []row {
	const area = "simulator"
	engine := benchmark{"engine/sim", "Request/plain"}
	estimate := benchmark{"cmd/plimsoll", "Estimate/osl150"}
	return []row{
		{area, "a request of 256 tokens, steps taken in runs, processor time", engine.in(cputime.Unit), "the same steps one by one", benchmark{"engine/sim", "Request/stepped"}.in(cputime.Unit)},
		{area, "… through a fleet of four, its percentiles kept", benchmark{"engine/sim/fleet", "RoundRobin"}.in(cputime.Unit), "one engine alone", engine.in(cputime.Unit)},
		{area, "a whole estimated profile with pictures, processor time", estimate.in(cputime.Unit), "the engine-seconds that it stands for", estimate.in("engine-ns/op")},
	}
}

func plans() []row {
	const pkg, area = "capacity", "plan"
	sized, formula := benchmark{pkg, "Size/chatbot/disaggregated"}, benchmark{pkg, "FormulaWithCorrections"}
	return []row{
		{area, "Llama-3.1-70B for 100 requests/s sized by simulation, processor time", sized.in(cputime.Unit), "the published formulas", formula.in(cputime.Unit)},
		{area, "GPUs of that plan, before spares", sized.in("GPUs"), "the published formulas", formula.in("GPUs")},
	}
}
