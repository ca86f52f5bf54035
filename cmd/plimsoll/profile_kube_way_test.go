package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"plimsoll/profile"
	"plimsoll/sweep"
)

// brokenWay breaks in its first measurements.
type brokenWay struct {
	times int // that it breaks
	never error
	sent  int
	broke atomic.Int64
}

func (b *brokenWay) Breaks() int { return int(b.broke.Load()) }

func (b *brokenWay) Back(context.Context) error { return b.never }

// A load whose way breaks hangs until it is cut; the last one is not.
func (b *brokenWay) Measure(ctx context.Context, _ profile.Workload) (sweep.Measurement, error) {
	if b.sent++; b.sent > b.times {
		return sweep.Measurement{}, nil
	}
	b.broke.Add(2)
	if b.sent < wayTries {
		<-ctx.Done()
		return sweep.Measurement{}, ctx.Err()
	}
	return sweep.Measurement{}, nil
}

func TestLoadsOnABrokenWayAreSentAgain(t *testing.T) {
	gone := errors.New("the port-forward did not come back")
	for name, c := range map[string]struct {
		times int
		never error
		sent  int
		warns string
		err   error
	}{
		"whole":             {0, nil, 1, "", nil},
		"broken once":       {1, nil, 2, "measured 2 times", nil},
		"broken each time":  {9, nil, wayTries, "in each of 3 measurements", nil},
		"broken for good":   {1, gone, 1, "", gone},
		"broken until last": {2, nil, 3, "measured 3 times", nil},
	} {
		b := &brokenWay{times: c.times, never: c.never}
		m, err := forwarded{Measurer: b, way: b}.Measure(t.Context(), profile.Workload{})
		said := ""
		for _, w := range m.Warnings {
			said += w.Code + " " + w.Message
		}
		if b.sent != c.sent || !errors.Is(err, c.err) || !strings.Contains(said, c.warns) || (c.warns == "") != (said == "") {
			t.Errorf("%s: sent %d times, %q, %v; want %d, %q, %v", name, b.sent, said, err, c.sent, c.warns, c.err)
		}
	}
}
