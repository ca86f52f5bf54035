package main

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/latency"
)

// The columns of a table of points.
const (
	requiredColumns = "model, gpu, tp, isl, osl, loop"
	optionalColumns = "backend, version, precision, kv_dtype, concurrency, rate_rps, ttft_ms, tpot_ms"
)

// tableRow is a row of a table: what its load can measure, Seconds 0 where the
// row does not say the latency, and the engine that it names.
type tableRow struct {
	line             int
	backend, version string
	obs              []latency.Observation
	unusable         bool // it holds a latency, but none that tells anything
}

// measured are the row's latencies.
func (r tableRow) measured() []latency.Observation {
	return slices.DeleteFunc(slices.Clone(r.obs), func(o latency.Observation) bool { return o.Seconds == 0 })
}

// readTable reads a table of points; a complaint names the line.
func readTable(name string, r io.Reader, cat catalog.Catalog) ([]tableRow, error) {
	c := csv.NewReader(withoutMark(r))
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
	var rows []tableRow
	for {
		record, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p := rowParser{row: map[string]string{}}
		for i, column := range header {
			p.row[column] = strings.TrimSpace(record[i])
		}
		line, _ := c.FieldPos(0)
		row, err := p.read(cat)
		for _, o := range row.measured() {
			err = cmp.Or(err, possible(o))
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		row.line = line
		for i := range row.obs {
			row.obs[i].Run = line
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no row holds a point", name)
	}
	return rows, nil
}

// withoutMark is r without the byte order mark that spreadsheets begin a file with.
func withoutMark(r io.Reader) io.Reader {
	const mark = "\ufeff"
	b := bufio.NewReader(r)
	if head, _ := b.Peek(len(mark)); string(head) == mark { // a shorter file has none
		_, _ = b.Discard(len(mark)) // which is buffered
	}
	return b
}

// possible says why the latency model takes no such latency; nil = it does.
func possible(o latency.Observation) error {
	_, err := latency.Nearest([]latency.Fit{latency.DefaultFit()}, []latency.Observation{o})
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), "choosing the nearest fit: point 1: ")) // the caller knows which
}

func checkColumns(header []string) error {
	required, optional := strings.Split(requiredColumns, ", "), strings.Split(optionalColumns, ", ")
	for i, h := range header {
		header[i] = strings.TrimSpace(h)
		switch {
		case !slices.Contains(required, header[i]) && !slices.Contains(optional, header[i]):
			return fmt.Errorf("unknown column %q: want %s, and of %s what is known", header[i], requiredColumns, optionalColumns)
		case slices.Contains(header[:i], header[i]):
			return fmt.Errorf("column %q is listed twice", header[i])
		}
	}
	for _, want := range required {
		if !slices.Contains(header, want) {
			return fmt.Errorf("no column %q: want %s", want, requiredColumns)
		}
	}
	return nil
}

// rowParser reads a row, by column, and collects its first complaint.
type rowParser struct {
	row map[string]string
	err error
}

// read gives the row without its line.
func (p *rowParser) read(cat catalog.Catalog) (tableRow, error) {
	row := tableRow{backend: strings.ToLower(p.row["backend"]), version: strings.TrimPrefix(p.row["version"], "v")}
	var o latency.Observation
	var err error
	if o.Model, err = cat.Model(p.row["model"]); err != nil {
		return row, err
	}
	if o.GPU, err = cat.GPU(p.row["gpu"]); err != nil {
		return row, err
	}
	o.Config = engine.Config{
		Kind: engine.KindEstimate, Release: engine.Release{Kind: engine.Kind(row.backend), Version: row.version}, Model: o.Model.Name, GPU: o.GPU.Name, Parallelism: engine.TP(p.integer("tp")),
		Weights: p.storage("precision", dep.StorageOf("", "", o.Model).Weights, engine.WeightTypes()...),
		KV:      p.storage("kv_dtype", o.Model.KV, kvTypes...),
	}
	o.ISL, o.OSL = p.integer("isl"), p.integer("osl")
	ttft, tpot := p.number("ttft_ms")/1e3, p.number("tpot_ms")/1e3
	add := func(k latency.Kind, seconds float64) {
		o.Kind, o.Seconds = k, seconds
		row.obs = append(row.obs, o)
	}
	switch p.row["loop"] {
	case "closed":
		p.empty("rate_rps", "a closed loop, which has no rate")
		if o.InFlight = p.integer("concurrency"); o.InFlight == 1 {
			add(latency.KindTTFT, ttft)
		}
		add(latency.KindTPOT, tpot)
		row.unusable = o.InFlight > 1 && ttft > 0 && tpot == 0
	case "open":
		p.empty("concurrency", "an open loop, which has none")
		if o.Rate = p.number("rate_rps"); o.Rate == 0 {
			p.fail("rate_rps", "a rate above 0 in an open loop")
		}
		add(latency.KindOpenTTFT, ttft)
		add(latency.KindOpenITL, tpot)
	default:
		p.fail("loop", "closed or open")
	}
	return row, p.err
}

func (p *rowParser) fail(column, want string) {
	if p.err == nil {
		p.err = fmt.Errorf("%s %q: want %s", column, p.row[column], want)
	}
}

// empty refuses a cell that would have no effect.
func (p *rowParser) empty(column, loop string) {
	if p.row[column] != "" {
		p.fail(column, "an empty cell in "+loop)
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

// storage is one of some types; another where the cell is empty.
func (p *rowParser) storage(column string, empty engine.DType, types ...string) engine.DType {
	d := strings.ToLower(p.row[column])
	if d == "" {
		return empty
	}
	if !slices.Contains(types, d) {
		p.fail(column, orList(types))
	}
	return engine.DType(d)
}
