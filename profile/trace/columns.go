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
// for spaces. Others are passed over.
//
//	time      arrival_s time_s timestamp_s t_s t arrival time timestamp (seconds, or a date and time)
//	          arrival_ms time_ms timestamp_ms t_ms (milliseconds)
//	interval  interval_s gap_s interval gap (seconds) interval_ms gap_ms (milliseconds)
//	input     isl input_tokens prompt_tokens context_tokens request_tokens contexttokens input_length prompt_length
//	output    osl output_tokens completion_tokens generated_tokens response_tokens generatedtokens output_length
//
// request_tokens and response_tokens are BurstGPT's, contexttokens and
// generatedtokens Azure's.
func columnNames() (seconds, millis, gapSeconds, gapMillis, input, output []string) {
	return []string{"arrival_s", "time_s", "timestamp_s", "t_s", "t", "arrival", "time", "timestamp"},
		[]string{"arrival_ms", "time_ms", "timestamp_ms", "t_ms"},
		[]string{"interval_s", "gap_s", "interval", "gap"},
		[]string{"interval_ms", "gap_ms"},
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
	unit      time.Duration // of it
	intervals bool          // it is the time since the row before
	input     int
	output    int
	zeroAsOne bool

	now time.Duration // sum of the intervals so far
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
	sec, ms, gapSec, gapMS, input, output := columnNames()
	if t.at, err = column(cells, "time", "arrival_s, timestamp, interval_s, …", slices.Concat(sec, ms, gapSec, gapMS)); err != nil {
		return nil, err
	}
	if t.input, err = column(cells, "input length", "isl, input_tokens, prompt_tokens, …", input); err != nil {
		return nil, err
	}
	if t.output, err = column(cells, "output length", "osl, output_tokens, completion_tokens, …", output); err != nil {
		return nil, err
	}
	t.unit, t.intervals = time.Second, slices.Contains(slices.Concat(gapSec, gapMS), cells[t.at])
	if slices.Contains(slices.Concat(ms, gapMS), cells[t.at]) {
		t.unit = time.Millisecond
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

func (t *table) parse(line []byte) (Arrival, bool, error) {
	cells, err := splitCSV(string(line))
	if err != nil {
		return Arrival{}, false, err
	}
	if len(cells) != t.cells {
		return Arrival{}, false, fmt.Errorf("%d cells, and the header has %d (hint: a row cut short, or a comma in a cell without quotes)", len(cells), t.cells)
	}
	var a Arrival
	if a.At, err = t.time(strings.TrimSpace(cells[t.at])); err != nil {
		return Arrival{}, false, err
	}
	if a.ISL, err = wholeTokens("input", cells[t.input]); err != nil {
		return Arrival{}, false, err
	}
	if a.OSL, err = wholeTokens("output", cells[t.output]); err != nil {
		return Arrival{}, false, err
	}
	return checked(a, t.zeroAsOne)
}

func (t *table) time(cell string) (time.Duration, error) {
	if strings.Contains(cell, ":") && !t.intervals {
		return date(cell)
	}
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		return 0, fmt.Errorf("time %q is no number (hint: %s, or a date and time)", cell, unitName(t.unit))
	}
	d, fits := seconds(v * t.unit.Seconds())
	if !fits {
		return 0, fmt.Errorf("time %s is out of range: want %s from 0", cell, unitName(t.unit))
	}
	if !t.intervals {
		return d, nil
	}
	if t.now += d; t.now < 0 {
		return 0, errors.New("the intervals add up to more than 292 years")
	}
	return t.now, nil
}

func unitName(unit time.Duration) string {
	if unit == time.Millisecond {
		return "milliseconds"
	}
	return "seconds"
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
