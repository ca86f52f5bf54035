package prices

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// columns of a table of prices; a user's may have them in any order.
func columns() []string {
	return []string{"cloud", "region", "instance", "gpu", "gpus", "kind", "usd_per_gpu_hour", "source", "date"}
}

// With is t and the CSV rows of r on top of it: a row replaces the one of the
// same cloud, region, instance and kind. The header names the columns of the
// embedded table, all of them, in any order. All bad rows are reported, each
// with file and line, and then t is returned as it was.
func (t Table) With(file string, r io.Reader) (Table, error) {
	plain := bufio.NewReader(r)
	if mark, _ := plain.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = plain.Discard(len(byteOrderMark)) // it was just there
	}
	in := csv.NewReader(plain)
	in.TrimLeadingSpace = true
	in.Comment = '#'
	header, err := in.Read()
	if err != nil {
		return t, fmt.Errorf("%s: reading the header: %w: want %s", file, err, strings.Join(columns(), ","))
	}
	order, err := match(header)
	if err != nil {
		return t, fmt.Errorf("%s:1: %w", file, err)
	}
	out := Table{t.All()}
	var errs []error
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
			if errors.Is(err, csv.ErrFieldCount) {
				continue
			}
			break
		}
		p, err := parse(fields, order)
		if err != nil {
			line, _ := in.FieldPos(0)
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, line, err))
			continue
		}
		out.put(p)
	}
	if err := errors.Join(errs...); err != nil {
		return t, err
	}
	return out, nil
}

// match gives where each of columns is in the file.
func match(header []string) ([]int, error) {
	var order []int
	for _, c := range columns() {
		at := slices.Index(header, c)
		if at < 0 {
			return nil, fmt.Errorf("column %q is missing", c)
		}
		order = append(order, at)
	}
	for i, h := range header {
		if !slices.Contains(columns(), h) {
			return nil, fmt.Errorf("unknown column %q", h)
		}
		if slices.Contains(header[:i], h) {
			return nil, fmt.Errorf("column %q is listed twice", h)
		}
	}
	return order, nil
}

func parse(fields []string, order []int) (Price, error) {
	var errs []error
	next := 0
	text := func() string {
		name, s := columns()[next], strings.TrimSpace(fields[order[next]])
		next++
		if s == "" {
			errs = append(errs, fmt.Errorf("%s is empty", name))
		}
		return s
	}
	p := Price{Cloud: text(), Region: text(), Instance: text(), GPU: text()}
	gpus, kind, usd := text(), text(), text()
	p.Source = text()
	date := text()
	var err error
	if p.GPUs, err = strconv.Atoi(gpus); err != nil || p.GPUs < 1 || p.GPUs > 1024 {
		errs = append(errs, fmt.Errorf("gpus is %q: want 1 to 1024", gpus))
	}
	if p.Kind = Kind(kind); p.Kind != OnDemand && p.Kind != Spot && p.Kind != Reserved {
		errs = append(errs, fmt.Errorf("kind is %q: want %s, %s or %s", kind, OnDemand, Spot, Reserved))
	}
	if p.USDPerGPUHour, err = strconv.ParseFloat(usd, 64); err != nil || !(p.USDPerGPUHour >= 0 && p.USDPerGPUHour <= 1e4) {
		errs = append(errs, fmt.Errorf("usd_per_gpu_hour is %q: want 0 to 10000", usd))
	}
	if p.Date, err = time.Parse(time.DateOnly, date); err != nil {
		errs = append(errs, fmt.Errorf("date is %q: want a day such as 2026-08-03", date))
	}
	return p, errors.Join(errs...)
}

func (t *Table) put(p Price) {
	i := slices.IndexFunc(t.prices, func(q Price) bool {
		return strings.EqualFold(p.Cloud, q.Cloud) && p.Region == q.Region && p.Instance == q.Instance && p.Kind == q.Kind
	})
	if i < 0 {
		t.prices = append(t.prices, p)
		return
	}
	t.prices[i] = p
}

// byteOrderMark is what some spreadsheets begin a UTF-8 file with.
const byteOrderMark = "\ufeff"
