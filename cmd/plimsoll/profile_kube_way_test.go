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

// brokenStairs break in their first levels.
type brokenStairs struct{ *brokenWay }

func (b brokenStairs) Level(ctx context.Context, _, _ int) (sweep.Measurement, error) {
	if b.sent++; b.sent > b.times {
		return sweep.Measurement{}, nil
	}
	b.broke.Add(1)
	<-ctx.Done()
	return sweep.Measurement{}, ctx.Err()
}

func (b brokenStairs) Close(context.Context) error { return nil }

// Streams on a way that broke are begun anew, and the level that is then had says so.
func TestStairsOnABrokenWayAreBegunAgain(t *testing.T) {
	b := brokenStairs{&brokenWay{times: 1}}
	climb := (&forwardedStairs{way: b}).over(func(context.Context, profile.Workload) (sweep.Stairs, error) { return b, nil })
	for try := range 3 {
		s, err := climb(t.Context(), profile.Workload{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Level(t.Context(), 2, 8)
		if grown := errors.Is(err, profile.ErrGrown); grown != (try == 0) || !grown && err != nil {
			t.Errorf("level %d: %v", try, err)
		}
		if warned := len(m.Warnings) == 1 && m.Warnings[0].Code == "port_forward_broken"; warned != (try == 1) {
			t.Errorf("level %d: warnings %v", try, m.Warnings)
		}
	}
	gone := errors.New("the port-forward did not come back")
	b = brokenStairs{&brokenWay{times: 1, never: gone}}
	if _, err := (&forwardedStairs{Stairs: b, way: b}).Level(t.Context(), 2, 8); !errors.Is(err, gone) {
		t.Errorf("a way that is gone: %v", err)
	}
}

// A load at instants of its own under which the way breaks is void, and may be
// sent again; one that was whole, or that was stopped from above, is what it is.
func TestPlaysOnABrokenWayAreVoid(t *testing.T) {
	gone, refused := errors.New("the port-forward did not come back"), errors.New("refused")
	for name, c := range map[string]struct {
		breaks bool
		never  error
		err    error // of the load
		void   bool
		want   error
	}{
		"whole":            {},
		"whole, and fails": {err: refused, want: refused},
		"broken":           {breaks: true, void: true},
		"broken, and cut":  {breaks: true, err: context.Canceled, void: true},
		"broken for good":  {breaks: true, never: gone, want: gone},
	} {
		b := &brokenWay{never: c.never}
		m, err := forwardedPlay(func(ctx context.Context, _ profile.Script, _ func(profile.Request) bool) (sweep.Measurement, error) {
			if c.breaks {
				b.broke.Add(1)
				<-ctx.Done() // what was under way hangs until it is cut
			}
			return sweep.Measurement{}, c.err
		}, b)(t.Context(), profile.Script{}, nil)
		if (m.Void != "") != c.void || !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: void %q, %v", name, m.Void, err)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	b := &brokenWay{}
	m, err := forwardedPlay(func(ctx context.Context, _ profile.Script, _ func(profile.Request) bool) (sweep.Measurement, error) {
		b.broke.Add(1)
		stop()
		return sweep.Measurement{}, ctx.Err()
	}, b)(stopped, profile.Script{}, nil)
	if m.Void != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("stopped from above: void %q, %v", m.Void, err)
	}
}
