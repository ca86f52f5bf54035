package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// A Format is how a trace is written down.
type Format string

// The formats.
const (
	// FormatAuto finds out from the first line.
	FormatAuto Format = "auto"
	// FormatAzure is the Azure LLM inference traces' CSV of 2023 and 2024:
	// TIMESTAMP,ContextTokens,GeneratedTokens.
	FormatAzure Format = "azure"
	// FormatMooncake is JSONL of timestamp (ms), input_length, output_length
	// and, where known, hash_ids (of 512 tokens each).
	FormatMooncake Format = "mooncake"
	// FormatRequestTrace is Dynamo's dynamo.request.trace.v1, JSONL of which
	// the request_end records are read.
	FormatRequestTrace Format = "request-trace"
	// FormatServeGen is a table of rates (see Window), from which arrivals are
	// generated.
	FormatServeGen Format = "servegen"
	// FormatCSV is a CSV whose header names a time (or an interval) and two
	// lengths, under any of the names in columns.go.
	FormatCSV Format = "csv"
)

// Formats are all formats.
func Formats() []Format {
	return []Format{FormatAuto, FormatAzure, FormatMooncake, FormatRequestTrace, FormatServeGen, FormatCSV}
}

// RequestTraceSort is how far apart request traces are sorted by default: their
// records are in the order in which requests ended, so that one is out of order
// by as much as a request can last.
const RequestTraceSort = 10 * time.Minute

// calendar is where times begin to be dates: a first time beyond three years
// counts from 1970, not from the trace's start.
const calendar = 100_000_000 * time.Second

// Options say how to read a trace. The zero value takes what the format
// promises.
type Options struct {
	Format Format // "" = FormatAuto
	// SortWithin lets a row be out of order by so much: rows of so much time
	// are held in memory. 0 = every row has to be in order, except that request
	// traces are sorted within RequestTraceSort.
	SortWithin time.Duration
	// ZeroAsOne counts a length of 0 tokens, which some traces have for
	// requests that failed, as 1. Otherwise it is an error.
	ZeroAsOne bool
	// Unit is that of times which do not say theirs; 0 = found out from them.
	Unit time.Duration
	// SpreadTicks spreads the arrivals of a clock that ticks slowly over each tick, in
	// their order, by Windows.Seed.
	SpreadTicks bool
	// Windows says how to generate arrivals from a table of rates.
	Windows WindowOptions
}

// Validate says all that is wrong with o.
func (o Options) Validate() error {
	var errs []error
	if o.Format != "" && !slices.Contains(Formats(), o.Format) {
		errs = append(errs, fmt.Errorf("format %q is unknown: want %s", o.Format, names(Formats())))
	}
	if o.SortWithin < 0 {
		errs = append(errs, fmt.Errorf("sort within %v is out of range: want 0 or more", o.SortWithin))
	}
	errs = append(errs, o.Windows.Validate())
	return errors.Join(errs...)
}

func names(formats []Format) string {
	s := make([]string, len(formats))
	for i, f := range formats {
		s[i] = string(f)
	}
	return strings.Join(s, ", ")
}

// A File is a trace file that is being read.
type File struct {
	Format Format        // never FormatAuto
	Unit   time.Duration // of its times; 0: they are dates
	Tick   time.Duration // of the clock that its times are from; 0: it is fast enough

	lines    *lines
	opts     Options
	parse    parser // of its rows; nil for FormatServeGen
	read     bool
	head     []row   // rows that were read ahead
	found    bool    // Unit, by the times alone
	doubt    string  // of it
	together float64 // requests of a tick, the mean
}

// row is a line's arrival, before its time is known.
type row struct {
	Arrival
	number float64 // its time in the file's unit
	dated  bool    // At is its time, since 1970
	err    error
}

// parser makes a row of a line; false where the line is none.
type parser func(line []byte) (row, bool, error)

// Open begins to read a trace, gzip or not, from a file of that name, which is
// for messages only. The reader stays the caller's to close.
func Open(r io.Reader, name string, o Options) (*File, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	l, err := newLines(r, name)
	if err != nil {
		return nil, err
	}
	first, more, err := l.peek()
	if err != nil {
		return nil, err
	}
	if !more {
		return nil, fmt.Errorf("%s: empty (hint: a trace has at least one request)", name)
	}
	f := &File{Format: o.Format, lines: l, opts: o}
	if f.Format == "" || f.Format == FormatAuto {
		if f.Format, err = detect(first); err != nil {
			return nil, l.fail(err)
		}
	}
	if err := f.begin(first); err != nil {
		return nil, err
	}
	return f, f.clock()
}

// begin makes the parser, and takes the header where there is one.
func (f *File) begin(first []byte) error {
	switch f.Format {
	case FormatMooncake:
		f.parse = mooncake{f.opts.ZeroAsOne}.parse
	case FormatRequestTrace:
		f.Unit = time.Millisecond
		f.parse = requestTrace{f.opts.ZeroAsOne}.parse
		f.opts.SortWithin = cmp.Or(f.opts.SortWithin, RequestTraceSort)
	case FormatAzure, FormatCSV:
		table, err := newTable(string(first), f.Format, f.opts.ZeroAsOne)
		if err != nil {
			return f.lines.fail(err)
		}
		f.parse, f.Unit = table.parse, table.unit
		f.lines.skip()
	default: // the rate table reads its own header
		f.Unit = time.Second
	}
	return nil
}

// Arrivals are the requests of the file. Times that are dates count from the
// first request, others from the trace's start as the file has it. It can be
// ranged over once.
func (f *File) Arrivals() Trace {
	rows := Trace(f.sorted)
	switch {
	case f.Format == FormatServeGen:
		rows = generateWindows(readWindows(f.lines), f.opts.Windows)
	case f.opts.SpreadTicks:
		rows = spread(rows, f.Tick, f.opts.Windows.Seed)
	}
	return func(yield func(Arrival, error) bool) {
		if f.read {
			yield(Arrival{}, fmt.Errorf("%s: was read already (hint: open it again)", f.lines.name))
			return
		}
		f.read = true
		rows(yield)
	}
}

// parsed are the file's rows up to the first error, first those that were read ahead.
func (f *File) parsed(yield func(row) bool) {
	for _, r := range f.head {
		if !yield(r) {
			return
		}
	}
	if f.parse == nil { // a table of rates has no rows
		return
	}
	for line, err := range f.lines.all {
		var r row
		ok := false
		if err == nil {
			if r, ok, err = f.parse(line); err != nil {
				err = f.lines.fail(err)
			}
		}
		if r.Line, r.err = f.lines.n, err; (ok || err != nil) && (!yield(r) || err != nil) {
			return
		}
	}
}

// timed is a row's arrival.
func (f *File) timed(r row) (Arrival, error) {
	if r.err != nil || r.dated {
		return r.Arrival, r.err
	}
	ns := math.Round(r.number * float64(f.Unit))
	if !(ns >= 0 && ns < math.MaxInt64) {
		return r.Arrival, fmt.Errorf("%s:%d: time %v is out of range: want %s from 0", f.lines.name, r.Line, r.number, unitWord(f.Unit))
	}
	r.At = time.Duration(ns)
	return r.Arrival, nil
}

// rows are the file's arrivals as they are, up to the first error.
func (f *File) rows(yield func(Arrival, error) bool) {
	found := false
	for r := range f.parsed {
		a, err := f.timed(r)
		if err != nil {
			yield(Arrival{}, err)
			return
		}
		if found = true; !yield(a, nil) {
			return
		}
	}
	if !found {
		yield(Arrival{}, fmt.Errorf("%s: no requests in it (hint: a trace has at least one)", f.lines.name))
	}
}

// sorted are the rows in order of time, from the trace's start.
func (f *File) sorted(yield func(Arrival, error) bool) {
	var (
		held   sorter
		newest Arrival
		base   time.Duration
		begun  bool
	)
	emit := func(a Arrival, err error) bool {
		if !begun && err == nil {
			if begun = true; a.At >= calendar {
				base = a.At
			}
		}
		a.At -= base
		return yield(a, err)
	}
	for a, err := range f.rows {
		if err == nil && a.At < newest.At-f.opts.SortWithin {
			err = f.disorder(a, newest)
		}
		if err != nil {
			yield(Arrival{}, err)
			return
		}
		if newest.Line == 0 || a.At > newest.At {
			newest = a
		}
		if f.opts.SortWithin == 0 {
			if !emit(a, nil) {
				return
			}
			continue
		}
		held.add(a)
		if !held.release(newest.At-f.opts.SortWithin, emit) {
			return
		}
	}
	held.release(math.MaxInt64, emit)
}

func (f *File) disorder(a, newest Arrival) error {
	early := newest.At - a.At
	if f.opts.SortWithin == 0 {
		return fmt.Errorf("%s:%d: arrives %v before line %d (hint: sort within %v or more)", f.lines.name, a.Line, early, newest.Line, early)
	}
	return fmt.Errorf("%s:%d: arrives %v before line %d, and sorting holds %v back (hint: sort within %v or more)", f.lines.name, a.Line, early, newest.Line, f.opts.SortWithin, early)
}

// checked is a when its lengths are in range.
func checked(a Arrival, zeroAsOne bool) (Arrival, bool, error) {
	for _, l := range []struct {
		name   string
		length *int
	}{{"input", &a.ISL}, {"output", &a.OSL}} {
		if *l.length == 0 && zeroAsOne {
			*l.length = 1
		}
		if *l.length == 0 {
			return a, false, fmt.Errorf("%s length 0 (hint: such requests often failed: leave them out, or count 0 as 1)", l.name)
		}
		if *l.length < 1 || *l.length > MaxTokens {
			return a, false, fmt.Errorf("%s length %d is out of range: want 1 to %d tokens", l.name, *l.length, MaxTokens)
		}
	}
	return a, true, nil
}
