package planner

import (
	"fmt"
	"time"
)

// Pace is how often a planner decides.
type Pace struct {
	Every time.Duration // between decisions
	// Blocking waits, without sampling, until a scaling is finished, but not longer
	// than Timeout; otherwise decisions go on, and the interval grows where scaling
	// outlasts it.
	Blocking bool
	Timeout  time.Duration
	// Steady decides every Every whatever is under way, as Kubernetes' autoscaler
	// and those that act through it do.
	Steady bool
}

// Cadence says when a decision is due. It reads no clock: whoever runs the planner
// tells it the time.
type Cadence struct {
	pace       Pace
	interval   time.Duration // in force: grown where scaling takes longer
	began, due time.Time
	late       bool // a scaling puts the decision due off
	scaling    scaling
}

// scaling is the last one asked for.
type scaling struct {
	asked   time.Time // zero: none that we asked for is under way
	seen    time.Time // when one was first seen, whoever asked for it; zero: none is
	took    time.Duration
	why     string // the target's word for it
	outlast bool   // it was said that it outlasts the interval
	waited  bool   // a decision was put off for it as long as may be
}

// mostGrowth bounds how much longer than asked for an interval may get.
const mostGrowth = 4

// Begin is a cadence whose first interval begins now.
func (p Pace) Begin(now time.Time) *Cadence {
	return &Cadence{pace: p, interval: p.Every, began: now, due: now.Add(p.Every)}
}

// Interval is the time between decisions in force.
func (c *Cadence) Interval() time.Duration { return c.interval }

// Due is when the next decision is due.
func (c *Cadence) Due() time.Time { return c.due }

// See takes in a look at the target. wait says that a scaling is waited for, so
// that nothing is to be sampled or decided; news is what a user wants to know.
func (c *Cadence) See(s State, now time.Time) (wait bool, news string) {
	x := &c.scaling
	x.why = s.Scaling
	switch {
	case s.Scaling == "":
		x.seen = time.Time{}
	case x.seen.IsZero():
		x.seen = now
	}
	if s.Scaling == "" && !x.asked.IsZero() {
		x.took, x.asked, x.outlast = now.Sub(x.asked), time.Time{}, false
		news = c.grow()
	}
	wait = c.pace.Blocking && s.Scaling != "" && now.Sub(x.seen) < c.pace.Timeout
	c.late = c.late || wait && !now.Before(c.due)
	return wait, news
}

// grow sets the interval to what scaling takes, where that is longer.
func (c *Cadence) grow() (news string) {
	took := c.scaling.took.Round(time.Second)
	to := min(max(c.pace.Every, took), mostGrowth*c.pace.Every)
	if to == c.interval || c.pace.Steady {
		return ""
	}
	c.interval = to
	return fmt.Sprintf("scaling took %v, so decisions now come every %v", took, to)
}

// Ready reports whether a decision is to be made now. One that is due waits for a
// scaling that outlasts the interval, once and for mostGrowth intervals at most.
// Replicas that find no GPUs, or one that drains for hours, would stop or slow the
// planner for ever otherwise (dynamo#14251).
func (c *Cadence) Ready(now time.Time) (ready bool, news string) {
	x := &c.scaling
	if now.Before(c.due) {
		return false, ""
	}
	if x.asked.IsZero() || x.waited || c.pace.Blocking || c.pace.Steady || now.Sub(x.asked) < c.pace.Every {
		return true, ""
	}
	if now.Sub(c.began) >= mostGrowth*c.pace.Every {
		x.waited = true
		return true, ""
	}
	c.late = true
	if !x.outlast {
		x.outlast = true
		news = fmt.Sprintf("the scaling requested %v ago is unfinished (%s). The interval grows until it ends, up to %v", now.Sub(x.asked).Round(time.Second), x.why, mostGrowth*c.pace.Every)
	}
	return false, news
}

// Take ends the interval now, and gives its start.
func (c *Cadence) Take(now time.Time) (start time.Time) {
	start, c.began = c.began, now
	return start
}

// Plan sets when the next decision is due. Instants keep to a grid: a slow
// decision delays one, not all that follow. One that a scaling put off begins
// another grid, or the next one's interval would be what is left of this one's: of
// a second's requests a policy learns nothing.
func (c *Cadence) Plan(now time.Time) {
	if c.late {
		c.due, c.late = now.Add(c.interval), false
		return
	}
	c.due = OnGrid(c.due, c.interval, now)
}

// Asked notes that a scaling was asked for.
func (c *Cadence) Asked(now time.Time) {
	c.scaling = scaling{asked: now, took: c.scaling.took, why: c.scaling.why}
}

// OnGrid is the first instant of a grid that is not past; at least one step on.
func OnGrid(last time.Time, step time.Duration, now time.Time) time.Time {
	n := last.Add(step)
	if late := now.Sub(n); late > 0 {
		n = n.Add((late + step - 1).Truncate(step))
	}
	return n
}
