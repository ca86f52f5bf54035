package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The names that a header may have for each column, in lower case and with _
// for spaces. Others are passed over. Times end in their unit (arrival_s, gap_ms),
// or the unit is found out.
//
//	time      arrival time timestamp t
//	interval  interval gap
//	input     isl input_tokens prompt_tokens context_tokens request_tokens contexttokens input_length prompt_length
//	output    osl output_tokens completion_tokens generated_tokens response_tokens generatedtokens output_length
//
// request_tokens and response_tokens are BurstGPT's, whose timestamp is in seconds;
// contexttokens and generatedtokens Azure's.
func columnNames() (times, gaps, input, output []string) {
	for _, end := range append([]string{""}, UnitNames()...) {
		for _, name := range []string{"arrival", "time", "timestamp", "t"} {
			times = append(times, strings.TrimSuffix(name+"_"+end, "_"))
		}
		for _, name := range []string{"interval", "gap"} {
			gaps = append(gaps, strings.TrimSuffix(name+"_"+end, "_"))
		}
	}
	return times, gaps,
		[]string{"isl", "input_tokens", "prompt_tokens", "context_tokens", "request_tokens", "contexttokens", "input_length", "prompt_length"},
		[]string{"osl", "output_tokens", "completion_tokens", "generated_tokens", "response_tokens", "generatedtokens", "output_length"}
}

// columnName is a header's cell as columnNames has it.
func columnName(cell string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(cell)), " ", "_")
}

// table parses rows of FormatAzure and FormatCSV.
type table struct {
	cells     int
	at        int           // column of the time or interval
	unit      time.Duration // of it; 0: the header does not say
	intervals bool          // it is the time since the row before
	input     int
	output    int
	zeroAsOne bool

	now float64 // sum of the intervals so far
}

// newTable takes a header.
func newTable(header string, f Format, zeroAsOne bool) (*table, error) {
	cells, err := splitCSV(header)
	if err != nil {
		return nil, err
	}
	for i := range cells {
		cells[i] = columnName(cells[i])
	}
	if f == FormatAzure && !slices.Equal(cells, []string{"timestamp", "contexttokens", "generatedtokens"}) {
		return nil, fmt.Errorf("header %q: want TIMESTAMP,ContextTokens,GeneratedTokens", header)
	}
	t := &table{cells: len(cells), zeroAsOne: zeroAsOne}
	times, gaps, input, output := columnNames()
	if t.at, err = column(cells, "time", "arrival_s, timestamp, interval_s, …", slices.Concat(times, gaps)); err != nil {
		return nil, err
	}
	if t.input, err = column(cells, "input length", "isl, input_tokens, prompt_tokens, …", input); err != nil {
		return nil, err
	}
	if t.output, err = column(cells, "output length", "osl, output_tokens, completion_tokens, …", output); err != nil {
		return nil, err
	}
	t.intervals = slices.Contains(gaps, cells[t.at])
	if _, end, ok := strings.Cut(cells[t.at], "_"); ok {
		t.unit = UnitNamed(end)
	} else if slices.Contains(cells, "request_tokens") && slices.Contains(cells, "response_tokens") {
		t.unit = time.Second
	}
	return t, nil
}

// column is the one column whose name is among those for what it holds.
func column(cells []string, what, such string, names []string) (int, error) {
	var at []int
	var found []string
	for i, c := range cells {
		if slices.Contains(names, c) {
			at, found = append(at, i), append(found, c)
		}
	}
	switch len(at) {
	case 0:
		return 0, fmt.Errorf("the header names no %s (hint: %s)", what, such)
	case 1:
		return at[0], nil
	}
	return 0, fmt.Errorf("the header names the %s more than once: %s (hint: leave all but one out, or name them otherwise)", what, strings.Join(found, ", "))
}

func (t *table) parse(line []byte) (row, bool, error) {
	var r row
	cells, err := splitCSV(string(line))
	if err != nil {
		return r, false, err
	}
	if len(cells) != t.cells {
		return r, false, fmt.Errorf("%d cells, and the header has %d (hint: a row cut short, or a comma in a cell without quotes)", len(cells), t.cells)
	}
	if err = t.time(strings.TrimSpace(cells[t.at]), &r); err != nil {
		return r, false, err
	}
	if r.ISL, err = wholeTokens("input", cells[t.input]); err != nil {
		return r, false, err
	}
	if r.OSL, err = wholeTokens("output", cells[t.output]); err != nil {
		return r, false, err
	}
	a, ok, err := checked(r.Arrival, t.zeroAsOne)
	r.Arrival = a
	return r, ok, err
}

// time reads when a row arrives.
func (t *table) time(cell string, r *row) (err error) {
	switch r.number, err = strconv.ParseFloat(cell, 64); {
	case !t.intervals && err != nil:
		r.At, err = date(cell)
		r.dated = true
	case t.intervals && err != nil:
		err = fmt.Errorf("interval %q is no number", cell)
	case t.intervals && !(r.number >= 0): // so that NaN is refused
		err = fmt.Errorf("interval %s is out of range: want 0 or more", cell)
	case t.intervals:
		t.now += r.number
		r.number = t.now
	}
	return err
}

// date is a date and time since 1970. Azure's of 2023 have no zone and seven
// decimals, those of 2024 have +00:00 and six, or none; time.Parse takes any
// number of decimals.
func date(cell string) (time.Duration, error) {
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05"} {
		at, err := time.Parse(layout, cell)
		if err != nil {
			continue
		}
		if y := at.Year(); y < 1975 || y > 2200 {
			return 0, fmt.Errorf("date %q is out of range: want the years 1975 to 2200", cell)
		}
		return time.Duration(at.UnixNano()), nil
	}
	return 0, fmt.Errorf("time %q is neither a number nor a date (hint: 2024-05-12 00:00:00.001163+00:00)", cell)
}

// wholeTokens is a cell that is a whole number; 374.0 is one too.
func wholeTokens(name, cell string) (int, error) {
	cell = strings.TrimSpace(cell)
	if n, err := strconv.Atoi(cell); err == nil {
		return n, nil
	}
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil || v != float64(int(v)) {
		return 0, fmt.Errorf("%s length %q: want a whole number of tokens", name, cell)
	}
	return int(v), nil
}

// splitCSV is the cells of one line of RFC 4180; a cell has no line breaks.
func splitCSV(line string) ([]string, error) {
	if !strings.Contains(line, `"`) {
		return strings.Split(line, ","), nil
	}
	cells, err := csv.NewReader(strings.NewReader(line)).Read()
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		return nil, fmt.Errorf("bad CSV: %w", bad.Err)
	}
	return cells, err
}
