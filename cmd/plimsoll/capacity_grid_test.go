package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"plimsoll/capacity"
)

// A stop is as short as a flag that somebody types, and the number itself is among
// them as it is.
func TestStopsAround(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		own  float64
		want string
	}{
		{20, "10 15 20 30 40"}, {0.1, "0.05 0.075 0.1 0.15 0.2"}, {1.0 / 3, "0.166667 0.25 0.3333333333333333 0.5 0.666667"}, {1e-6, "0.0000005 0.00000075 0.000001 0.0000015 0.000002"},
	} {
		stops, at := stopsAround(c.own, rateSteps())
		var texts []string
		for _, s := range stops {
			texts = append(texts, s.text)
		}
		if got := strings.Join(texts, " "); got != c.want || stops[at].value != c.own {
			t.Errorf("around %v: %s, want %s", c.own, got, c.want)
		}
	}
}

// The command of a cell is the plan's own but for what was moved; that of the page
// names its file.
func TestPlanCommand(t *testing.T) {
	t.Parallel()
	p := planCommand{[][2]string{{"peak-qps", "20.0"}, {"ttft-p99", "1e3"}, {"itl-p99", "50"}, {"mixed-gpus", ""}, {"catalog", "my models.csv"}}}
	axes := [3][]stop{{{10, "10"}, {20, "20"}}, {{1000, "1000"}}, {{50, "50"}, {100, "100"}}}
	own := [3]int{1, 0, 0}
	for _, c := range []struct{ got, want string }{
		{p.with(own, own, axes), "plimsoll capacity plan --peak-qps 20.0 --ttft-p99 1e3 --itl-p99 50 --mixed-gpus --catalog 'my models.csv'"},
		{p.with([3]int{0, 0, 1}, own, axes), "plimsoll capacity plan --peak-qps 10 --ttft-p99 1e3 --itl-p99 100 --mixed-gpus --catalog 'my models.csv'"},
		{p.again("x.html"), "plimsoll capacity plan --peak-qps 20.0 --ttft-p99 1e3 --itl-p99 50 --mixed-gpus --catalog 'my models.csv' --report x.html"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if !slices.Equal(p.flags[0][:], []string{"peak-qps", "20.0"}) {
		t.Error("another's command has changed the plan's")
	}
}

// What is too large to simulate is a cell that says so; any other error is one of
// the page.
func TestCellOf(t *testing.T) {
	t.Parallel()
	if c, err := cellOf(nil, capacity.ErrTooLarge); err != nil || c.Why == "" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := cellOf(nil, errors.New("a disk is full")); err == nil {
		t.Error("an error is lost")
	}
	if c, err := cellOf(nil, nil); err != nil || c.Why == "" {
		t.Errorf("no plan: %+v, %v", c, err)
	}
}
