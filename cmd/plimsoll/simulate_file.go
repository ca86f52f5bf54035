package main

import (
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

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
	LoadRate   loadRate           `json:"load_rate"`
	Trace      *traceFacts        `json:"trace,omitempty"`
	Seconds    float64            `json:"seconds"` // of virtual time
	Requests   requestCounts      `json:"requests"`
	Rates      rates              `json:"per_second"`
	SLA        slaFile            `json:"sla"`
	Attainment *attainmentFile    `json:"attainment,omitempty"` // none without an SLA
	Latency    map[string]spread  `json:"latency_ms"`
	Pools      []poolFile         `json:"pools"`
	Links      *linksFile         `json:"links,omitempty"` // from prefill to decode engines
	Series     []binFile          `json:"series"`
	Warnings   []profile.Warning  `json:"warnings"`
}

// loadRate is in requests per second, of arrivals.
type loadRate struct {
	Asked   float64 `json:"asked,omitempty"`   // none of a trace
	Offered float64 `json:"offered,omitempty"` // none where all came at once
	Speed   float64 `json:"trace_speed"`
	Scale   float64 `json:"trace_scale"`
}

type linksFile struct {
	Utilisation float64 `json:"utilisation"`
	Wait        spread  `json:"wait_ms"`
	Transfer    spread  `json:"transfer_ms"`
}

// requestCounts has the mean lengths of offered requests.
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
	TokensPerGPU float64 `json:"output_tokens_per_gpu"`

	// None without an SLA.
	GoodRequests *float64 `json:"good_requests,omitempty"`
	GoodTokens   *float64 `json:"good_output_tokens,omitempty"`
}

// attainmentFile is the share of requests that met the SLA, from 0 to 1.
type attainmentFile struct {
	Requests int64   `json:"requests"`
	TTFT     float64 `json:"ttft"`
	ITL      float64 `json:"itl"`
	Both     float64 `json:"both"`

	TTFTIn *shareIn `json:"ttft_interval,omitempty"`
	ITLIn  *shareIn `json:"itl_interval,omitempty"`
	BothIn *shareIn `json:"both_interval,omitempty"`
}

// shareIn is the 90 % interval of a share; none of a trace, or of a rate that changes.
type shareIn struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
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

	P99In *p99In `json:"p99_interval,omitempty"` // of TTFT, ITL, TPOT and E2E; none of a trace, or of a rate that changes
}

// p99In is the 90 % interval of a p99, in milliseconds.
type p99In struct {
	Low      float64  `json:"low"`
	High     *float64 `json:"high"`               // null: open, as the run is too short
	Requests float64  `json:"requests,omitempty"` // that it takes at least to ±10 %; none where there are enough
}

// spreadOf is a latency of the run with its interval.
func (s simulation) spreadOf(i int) spread {
	p := s.parts()[i]
	out, b := spreadOf(p.run), s.batches.P99(p.run, p.of)
	in := p99In{Low: b.Low / float64(engine.Millisecond), Requests: math.Ceil(b.Times * float64(s.load.n))}
	if high := b.High / float64(engine.Millisecond); !b.Open {
		in.High = &high
	}
	if p.run.Count() > 0 && s.load.steady {
		out.P99In = &in
	}
	return out
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
	MaxTokens    int         `json:"max_num_batched_tokens"`
	MaxModelLen  int         `json:"max_model_len"`
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
		Provenance: r.Provenance, Model: f.Model, GPU: f.GPU, Source: f.Source, Scheduling: f.Scheduling(), TTFTError: f.TTFTError, ITLError: f.ITLError,
		Load: s.load.words, LoadRate: loadRate{s.load.asked, s.load.perSecond(), s.load.speed, s.load.scale}, Trace: s.load.trace, Seconds: r.At.Seconds(),
		Requests: requestCounts{
			Offered: r.Offered, Finished: r.Finished, Rejected: r.Rejected, Lost: r.Lost, Unfinished: r.Unfinished,
			MeanISL: r.ISL.Mean(), MeanOSL: r.OSL.Mean(), InFlight: r.MeanInFlight,
		},
		Rates: rates{
			Requests: r.Requests, OutputTokens: r.Tokens,
			TokensPerGPU: r.Tokens / float64(max(f.GPUs(), 1)),
		},
		SLA:     slaFile{profile.Milliseconds(f.SLA.TTFT), profile.Milliseconds(f.SLA.ITL)},
		Latency: map[string]spread{"ttft": s.spreadOf(0), "tpot": s.spreadOf(1), "itl": s.spreadOf(2), "e2e": s.spreadOf(3)},
		Pools:   []poolFile{}, Series: []binFile{}, Warnings: append([]profile.Warning{}, s.warnings...),
	}
	if s.judged() {
		in := func(share float64, met func(fleet.Interval) int64) *shareIn {
			if !s.load.steady {
				return nil
			}
			b := s.batches.Met(share, met)
			return &shareIn{b.Low, b.High}
		}
		a := r.Attainment
		out.Attainment = &attainmentFile{
			Requests: a.Requests, TTFT: a.TTFT, ITL: a.ITL, Both: a.Both,
			TTFTIn: in(a.TTFT, func(v fleet.Interval) int64 { return v.MetTTFT }), ITLIn: in(a.ITL, func(v fleet.Interval) int64 { return v.MetITL }), BothIn: in(a.Both, func(v fleet.Interval) int64 { return v.MetBoth }),
		}
		out.Rates.GoodRequests, out.Rates.GoodTokens = &r.GoodRequests, &r.GoodTokens
	}
	for i, p := range r.Pools {
		out.Pools = append(out.Pools, poolFileOf(f.Pools[i], f.Labels[i], p))
	}
	if len(r.Pools) > 1 {
		out.Links = &linksFile{r.Links.Utilisation, spreadOf(r.Links.Wait), spreadOf(r.Links.Move)}
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
		MaxNumSeqs: c.Engine.Limits.MaxNumSeqs, MaxTokens: c.Engine.Limits.MaxNumBatchedTokens, MaxModelLen: c.Engine.Limits.MaxModelLen, KVTokens: c.Engine.KVTokens(),
		Utilisation: p.Utilisation, KVUseMean: p.KVUseMean, KVUsePeak: p.KVUsePeak, RunningMean: p.RunningMean, RunningPeak: p.RunningPeak,
		WaitingMean: p.WaitingMean, WaitingPeak: p.WaitingPeak, Wait: spreadOf(p.Wait),
		PrefixHitHBM: p.PrefixHits.HBM, PrefixHitRAM: p.PrefixHits.DRAM, PrefixHitSSD: p.PrefixHits.NVMe,
		Steps: p.Steps, Preemptions: p.Preemptions, GPUSeconds: p.GPUSeconds,
	}
}
