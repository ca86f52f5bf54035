package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// pointSet is what an engine was measured at.
type pointSet struct {
	obs      []latency.Observation
	engine   *engineName // as a table names it; nil where it names none
	warnings []string
}

// engineName is an engine's kind and version; empty where rows disagree.
type engineName struct{ engine, version string }

// tablePoints are the latencies of a table's rows.
func tablePoints(name string, rows []tableRow) (pointSet, error) {
	var set pointSet
	var lost []string
	var used []tableRow
	for _, r := range rows {
		obs := r.measured()
		switch {
		case r.unusable:
			lost = append(lost, itoa(r.line))
			continue
		case len(obs) == 0:
			return set, fmt.Errorf(`%s:%d: tpot_ms "": want a latency in ttft_ms or tpot_ms`, name, r.line)
		}
		set.obs, used = append(set.obs, obs...), append(used, r)
	}
	if len(lost) > 0 {
		set.warnings = append(set.warnings, fmt.Sprintf("%s: left out (line %s): in a closed loop above concurrency 1, ttft_ms mostly shows how the client's requests bunch. Give tpot_ms, or ttft_ms at concurrency 1",
			name, strings.Join(lost, ", ")))
	}
	if len(set.obs) == 0 {
		return set, errors.New(cmp.Or(strings.Join(set.warnings, ""), name+": no row holds a point"))
	}
	set.nameEngine(name, used)
	return set, nil
}

// nameEngine takes the engine that all rows name, and warns where they disagree.
func (set *pointSet) nameEngine(name string, rows []tableRow) {
	all := func(of func(tableRow) string) (value string, same bool) {
		value = of(rows[0])
		return value, !slices.ContainsFunc(rows, func(r tableRow) bool { return of(r) != value })
	}
	backend, oneBackend := all(func(r tableRow) string { return r.backend })
	version, oneVersion := all(func(r tableRow) string { return r.version })
	switch {
	case !oneBackend:
		set.engine = &engineName{}
	case backend != "" && oneVersion:
		set.engine = &engineName{backend, version}
	default: // a prior's engine is not the points'
		set.engine = &engineName{engine: backend}
	}
	if !oneBackend || backend != "" && !oneVersion {
		set.warnings = append(set.warnings, name+": the rows have several backends or versions, so the fit averages over them. Calibrate each on its own")
	}
}

// ranOn is what a profile's engine ran, by names of the catalog; an empty field
// is as the profile says.
type ranOn struct{ model, gpu string }

// of looks up what a point was measured on; served is the engine's own name for
// its model.
func (on ranOn) of(p profile.Point, served string, cat catalog.Catalog) (m catalog.Model, g catalog.GPU, err error) {
	gpu := cmp.Or(on.gpu, p.Config.GPU)
	if gpu == "" {
		return m, g, errors.New("the profile does not name its GPU. Set --gpu NAME")
	}
	if m, err = cat.ModelOrFile(cmp.Or(on.model, p.Config.Model, served)); err != nil {
		return m, g, fmt.Errorf("%w; --model NAME says which of the catalog's it is", err)
	}
	g, err = cat.GPU(gpu)
	return m, g, err
}

// servedModel is what the engines of a run call their model.
func servedModel(run store.Run) string {
	for _, e := range run.Engines {
		if e.Model != "" {
			return e.Model
		}
	}
	return ""
}

// folderPoints are the points of a profile: TTFT of one prompt at a time,
// ITL of steps that only decode. Points that nobody here measured are refused: a
// latency model agrees with itself, and of published ones it is not known what
// they were measured on; the fit would claim an error that nobody saw.
func folderPoints(dir string, on ranOn, cat catalog.Catalog) (pointSet, error) {
	var set pointSet
	run, err := store.ReadRun(dir)
	if err != nil {
		return set, err
	}
	for _, p := range run.Points {
		o, ok := pointObservation(p)
		if !ok {
			continue
		}
		if p.Provenance != profile.Measured {
			return set, fmt.Errorf("%s: %s is %s, but calibration needs measured points", dir, p.ID, p.Provenance)
		}
		if o.Model, o.GPU, err = on.of(p, servedModel(run), cat); err != nil {
			return set, fmt.Errorf("%s: %s: %w", dir, p.ID, err)
		}
		set.obs = append(set.obs, o)
	}
	if len(set.obs) == 0 {
		return set, fmt.Errorf("%s holds no usable point", dir)
	}
	return set, nil
}

// pointObservation is a point's mean latency; false where it has none.
func pointObservation(p profile.Point) (latency.Observation, bool) {
	o := latency.Observation{Config: p.Config}
	if p.Phase == profile.Prefill {
		o.Kind, o.ISL, o.OSL, o.Seconds = latency.KindTTFT, p.ISL, 1, p.TTFT.Mean.Seconds()
	} else {
		o.Kind, o.InFlight, o.Context = latency.KindITL, int(math.Round(p.InFlight)), p.Context
		o.Seconds = p.PerToken().Mean.Seconds()
	}
	return o, p.Failures == 0 && p.Batch == 0 && p.Load == nil && o.Seconds > 0 // under load, steps do other things too
}
