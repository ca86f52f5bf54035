package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
)

// crowd is a lab that counts what runs, and goes wrong where it is told to. Every
// call to it or to its recorder is an event.
type crowd struct {
	lab *lab

	running  int // engines
	most     int // of them, at any time
	stops    map[int]int
	launched int
	events   int
	fault    string // what happens at event number at
	at       int
	cancel   context.CancelFunc
	notes    notes
}

func newCrowd(laws map[string]law) *crowd {
	return &crowd{lab: newLab(laws), stops: map[int]int{}, at: -1, cancel: func() {}}
}

var errInjected = errors.New("injected")

// event reports whether the fault strikes here.
func (c *crowd) event(kinds ...string) error {
	c.events++
	if c.events-1 < c.at || c.at < 0 || !slices.Contains(kinds, c.fault) {
		return nil
	}
	if c.fault == "cancel" {
		c.cancel()
		return nil
	}
	if c.fault != "always die" {
		c.at = -1 // once
	}
	return errInjected
}

func (c *crowd) Launch(ctx context.Context, cfg engine.Config) (*Instance, error) {
	if err := c.event("launch", "cancel"); err != nil {
		return nil, err
	}
	in, err := c.lab.Launch(ctx, cfg)
	if err != nil {
		return nil, err
	}
	id := c.launched
	c.launched++
	c.running++
	c.most = max(c.most, c.running)
	inner, died := in.Measurer, in.Died
	var dead error
	in.Died = func() error {
		return errors.Join(dead, died())
	}
	in.Measurer = measureFunc(func(ctx context.Context, w profile.Workload) (Measurement, error) {
		if err := c.event("die", "always die", "cancel", "overload"); err != nil {
			if c.fault == "overload" {
				return Measurement{}, fmt.Errorf("%w: %w", ErrOverload, err)
			}
			dead = err
		}
		return inner.Measure(ctx, w)
	})
	if climb := in.Climb; climb != nil {
		in.Climb = func(ctx context.Context, w profile.Workload) (Stairs, error) {
			s, err := climb(ctx, w)
			return watched{s, c, &dead}, err
		}
	}
	in.Stop = func(context.Context) error {
		c.stops[id]++
		c.running--
		return c.event("stop", "cancel")
	}
	return in, nil
}

// watched are the stairs of an engine in a crowd.
type watched struct {
	Stairs
	c    *crowd
	dead *error
}

func (s watched) Level(ctx context.Context, n, tokens int) (Measurement, error) {
	if err := s.c.event("die", "always die", "cancel", "overload"); err != nil {
		if s.c.fault == "overload" {
			return Measurement{}, fmt.Errorf("%w: %w", ErrOverload, err)
		}
		*s.dead = err
	}
	return s.Stairs.Level(ctx, n, tokens)
}

type measureFunc func(context.Context, profile.Workload) (Measurement, error)

func (f measureFunc) Measure(ctx context.Context, w profile.Workload) (Measurement, error) {
	return f(ctx, w)
}

func (c *crowd) Point(p profile.Point, rs []profile.Request, spent Cost) error {
	return errors.Join(c.event("record", "cancel"), c.notes.Point(p, rs, spent))
}

func (c *crowd) Engine(k string, f profile.EngineFacts) error {
	return errors.Join(c.event("record", "cancel"), c.notes.Engine(k, f))
}

func (c *crowd) options(tps ...int) Options {
	o := options(c.lab, tps...)
	// Few points keep a thousand runs short.
	o.PrefillGranularity, o.DecodeGranularity, o.MaxContext = 3, 2, 4000
	return o
}

// check wants every engine stopped once, and no two of them at once.
func (c *crowd) check(t interface{ Fatalf(string, ...any) }) {
	if c.running != 0 || len(c.stops) != c.launched {
		t.Fatalf("%d engines left running, %d of %d stopped", c.running, len(c.stops), c.launched)
	}
	for id, n := range c.stops {
		if n != 1 {
			t.Fatalf("engine %d was stopped %d times", id, n)
		}
	}
	if c.most > 1 {
		t.Fatalf("%d engines at once", c.most)
	}
}
