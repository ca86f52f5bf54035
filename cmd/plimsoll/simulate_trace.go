package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile/trace"
)

// traceFlags say how a trace is read.
func traceFlags(category string) []cli.Flag {
	return append(stringFlags(category, [][3]string{
		{"trace-format", "auto", "`auto|" + strings.Join(formatNames()[1:], "|") + "`"},
		{"time-unit", "auto", "of a trace's times that do not say theirs, `auto|" + strings.Join(trace.UnitNames(), "|") + "`; auto: by the rate and length that follow, refused where they do not decide"},
	}), spreadFlag(category))
}

func spreadFlag(category string) cli.Flag {
	return &cli.BoolFlag{Name: "spread-ticks", Category: category, Usage: "spread the arrivals of a trace whose clock ticks slowly over each tick, at random, in their order"}
}

// traceOptions reads how a trace is to be read; its lengths of 0 count as 1.
func (p *parser) traceOptions(seed uint64) trace.Options {
	return trace.Options{
		Format: trace.Format(p.choice("trace-format", formatNames()...)), ZeroAsOne: true, SpreadTicks: p.c.Bool("spread-ticks"),
		Unit: trace.UnitNamed(p.choice("time-unit", append([]string{"auto"}, trace.UnitNames()...)...)), Windows: trace.WindowOptions{Seed: seed},
	}
}

// openTrace begins to read a trace that has to be closed, and says whether it can be read only once.
func openTrace(name string, o trace.Options) (f *trace.File, once bool, closing func(), err error) {
	r, once, err := openFile(name)
	if err != nil {
		return nil, false, nil, err
	}
	closing = func() { _ = r.Close() } // only read
	if f, err = trace.Open(r, name, o); err != nil {
		closing()
		return nil, false, nil, field.Errorf("--trace: %s", ofTrace(err))
	}
	return f, once, closing, nil
}

// traceFacts is how a trace was read, in a file.
type traceFacts struct {
	File   string  `json:"file"`
	Format string  `json:"format"`
	Unit   string  `json:"time_unit"` // of its times: s, ms, us or ns; date
	Tick   float64 `json:"tick_s,omitzero"`
	Spread bool    `json:"spread_ticks,omitzero"`
}

func factsOf(name string, f *trace.File, o trace.Options) *traceFacts {
	return &traceFacts{File: name, Format: string(f.Format), Unit: f.UnitName(), Tick: f.Tick.Seconds(), Spread: o.SpreadTicks}
}

// read opens a trace file and cuts what was asked for out of it.
func (a arrivals) read(blockSize int) (openLoad, error) {
	f, once, closing, err := openTrace(a.file, a.options)
	if err != nil {
		return openLoad{}, err
	}
	fail := func(err error) (openLoad, error) {
		closing()
		return openLoad{}, field.Errorf("--trace: %s", ofTrace(err))
	}
	if w := a.options.Windows; f.Format != trace.FormatServeGen && (w.ISL != nil || w.OSL != nil) {
		closing()
		return openLoad{}, field.Errorf("--isl and --osl work only without --trace, or with a servegen trace: %s has format %s and its own lengths", a.file, f.Format)
	}
	t := trace.Rebase(f.Arrivals())
	if a.from > 0 || a.to > 0 {
		t = trace.Rebase(trace.Between(t, a.from, cmp.Or(a.to, math.MaxInt64)))
	}
	switch {
	case f.Format == trace.FormatServeGen: // whose table was scaled already
	case a.scale < 1:
		t, err = trace.Thin(t, a.scale, a.seed)
	case a.scale > 1:
		t, err = trace.Superpose(t, a.scale, copyJitter, a.seed)
	}
	if err == nil && a.speed != 1 {
		t, err = trace.Compress(t, a.speed)
	}
	if err != nil {
		return fail(err)
	}
	if a.duration > 0 {
		t = trace.Between(t, 0, a.duration)
	}
	if a.requests > 0 {
		t = trace.Limit(t, a.requests)
	}
	return openLoad{
		trace: trace.Reblocked(t, blockSize), words: a.played(f), once: once, warnings: f.Warnings(), facts: factsOf(a.file, f, a.options), close: closing,
	}, nil
}

// played is a trace and what was made of it.
func (a arrivals) played(f *trace.File) string {
	words := fmt.Sprintf("%s (%s", a.file, f.Format)
	if said := f.Words(); said != "" {
		words += ", " + said
	}
	switch {
	case a.to > 0:
		words += fmt.Sprintf(", %s to %s of it", short(a.from), short(a.to))
	case a.from > 0:
		words += fmt.Sprintf(", from %s on", short(a.from))
	}
	if a.scale != 1 {
		words += fmt.Sprintf(", %.4g times as many requests", a.scale)
	}
	if a.speed != 1 {
		words += fmt.Sprintf(", %g times as fast", a.speed)
	}
	return words + ")"
}

// copyJitter is how far from the request that it copies an added one arrives:
// close enough to keep the trace's shape, far enough to be no burst of twins.
const copyJitter = 10 * time.Second

// requestOf is an arrival as a fleet takes it.
func requestOf(a trace.Arrival) fleet.Request {
	return fleet.Request{
		ID: uint64(a.Line), At: engine.FromDuration(a.At), ISL: a.ISL, OSL: a.OSL, Prefix: a.Blocks, //nolint:gosec // a line number is not negative
	}
}

// ofTrace is the text of an error of reading a trace. Its hints name flags; none puts rows in
// order.
func ofTrace(err error) string {
	text := strings.ReplaceAll(err.Error(), "(hint: name the format)", "(hint: --trace-format)")
	before, rest, found := strings.Cut(text, "(hint: sort within ")
	if !found {
		return before
	}
	_, after, _ := strings.Cut(rest, ")")
	return before + "(hint: sort the file's rows by their arrival)" + after
}

// openFile opens a trace, and says whether it can be read only once: a pipe.
func openFile(name string) (file io.ReadCloser, once bool, err error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, field.Errorf("--trace: there is no file %s", name)
	}
	if err != nil {
		return nil, false, field.Errorf("--trace: %v", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, false, errors.Join(field.Errorf("--trace: %v", err), f.Close())
	}
	return f, !info.Mode().IsRegular(), nil
}
