package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"plimsoll/engine"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/kvlog"
	"plimsoll/engine/scrape"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/sweep"
)

// told is what an engine tells while it works.
type told struct {
	counts bool // its metrics, how many requests it runs
	tokens bool // its streams, how many tokens came
}

// facts asks an engine that answers what it is.
func (l *launcher) facts(ctx context.Context, client *load.Client, url string, cfg engine.Config, p running) (f profile.EngineFacts, tells told, err error) {
	ranks := cfg.Parallelism.Normal().DP
	f = profile.EngineFacts{
		Provenance: l.dep.provenance, BlockSize: cfg.Limits.BlockSize,
		MaxNumSeqs: cfg.Limits.MaxNumSeqs * ranks, MaxModelLen: cfg.Limits.MaxModelLen, Version: "plimsoll " + buildVersion(),
	}
	if tells.tokens, err = l.probe(ctx, client, cfg, &f); err != nil {
		return f, tells, err
	}
	// Read after the probe, for TensorRT-LLM tells of steps that were made.
	metrics, err := scrape.Read(ctx, l.http, url+"/metrics")
	if err != nil {
		metrics = scrape.Reading{} // it has none: nothing is known from there
	}
	if n := metrics.BlockSize.Int(); n > 0 {
		f.BlockSize = n
	}
	one := metrics.Engine == "trtllm" && ranks > 1 // its statistics are of one rank
	if one {
		metrics.KVTokens = scrape.Value{}
	}
	info := l.inform(ctx, &f, url, metrics.Engine)
	if err := l.kvCapacity(&f, cfg, p, info, metrics.KVTokens.Int()); err != nil {
		return f, tells, err
	}
	if f.WindowedKV.Known() { // the metrics say it where every layer keeps all tokens
		f.KVTokens = f.KVTokensAt(float64(l.dep.context))
	}
	if f.Version == "" {
		f.Version = l.programVersion(ctx)
	}
	if l.opts.require && f.Provenance != profile.Measured {
		return f, tells, fmt.Errorf("--require measured: the server says that it is %s", f.Provenance)
	}
	tells.counts = metrics.Engine != "" && !one
	return f, tells, nil
}

// probe fills in what the measuring client finds out, or what the latency model
// of the embedded engine is worth. It reports whether a stream that is canceled
// half-way tells how many tokens it gave: by count, or because a chunk is one.
func (l *launcher) probe(ctx context.Context, client *load.Client, cfg engine.Config, f *profile.EngineFacts) (tokens bool, err error) {
	if l.dep.kind == engine.KindSim {
		model, err := l.dep.speed(cfg)
		if err != nil {
			return false, err
		}
		f.TTFTError, f.ITLError = dep.ModelError(model.TTFTError()), dep.ModelError(model.ITLError())
		f.WindowedKV = expectation{model, l.opts.kvTokens, l.dep.context}.WindowedKV()
		return true, nil
	}
	probe, err := patientProbe(ctx, client)
	if err != nil {
		return false, fmt.Errorf("trying the server: %w", err)
	}
	f.Version, f.Model, f.Warnings = probe.Version, probe.Model, probe.Warnings
	if f.Version == "" && !isReal(string(l.dep.kind)) {
		f.Version = probe.Server // of those with a name, that of their web server
	}
	if probe.MaxModelLen > 0 {
		f.MaxModelLen = probe.MaxModelLen
	}
	if pr, err := profile.ParseProvenance(probe.Provenance); err == nil {
		f.Provenance = profile.Weakest(f.Provenance, pr) // it says itself that it is not real
	}
	return probe.LiveUsage || probe.ExactOutput && probe.Chunks == probe.Tokens, nil
}

// behind is how an endpoint's server spreads over its GPUs: its data-parallel ranks, where
// it tells them, are of as many each.
func (l *launcher) behind(ctx context.Context) (engine.Parallelism, error) {
	gpus, ranks := l.dep.gpuCount, 1
	if r, err := scrape.Read(ctx, l.http, l.opts.endpoint+"/metrics"); err == nil {
		ranks = max(ranks, r.Ranks)
		if info, err := scrape.ReadServerInfo(ctx, l.http, l.opts.endpoint); r.Engine == "sglang" && err == nil {
			ranks = max(ranks, info.Ranks)
		}
	}
	switch {
	case ranks == 1, l.opts.endpointGPUs == 0: // without which nothing is said of a GPU
		return engine.TP(gpus), nil
	case gpus%ranks != 0:
		return engine.Parallelism{}, field.Errorf("--endpoint-gpus %d: want a multiple of %d, as the server has %[2]d data-parallel ranks", gpus, ranks)
	}
	return engine.Parallelism{TP: gpus / ranks, DP: ranks}.Normal(), nil
}

// patientProbe tries a server that is busy, or failed, twice more, a second apart.
func patientProbe(ctx context.Context, client *load.Client) (p load.Probe, err error) {
	for try := 1; ; try++ {
		p, err = client.Probe(ctx)
		if try == 3 || !errors.Is(err, load.ErrBusy) && !errors.Is(err, load.ErrOwn) {
			return p, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return p, err
		}
	}
}

// kvSource is where a KV capacity is said, and what.
type kvSource struct {
	name    string
	tokens  int
	caveats []profile.Warning
}

// inform asks the info endpoint of the engines that have one.
func (l *launcher) inform(ctx context.Context, f *profile.EngineFacts, url, name string) kvSource {
	switch name {
	case "llamacpp":
		props, err := scrape.ReadProps(ctx, l.http, url+"/props")
		if err != nil {
			return kvSource{}
		}
		f.MaxNumSeqs, f.MaxModelLen, f.Version = props.Slots, props.Context, "llama.cpp "+props.Build
		return kvSource{"props", props.KVTokens(), []profile.Warning{profile.Warnf("kv_assumed",
			"KV capacity is assumed to be %d slots of %d tokens each. With a unified KV cache it is only one slot's; set --kv-tokens N then", props.Slots, props.Context)}}
	case "sglang":
		info, err := scrape.ReadServerInfo(ctx, l.http, url)
		if err != nil {
			return kvSource{}
		}
		f.Version = info.Version
		return kvSource{name: "server_info", tokens: info.KVTokens}
	case "":
		w, err := scrape.ReadFrontend(ctx, l.http, url+"/metrics", f.Model)
		if err != nil {
			return kvSource{}
		}
		f.BlockSize, f.MaxNumSeqs, f.MaxModelLen = cmp.Or(w.BlockSize, f.BlockSize), cmp.Or(f.MaxNumSeqs, w.MaxNumSeqs), cmp.Or(f.MaxModelLen, w.Context)
		s := kvSource{name: "metrics", tokens: w.KVTokens}
		if w.Workers > 1 {
			s.caveats = []profile.Warning{profile.Warnf("kv_assumed",
				"%d workers have answered at this frontend, whose metrics state the KV capacity (%d tokens) and batch limit (%d) of one. If they share the load, set --kv-tokens to their sum and --endpoint-gpus to the GPUs of all", w.Workers, w.KVTokens, w.MaxNumSeqs)}
		}
		return s
	}
	return kvSource{}
}

// roundedKV is how far two figures of one capacity may be apart because one is a
// product of a rounded number (vLLM's "Maximum concurrency … 1.00x").
const roundedKV = 0.005

// kvCapacity fills in how many tokens the KV cache holds: by flag, from the
// engine's log, or from what it serves. Where these disagree by more than a block
// in each rank, it says so.
func (l *launcher) kvCapacity(f *profile.EngineFacts, cfg engine.Config, p running, told kvSource, metrics int) error {
	if l.opts.kvTokens > 0 {
		f.KVTokens, f.KVSource = l.opts.kvTokens, "--kv-tokens"
		return nil
	}
	log, unread := l.kvFromLog(cfg, p)
	if unread != nil && l.opts.kvPattern != "" {
		return unread
	}
	for _, s := range []kvSource{{name: "log", tokens: log}, {name: "metrics", tokens: metrics}, told} {
		switch {
		case s.tokens <= 0:
		case f.KVTokens == 0:
			f.KVTokens, f.KVSource = s.tokens, s.name
			f.Warnings = append(f.Warnings, s.caveats...)
		default:
			apart := max(f.KVTokens-s.tokens, s.tokens-f.KVTokens)
			slack := max(f.BlockSize, 1) * cfg.Parallelism.Normal().DP
			if len(s.caveats) == 0 && apart > slack && float64(apart) > roundedKV*float64(min(f.KVTokens, s.tokens)) {
				f.Warnings = append(f.Warnings, profile.Warnf("kv_disagree",
					"%s: KV capacity is %d tokens by the engine's %s but %d by its %s. The first is used; set --kv-tokens N to override",
					cfg.Label(), f.KVTokens, f.KVSource, s.tokens, s.name))
			}
		}
	}
	if f.KVTokens == 0 && l.opts.mode != sweep.Aggregated { // whose rate takes none
		const silent = "the engine does not tell its KV cache capacity"
		switch {
		case l.dep.kind == engine.KindEndpoint:
			return field.WithHint(errors.New(silent), "give it: --kv-tokens N; --mode aggregated needs none")
		case unread != nil:
			return fmt.Errorf("%s: give --kv-tokens N (%w)", silent, unread)
		case l.dep.kind == engine.KindCommand:
			return errors.New(silent + ": give --kv-tokens N, or --kv-tokens-pattern REGEX to read it from the engine's log")
		}
		return errors.New(silent + ": give --kv-tokens N")
	}
	return nil
}

// kvFromLog is what the engine's log states; 0 where there is none. Only of a
// pattern that the user gave is it an error that nothing matches.
func (l *launcher) kvFromLog(cfg engine.Config, p running) (int, error) {
	if p == nil {
		return 0, nil
	}
	r, err := p.Log()
	if err != nil {
		return 0, fmt.Errorf("reading the engine's log: %w", err)
	}
	n, err := l.dep.server.KVTokens(cfg, r)
	err = errors.Join(err, r.Close())
	switch silent, pattern := errors.Is(err, kvlog.ErrSilent), l.opts.kvPattern; {
	case err == nil, silent && pattern == "":
		return n, nil
	case silent:
		return 0, fmt.Errorf("no line of the engine's log matches --kv-tokens-pattern %s: see %s", pattern, p.LogPath())
	default:
		return 0, fmt.Errorf("%w: see %s", err, p.LogPath())
	}
}

// versionPatience is for a Python program that imports half of its world first.
const versionPatience = 30 * time.Second

// programVersion is what the engine's program says of itself; empty where it says
// nothing.
func (l *launcher) programVersion(ctx context.Context) string {
	e, real := realEngineOf(l.dep.kind)
	if !real {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.program, "--version")
	cmd.WaitDelay = time.Second // a child of it may hold the pipe
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return firstLine(strings.TrimSpace(string(out)))
}
