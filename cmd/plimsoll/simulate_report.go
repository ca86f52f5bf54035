package main

import (
	"bytes"
	"fmt"
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// text is the result as people read it.
func (s simulation) text(b *bytes.Buffer) {
	r, f := s.report, s.fleet
	fmt.Fprintf(b, "%s of %s on %s: %s\n", f.layout(), f.model, f.gpu, r.Provenance)
	fmt.Fprintf(b, "Step times: %s; %s scheduling\n", f.source, f.scheduling())
	if f.ttft.Known() {
		fmt.Fprintf(b, "Model error of TTFT: %s\n", shownError(f.ttft))
	}
	if f.itl.Known() {
		fmt.Fprintf(b, "Model error of ITL: %s\n", shownError(f.itl))
	}
	fmt.Fprintf(b, "Load: %s, %d requests in %s, ISL %.0f and OSL %.0f on average\n\n", s.load, r.Offered, seconds(r.At), r.ISL.Mean(), r.OSL.Mean())

	fmt.Fprintf(b, "Finished %d of %d requests: %.4g requests/s, %.4g output tokens/s, %.4g tokens/s/GPU\n",
		r.Finished, r.Offered, r.Requests, r.Tokens, r.Tokens/float64(max(f.gpus(), 1)))
	s.attainment(b)
	b.WriteString("\n" + latencyTable(r).text("") + "\n" + s.poolTable().text(""))
	if d := r.Pools; d[0].PrefixHits.All() > 0 {
		h := d[0].PrefixHits
		fmt.Fprintf(b, "\nPrefix cache held %.1f %% of prompt tokens (GPU %.1f, DRAM %.1f, NVMe %.1f)\n", 100*h.All(), 100*h.HBM, 100*h.DRAM, 100*h.NVMe)
	}
}

func (f simulatedFleet) gpus() int {
	n := 0
	for _, p := range f.Pools {
		n += p.Replicas * p.GPUs
	}
	return n
}

// scheduling is how the engines schedule, in a word.
func (f simulatedFleet) scheduling() string {
	if f.Pools[0].Engine.AsyncScheduling {
		return "asynchronous"
	}
	return "synchronous"
}

// attainment says what share of the requests met the SLA, where there is one.
func (s simulation) attainment(b *bytes.Buffer) {
	sla, a := s.fleet.SLA, s.report.Attainment
	if !s.judged() {
		b.WriteString("No SLA given: --ttft and --itl make attainment and goodput of this\n")
		return
	}
	b.WriteString("Attainment:")
	if sla.TTFT > 0 {
		fmt.Fprintf(b, " TTFT ≤ %g ms %s,", profile.Milliseconds(sla.TTFT), percent(a.TTFT))
	}
	if sla.ITL > 0 {
		fmt.Fprintf(b, " ITL ≤ %g ms %s,", profile.Milliseconds(sla.ITL), percent(a.ITL))
	}
	fmt.Fprintf(b, " both %s of %d requests\n", percent(a.Both), a.Requests)
	for _, o := range s.others {
		fmt.Fprintf(b, "If every step took %.2f times as long (half of the model's errors are larger): TTFT %s, ITL %s, both %s\n",
			o.Factor, percent(o.Attainment.TTFT), percent(o.Attainment.ITL), percent(o.Attainment.Both))
	}
	fmt.Fprintf(b, "Goodput: %.4g requests/s, %.4g output tokens/s\n", s.report.GoodRequests, s.report.GoodTokens)
}

// percent never rounds a miss away, nor the last success.
func percent(share float64) string {
	switch {
	case share > 0.9999 && share < 1:
		return fmt.Sprintf("%.4f %%", math.Floor(1e6*share)/1e4)
	case share > 0 && share < 0.0001:
		return fmt.Sprintf("%.4f %%", math.Ceil(1e6*share)/1e4)
	}
	return fmt.Sprintf("%.2f %%", 100*share)
}

func tenths(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func latencyTable(r fleet.Report) *table {
	t := newTable("ms", "mean", "p50", "p90", "p95", "p99", "p99.9", "max")
	row := func(name string, s fleet.Sketch) {
		if s.Count() == 0 {
			return
		}
		cells := []string{name, millis(int64(s.Mean()))}
		for _, q := range []float64{0.5, 0.9, 0.95, 0.99, 0.999} {
			cells = append(cells, millis(s.Quantile(q)))
		}
		t.row(append(cells, millis(s.Max()))...)
	}
	row("TTFT", r.TTFT)
	row("ITL", r.ITL)
	row("TPOT", r.TPOT)
	row("E2E", r.E2E)
	for _, p := range r.Pools {
		name := "wait"
		if len(r.Pools) > 1 {
			name = string(p.Role) + " wait"
		}
		row(name, p.Wait)
	}
	return t
}

// millis prints picoseconds in milliseconds, four digits where there are so many.
func millis(ps int64) string {
	v := engine.Picoseconds(ps).Milliseconds()
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

func seconds(t engine.Picoseconds) string { return fmt.Sprintf("%.1f s", t.Seconds()) }

func (s simulation) poolTable() *table {
	t := newTable("pool", "replicas", "GPUs", "busy", "KV use", "KV peak", "running", "waiting", "most waiting", "preempted", "GPU-hours")
	for i, p := range s.report.Pools {
		c := s.fleet.Pools[i]
		t.row(string(p.Role), itoa(c.Replicas), itoa(c.Replicas*c.GPUs), tenths(p.Utilisation), tenths(p.KVUseMean), tenths(p.KVUsePeak),
			fmt.Sprintf("%.4g", p.RunningMean), fmt.Sprintf("%.4g", p.WaitingMean), fmt.Sprintf("%.0f", p.WaitingPeak),
			fmt.Sprint(p.Preemptions), fmt.Sprintf("%.4g", p.GPUSeconds/3600))
	}
	return t
}

// simulationFile is the result as --format json prints it.
type simulationFile struct {
	Provenance profile.Provenance `json:"provenance"`
	Model      string             `json:"model"`
	GPU        string             `json:"gpu"`
	Source     string             `json:"source"`     // of the step times
	Scheduling string             `json:"scheduling"` // synchronous or asynchronous
	TTFTError  profile.ModelError `json:"ttft_error,omitzero"`
	ITLError   profile.ModelError `json:"itl_error,omitzero"`
	Load       string             `json:"load"`
	Seconds    float64            `json:"seconds"` // of virtual time
	Requests   requestCounts      `json:"requests"`
	Rates      rates              `json:"per_second"`
	SLA        slaFile            `json:"sla"`
	Attainment *attainmentFile    `json:"attainment,omitempty"`    // none without an SLA
	OtherSpeed []otherSpeed       `json:"attainment_if,omitempty"` // the model is off by its median error
	Latency    map[string]spread  `json:"latency_ms"`
	Pools      []poolFile         `json:"pools"`
	Series     []binFile          `json:"series"`
	Warnings   []profile.Warning  `json:"warnings"`
}

type requestCounts struct {
	Offered    int64   `json:"offered"`
	Finished   int64   `json:"finished"`
	Rejected   int64   `json:"rejected"`
	Lost       int64   `json:"lost"`
	Unfinished int64   `json:"unfinished"`
	MeanISL    float64 `json:"mean_isl"`
	MeanOSL    float64 `json:"mean_osl"`
	InFlight   float64 `json:"mean_in_flight"`
}

type rates struct {
	Requests     float64 `json:"requests"`
	OutputTokens float64 `json:"output_tokens"`
	GoodRequests float64 `json:"good_requests"`
	GoodTokens   float64 `json:"good_output_tokens"`
	TokensPerGPU float64 `json:"output_tokens_per_gpu"`
}

// attainmentFile is the share of requests that met the SLA, from 0 to 1.
type attainmentFile struct {
	Requests int64   `json:"requests"`
	TTFT     float64 `json:"ttft"`
	ITL      float64 `json:"itl"`
	Both     float64 `json:"both"`
}

func attainmentOf(a fleet.Attainment) attainmentFile {
	return attainmentFile{a.Requests, a.TTFT, a.ITL, a.Both}
}

type slaFile struct {
	TTFT float64 `json:"ttft_ms"` // 0 = no bound
	ITL  float64 `json:"itl_ms"`
}

// spread is a distribution in milliseconds.
type spread struct {
	N    int64   `json:"n"`
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

func spreadOf(s fleet.Sketch) spread {
	ms := func(ps int64) float64 { return engine.Picoseconds(ps).Milliseconds() }
	return spread{
		N: s.Count(), Mean: s.Mean() / float64(engine.Millisecond), Min: ms(s.Min()), Max: ms(s.Max()),
		P50: ms(s.Quantile(0.5)), P90: ms(s.Quantile(0.9)), P95: ms(s.Quantile(0.95)), P99: ms(s.Quantile(0.99)), P999: ms(s.Quantile(0.999)),
	}
}

type poolFile struct {
	Role         engine.Role `json:"role"`
	Label        string      `json:"label"`
	Replicas     int         `json:"replicas"`
	GPUs         int         `json:"gpus"` // of all of them
	Router       string      `json:"router"`
	MaxNumSeqs   int         `json:"max_num_seqs"`
	KVTokens     int         `json:"kv_tokens"` // of one replica
	Utilisation  float64     `json:"utilisation"`
	KVUseMean    float64     `json:"kv_use_mean"`
	KVUsePeak    float64     `json:"kv_use_peak"`
	RunningMean  float64     `json:"running_mean"`
	RunningPeak  float64     `json:"running_peak"`
	WaitingMean  float64     `json:"waiting_mean"`
	WaitingPeak  float64     `json:"waiting_peak"`
	Wait         spread      `json:"wait_ms"`
	PrefixHitHBM float64     `json:"prefix_hit_share_hbm"`
	PrefixHitRAM float64     `json:"prefix_hit_share_dram"`
	PrefixHitSSD float64     `json:"prefix_hit_share_nvme"`
	Steps        int64       `json:"steps"`
	Preemptions  int64       `json:"preemptions"`
	GPUSeconds   float64     `json:"gpu_seconds"`
}

// binFile is a piece of the run over time.
type binFile struct {
	From     float64 `json:"from_s"`
	To       float64 `json:"to_s"`
	Arrivals int64   `json:"arrivals"`
	Finished int64   `json:"finished"`
	Waiting  float64 `json:"waiting"`
	Running  float64 `json:"running"`
	KVUse    float64 `json:"kv_use"`
	TTFTMean float64 `json:"ttft_mean_ms"` // 0 where no request got its first token
	TTFTMax  float64 `json:"ttft_max_ms"`
}

func (s simulation) file() simulationFile {
	r, f := s.report, s.fleet
	out := simulationFile{
		Provenance: r.Provenance, Model: f.model, GPU: f.gpu, Source: f.source, Scheduling: f.scheduling(), TTFTError: f.ttft, ITLError: f.itl,
		Load: s.load, Seconds: r.At.Seconds(), OtherSpeed: s.others,
		Requests: requestCounts{
			Offered: r.Offered, Finished: r.Finished, Rejected: r.Rejected, Lost: r.Lost, Unfinished: r.Unfinished,
			MeanISL: r.ISL.Mean(), MeanOSL: r.OSL.Mean(), InFlight: r.MeanInFlight,
		},
		Rates: rates{
			Requests: r.Requests, OutputTokens: r.Tokens, GoodRequests: r.GoodRequests, GoodTokens: r.GoodTokens,
			TokensPerGPU: r.Tokens / float64(max(f.gpus(), 1)),
		},
		SLA:     slaFile{profile.Milliseconds(f.SLA.TTFT), profile.Milliseconds(f.SLA.ITL)},
		Latency: map[string]spread{"ttft": spreadOf(r.TTFT), "itl": spreadOf(r.ITL), "tpot": spreadOf(r.TPOT), "e2e": spreadOf(r.E2E)},
		Pools:   []poolFile{}, Series: []binFile{}, Warnings: append([]profile.Warning{}, s.warnings...),
	}
	if s.judged() {
		a := attainmentOf(r.Attainment)
		out.Attainment = &a
	}
	for i, p := range r.Pools {
		out.Pools = append(out.Pools, poolFileOf(f.Pools[i], f.labels[i], p))
	}
	for _, x := range r.Series {
		out.Series = append(out.Series, binFile{
			From: x.From.Seconds(), To: x.To.Seconds(), Arrivals: x.Arrivals, Finished: x.Finished, Waiting: x.Waiting, Running: x.Running,
			KVUse: x.KVUse, TTFTMean: x.TTFTMean.Milliseconds(), TTFTMax: x.TTFTMax.Milliseconds(),
		})
	}
	return out
}

func poolFileOf(c fleet.Pool, label string, p fleet.PoolReport) poolFile {
	return poolFile{
		Role: p.Role, Label: label, Replicas: c.Replicas, GPUs: c.Replicas * c.GPUs, Router: string(c.Router),
		MaxNumSeqs: c.Engine.Limits.MaxNumSeqs, KVTokens: c.Engine.KVBlocks * c.Engine.Limits.BlockSize,
		Utilisation: p.Utilisation, KVUseMean: p.KVUseMean, KVUsePeak: p.KVUsePeak, RunningMean: p.RunningMean, RunningPeak: p.RunningPeak,
		WaitingMean: p.WaitingMean, WaitingPeak: p.WaitingPeak, Wait: spreadOf(p.Wait),
		PrefixHitHBM: p.PrefixHits.HBM, PrefixHitRAM: p.PrefixHits.DRAM, PrefixHitSSD: p.PrefixHits.NVMe,
		Steps: p.Steps, Preemptions: p.Preemptions, GPUSeconds: p.GPUSeconds,
	}
}
