package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine/operator"
)

// group is the measured shapes that one curve is fitted to.
type group struct {
	curve operator.Curve
	start []float64
	x     [][]float64 // a shape each; time says of what
	us    []float64
	time  func(p []float64, d operator.DType, x []float64) float64
	part  []string // shapes of one part are held out together
}

func (g *group) add(us float64, part string, x ...float64) {
	g.x, g.us, g.part = append(g.x, x), append(g.us, us), append(g.part, part)
}

// table is a file of measured times, read by column.
type table struct {
	at   map[string]int
	rows [][]string
}

func (t table) text(row []string, column string) string { return row[t.at[column]] }

func (t table) number(row []string, column string) float64 {
	x, _ := strconv.ParseFloat(row[t.at[column]], 64) // empty: none
	return x
}

func readTable(path string, columns ...string) (table, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return table{}, fmt.Errorf("opening a table of kernels: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	z, err := gzip.NewReader(f)
	if err != nil {
		return table{}, fmt.Errorf("reading %s: %w", path, err)
	}
	lines := bufio.NewScanner(z)
	t := table{at: map[string]int{}}
	for lines.Scan() {
		row := strings.Split(lines.Text(), ",")
		if len(t.at) == 0 {
			for i, name := range row {
				t.at[name] = i
			}
			for _, c := range append(columns, "us") {
				if _, ok := t.at[c]; !ok {
					return table{}, fmt.Errorf("%s has no column %q", path, c)
				}
			}
			continue
		}
		if len(row) != len(t.at) {
			return table{}, fmt.Errorf("%s:%d has %d columns: want %d", path, len(t.rows)+2, len(row), len(t.at))
		}
		t.rows = append(t.rows, row)
	}
	if err := lines.Err(); err != nil {
		return table{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return t, nil
}

// gpus are the tables' names and the catalog's.
var gpus = map[string]string{
	"a100_sxm": "A100-80-SXM", "h100_sxm": "H100-SXM", "h200_sxm": "H200-SXM", "b200_sxm": "B200-SXM", "b300_sxm": "B300-SXM",
	"gb200": "GB200", "gb300": "GB300", "l40s": "L40S", "rtx_pro_6000_server": "RTX-PRO-6000", "b60": "Arc-Pro-B60",
}

// collector gathers rows into groups, the newest version of each.
type collector struct{ groups map[string]*group }

func (c *collector) of(k operator.Curve, make func() group) *group {
	k.Parameters = nil
	version := k.Version
	k.Version = ""
	key := fmt.Sprintf("%+v", k)
	g := c.groups[key]
	if g == nil || newer(version, g.curve.Version) {
		fresh := make()
		k.Version = version
		fresh.curve = k
		g = &fresh
		c.groups[key] = g
	}
	if g.curve.Version != version {
		return nil
	}
	return g
}

// newer compares versions number by number.
func newer(a, b string) bool {
	number := func(s string) []int {
		var out []int
		for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(f)
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(number(a), number(b)) > 0
}

func readAll(dir string) ([]*group, error) {
	c := &collector{groups: map[string]*group{}}
	for _, read := range []func(string) error{c.products, c.attention, c.mla, c.experts, c.collectives} {
		if err := read(dir); err != nil {
			return nil, err
		}
	}
	var out []*group
	for _, g := range c.groups {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.curve.Kind, b.curve.Kind), cmp.Compare(a.curve.GPU, b.curve.GPU), cmp.Compare(a.curve.Engine, b.curve.Engine), cmp.Compare(a.curve.DType, b.curve.DType))
	})
	return out, nil
}
