package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// ranOn is what a profile's engine ran, by names of the catalog; an empty field
// is as the profile says.
type ranOn struct{ model, gpu string }

// of looks up what a point was measured on; served is the engine's own name for
// its model.
func (on ranOn) of(p profile.Point, served string, cat catalog.Catalog) (m catalog.Model, g catalog.GPU, err error) {
	gpu := cmp.Or(on.gpu, p.Config.GPU)
	if gpu == "" {
		return m, g, errors.New("the profile does not say on which GPU: --gpu NAME does")
	}
	if m, err = findModel(cat, cmp.Or(on.model, p.Config.Model, served)); err != nil {
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

// folderObservations are the points of a profile: TTFT of one prompt at a time,
// ITL of steps that only decode. Points that a latency model gave are refused:
// a model agrees with itself, and the fit would claim an error that nobody saw.
func folderObservations(dir string, on ranOn, cat catalog.Catalog) ([]latency.Observation, error) {
	run, err := store.ReadRun(dir)
	if err != nil {
		return nil, err
	}
	var obs []latency.Observation
	for _, p := range run.Points {
		o, ok := pointObservation(p)
		if !ok {
			continue
		}
		if p.Provenance == profile.Simulated || p.Provenance == profile.Estimated {
			return nil, fmt.Errorf("%s: %s is %s: a latency model is calibrated to measured points", dir, p.ID, p.Provenance)
		}
		if o.Model, o.GPU, err = on.of(p, servedModel(run), cat); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, p.ID, err)
		}
		obs = append(obs, o)
	}
	if len(obs) == 0 {
		return nil, fmt.Errorf("%s holds no usable point", dir)
	}
	return obs, nil
}

// pointObservation is a point's mean latency; false where it has none.
func pointObservation(p profile.Point) (latency.Observation, bool) {
	o := latency.Observation{Config: p.Config}
	if p.Phase == profile.Prefill {
		o.Kind, o.ISL, o.OSL, o.Seconds = latency.KindTTFT, p.ISL, 1, p.TTFT.Mean.Seconds()
	} else {
		o.Kind, o.InFlight, o.Context = latency.KindITL, int(math.Round(p.InFlight)), p.Context
		o.Seconds = p.ITL.Mean.Seconds()
		if p.TPOT.Mean > 0 && slices.ContainsFunc(p.Warnings, func(w profile.Warning) bool { return w.Code == "chunk_not_token" }) {
			o.Seconds = p.TPOT.Mean.Seconds() // a chunk holds several tokens
		}
	}
	return o, p.Failures == 0 && o.Seconds > 0
}

// The columns of a table of points.
const (
	requiredColumns = "model, gpu, tp, isl, osl, loop"
	optionalColumns = "backend, version, precision, concurrency, rate_rps, ttft_ms, tpot_ms"
)

// tableObservations reads a table of points; a complaint names the line.
func tableObservations(name string, r io.Reader, cat catalog.Catalog) ([]latency.Observation, error) {
	c := csv.NewReader(r)
	c.Comment = '#'
	header, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:1: empty: want a header with the columns %s", name, requiredColumns)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := checkColumns(header); err != nil {
		return nil, fmt.Errorf("%s:1: %w", name, err)
	}
	var obs []latency.Observation
	for {
		record, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		row := tableRow{}
		for i, column := range header {
			row[column] = strings.TrimSpace(record[i])
		}
		got, err := row.observations(cat)
		if err != nil {
			line, _ := c.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		obs = append(obs, got...)
	}
	if len(obs) == 0 {
		return nil, fmt.Errorf("%s: no row holds a point", name)
	}
	return obs, nil
}

func checkColumns(header []string) error {
	required, optional := strings.Split(requiredColumns, ", "), strings.Split(optionalColumns, ", ")
	for i, h := range header {
		header[i] = strings.TrimSpace(h)
		switch {
		case !slices.Contains(required, header[i]) && !slices.Contains(optional, header[i]):
			return fmt.Errorf("unknown column %q: want %s, and of %s what is known", header[i], requiredColumns, optionalColumns)
		case slices.Contains(header[:i], header[i]):
			return fmt.Errorf("column %q is there twice", header[i])
		}
	}
	for _, want := range required {
		if !slices.Contains(header, want) {
			return fmt.Errorf("no column %q: want %s", want, requiredColumns)
		}
	}
	return nil
}

// tableRow is one line of a table, by column.
type tableRow map[string]string

// observations are the latencies that a row holds, one at least.
func (r tableRow) observations(cat catalog.Catalog) ([]latency.Observation, error) {
	var o latency.Observation
	var err error
	if o.Model, err = cat.Model(r["model"]); err != nil {
		return nil, err
	}
	if o.GPU, err = cat.GPU(r["gpu"]); err != nil {
		return nil, err
	}
	p := rowParser{row: r}
	o.Config = engine.Config{
		Kind: engine.KindEstimate, Model: o.Model.Name, GPU: o.GPU.Name, Parallelism: engine.TP(p.integer("tp")), Weights: p.precision(),
	}
	o.ISL, o.OSL = p.integer("isl"), p.integer("osl")
	ttft, tpot := p.number("ttft_ms")/1e3, p.number("tpot_ms")/1e3
	kinds := map[latency.Kind]float64{}
	switch r["loop"] {
	case "closed":
		o.InFlight = p.integer("concurrency")
		if kinds[latency.KindTPOT] = tpot; o.InFlight == 1 {
			kinds[latency.KindTTFT] = ttft
		}
	case "open":
		if o.Rate = p.number("rate_rps"); o.Rate == 0 {
			p.fail("rate_rps", "a rate above 0 in an open loop")
		}
		kinds[latency.KindOpenITL], kinds[latency.KindOpenTTFT] = tpot, ttft
	default:
		p.fail("loop", "closed or open")
	}
	if ttft == 0 && tpot == 0 {
		p.fail("tpot_ms", "a latency in ttft_ms or tpot_ms")
	}
	if p.err != nil {
		return nil, p.err
	}
	var obs []latency.Observation
	for _, k := range []latency.Kind{latency.KindTTFT, latency.KindTPOT, latency.KindOpenTTFT, latency.KindOpenITL} {
		if s := kinds[k]; s > 0 {
			o.Kind, o.Seconds = k, s
			obs = append(obs, o)
		}
	}
	return obs, nil
}

// rowParser collects a row's first complaint.
type rowParser struct {
	row tableRow
	err error
}

func (p *rowParser) fail(column, want string) {
	if p.err == nil {
		p.err = fmt.Errorf("%s %q: want %s", column, p.row[column], want)
	}
}

func (p *rowParser) integer(column string) int {
	n, err := strconv.Atoi(p.row[column])
	if err != nil || n < 1 || n > maxTokens {
		p.fail(column, fmt.Sprintf("a whole number from 1 to %d", maxTokens))
	}
	return n
}

// number is a positive number; 0 where the cell is empty.
func (p *rowParser) number(column string) float64 {
	if p.row[column] == "" {
		return 0
	}
	v, err := strconv.ParseFloat(p.row[column], 64)
	if err != nil || !(v > 0 && v <= 1e9) {
		p.fail(column, "a number above 0, at most 1e9")
		return 0
	}
	return v
}

func (p *rowParser) precision() engine.DType {
	switch d := engine.DType(strings.ToLower(p.row["precision"])); d {
	case "", engine.BF16:
		return engine.BF16
	case engine.FP8, engine.FP4:
		return d
	default:
		p.fail("precision", "bf16, fp8 or fp4")
		return d
	}
}
