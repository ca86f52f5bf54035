package trace

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Window is one row of a table of rates, as ServeGen's (Xiang et al., arXiv
// 2505.09999): what arrives during a while.
type Window struct {
	Start, Length time.Duration
	Rate          float64 // requests per second; 0 is a gap
	// CV is the coefficient of variation of gaps. ServeGen's tables sum over
	// clients: it is the mean of the clients' own CVs, weighted by rate, and
	// an upper bound on that of all of them together.
	CV       float64
	ISL, OSL float64 // mean tokens; NaN or 0 where not known
	File     string  // that it was read from
	Line     int     // of File
}

// readWindows reads FormatServeGen: a CSV with the columns t_s,
// rate_rps, rate_weighted_cv (or cv), mean_input_tokens and mean_output_tokens.
// Rows have to be equally far apart; the last lasts as long as the others.
func readWindows(l *lines) iter.Seq2[Window, error] {
	return func(yield func(Window, error) bool) {
		var t windowTable
		for line, err := range l.all {
			if err != nil {
				yield(Window{}, err)
				return
			}
			ready, ok, err := t.take(string(line), l.name, l.n)
			if err != nil {
				yield(Window{}, l.fail(err))
				return
			}
			if ok && !yield(ready, nil) {
				return
			}
		}
		if t.rows < 2 {
			yield(Window{}, fmt.Errorf("%s: %d windows in it (hint: a table of rates has at least two)", l.name, t.rows))
			return
		}
		yield(t.before, nil)
	}
}

// windowTable is a table of rates so far.
type windowTable struct {
	columns                   int // 0 = the header is to come
	start, rate, cv, isl, osl int // columns
	before                    Window
	rows                      int
}

// take gives the window before the one in the line: now it is known where that
// one ends. False where there is none.
func (t *windowTable) take(line, name string, n int) (Window, bool, error) {
	cells, err := splitCSV(line)
	if err != nil {
		return Window{}, false, err
	}
	if t.columns == 0 {
		return Window{}, false, t.header(cells)
	}
	w, err := t.parse(cells)
	if err != nil {
		return Window{}, false, err
	}
	w.File, w.Line = name, n
	length := w.Start - t.before.Start
	switch {
	case t.rows == 0:
	case length <= 0:
		return Window{}, false, fmt.Errorf("begins at %v, not after the window of line %d, at %v", w.Start, t.before.Line, t.before.Start)
	case t.rows == 1:
		t.before.Length = length
	case length != t.before.Length:
		return Window{}, false, fmt.Errorf("begins %v after the window of line %d, and others last %v (hint: write missing windows with rate 0)", length, t.before.Line, t.before.Length)
	}
	t.rows++
	w.Length = t.before.Length
	ready := t.before
	t.before = w
	return ready, t.rows > 1, nil
}

func (t *windowTable) header(cells []string) error {
	for i := range cells {
		cells[i] = columnName(cells[i])
	}
	const all = "t_s,rate_rps,rate_weighted_cv,mean_input_tokens,mean_output_tokens"
	for _, c := range []struct {
		column *int
		names  []string
	}{
		{&t.start, []string{"t_s"}},
		{&t.rate, []string{"rate_rps"}},
		{&t.cv, []string{"rate_weighted_cv", "cv"}},
		{&t.isl, []string{"mean_input_tokens"}},
		{&t.osl, []string{"mean_output_tokens"}},
	} {
		var err error
		if *c.column, err = column(cells, c.names[0], all, c.names); err != nil {
			return err
		}
	}
	t.columns = len(cells)
	return nil
}

func (t *windowTable) parse(cells []string) (Window, error) {
	if len(cells) != t.columns {
		return Window{}, fmt.Errorf("%d cells, and the header has %d", len(cells), t.columns)
	}
	var errs []error
	number := func(column int, name string, most float64) float64 {
		v, err := strconv.ParseFloat(strings.TrimSpace(cells[column]), 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %q is no number", name, cells[column]))
		} else if !math.IsNaN(v) {
			errs = append(errs, within(name, v, 0, most))
		}
		return v
	}
	w := Window{
		Rate: number(t.rate, "rate_rps", MaxRate),
		CV:   number(t.cv, "cv", math.MaxFloat64),
		ISL:  number(t.isl, "mean_input_tokens", MaxTokens),
		OSL:  number(t.osl, "mean_output_tokens", MaxTokens),
	}
	start := number(t.start, "t_s", 1e9)
	if math.IsNaN(start) || math.IsNaN(w.Rate) || (w.Rate > 0 && math.IsNaN(w.CV)) {
		errs = append(errs, errors.New("t_s, rate or cv is nan: want a number (hint: a gap has rate 0)"))
	}
	w.Start, _ = seconds(start)
	return w, errors.Join(errs...)
}
