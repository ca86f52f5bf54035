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

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile/trace"
)

// read opens a trace file and cuts what was asked for out of it.
func (a arrivals) read(blockSize int) (openLoad, error) {
	r, once, err := openFile(a.file)
	if err != nil {
		return openLoad{}, err
	}
	fail := func(err error) (openLoad, error) {
		_ = r.Close() // only read
		return openLoad{}, field.Errorf("--trace: %s", traceFlags(err))
	}
	f, err := trace.Open(r, a.file, a.options)
	if err != nil {
		return fail(err)
	}
	if w := a.options.Windows; f.Format != trace.FormatServeGen && (w.ISL != nil || w.OSL != nil) {
		_ = r.Close() // only read
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
	closing := func() { _ = r.Close() } // only read
	return openLoad{trace: trace.Reblocked(t, blockSize), words: a.played(f.Format), once: once, close: closing}, nil
}

// played is a trace and what was made of it.
func (a arrivals) played(f trace.Format) string {
	words := fmt.Sprintf("%s (%s", a.file, f)
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

// traceFlags is an error of reading a trace, whose hints name flags.
func traceFlags(err error) string {
	return strings.ReplaceAll(sortedFirst(err), "(hint: name the format)", "(hint: --trace-format)")
}

// sortedFirst is an error of reading a trace, whose rows no flag puts in order.
func sortedFirst(err error) string {
	before, rest, found := strings.Cut(err.Error(), "(hint: sort within ")
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
