package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll/profile"
)

// climber measures in-flight counts at one length on one engine: where the engine
// can, on stairs, whose streams it fills once; otherwise each count by itself.
//
// Contexts grow from level to level. Streams begin as much below the mean context
// of a request, ISL + OSL/2, as they may end above it, and new ones are begun
// beyond that: what the ITL is held against is the request's mean context. Each
// has room for a whole request, ISL + OSL, so that what fits is what fits of the
// workload.
//
// Prompts are computed once, before their streams begin: streams that decode while
// others' prompts are computed would use up their tokens. After that an engine with
// a prefix cache begins all of them within a few steps, again and again; on one
// without, streams run out of tokens (profile.ErrGrown), and each count is measured alone.
type climber struct {
	r        *runner
	s        *trial
	stage    profile.Stage
	isl, osl int // of the requests that are meant
	top      int // most at once

	filled  int // prompts that the engine has computed
	stairs  Stairs
	given   map[int]int // output tokens of each stream of the stairs that were seen
	reached float64     // mean context of them
	grew    int         // how often in a row streams had no tokens left

	began  int              // streams of a point
	broken *profile.Request // one that failed
}

// offTarget is how far a level's mean context may be off the one that is meant, and
// contextSeen from where on a surface has the one that was seen.
const (
	offTarget   = 0.015
	contextSeen = 0.02
)

// closing is how long an engine is given to become idle again.
const closing = 30 * time.Second

func (c *climber) target() float64 { return nominalContext(c.isl, c.osl) }

// band is how far from the target contexts may be.
func (c *climber) band() float64 {
	return min(max(offTarget*c.target(), sliceTokens/2), float64(c.osl)/2)
}

// workload is of the stairs' streams.
func (c *climber) workload() profile.Workload {
	isl := max(1, int(c.target()-c.band()))
	isl = c.s.facts.CachedPrompt(isl, isl, int(c.target()))
	osl, f := c.isl+c.osl-isl, c.s.facts
	fits := f.MaxModelLen == 0 || isl+leastStream <= f.MaxModelLen
	if room := c.r.opts.rounds(f, c.s.cfg, isl, leastStream); osl < leastStream && fits && room.top*room.each >= c.top {
		osl = leastStream
	}
	return profile.Workload{
		ISL: isl, OSL: osl, Requests: c.top, InFlight: c.top,
		Seed: c.r.opts.Seed, SharedPrompts: true, Timeout: c.r.opts.RequestTimeout,
	}
}

// leastStream is how many tokens a stream of the stairs may give at least, where they have
// room: short answers would be over while the engine is asked what it runs.
const leastStream = 3 * sliceTokens

// most is how many tokens a slice may take: it has to fit on new stairs, some of
// whose streams decode while others are still filled.
func (c *climber) most() int { return max(1, 2*(c.isl+c.osl-c.workload().ISL)/3) }

// at is the point of n in flight.
func (c *climber) at(ctx context.Context, n int) (profile.Point, error) {
	return c.r.point(ctx, c.s, c.stage, c.id(n), c.r.opts.at(c.stage).levelCost(c.s.cfg, c.isl, c.osl, n), func(ctx context.Context) (profile.Point, []profile.Request, error) {
		if c.s.measuring().Climb == nil || c.grew >= attempts {
			return c.r.alone(ctx, c.s, c.isl, c.osl, n)
		}
		c.began, c.broken = 0, nil
		p, rs, err := c.level(ctx, n)
		if errors.Is(err, profile.ErrGrown) { // no stairs of this length hold one level
			return c.r.alone(ctx, c.s, c.isl, c.osl, n)
		}
		if err == nil {
			c.r.opts.Failing.stream(p, c.began, c.broken)
		}
		return p, rs, err
	})
}

// id names the point of n in flight. Rows of a surface may differ by OSL alone: it is said
// where it is not decode's, and left out where an earlier run left it out.
func (c *climber) id(n int) string {
	short := fmt.Sprintf("%s/%s/isl%d/n%d", c.stage, c.s.key(), c.isl, n)
	osl := c.r.opts.decodeOSL(c.s.facts)
	if p, ok := c.r.known[short]; ok {
		osl = p.OSL
	}
	if c.osl == osl {
		return short
	}
	return fmt.Sprintf("%s/%s/isl%d/osl%d/n%d", c.stage, c.s.key(), c.isl, c.osl, n)
}

// level measures n in flight in slices until its interval is tight enough.
func (c *climber) level(ctx context.Context, n int) (profile.Point, []profile.Request, error) {
	var all Measurement
	var p profile.Point
	var context float64 // summed over tokens
	tokens := 0
	want, taken := 0, 0
	for _, k := range looks {
		for want += k * sliceTokens; tokens < want; {
			t := min(want-tokens, c.most())
			m, mean, err := c.slice(ctx, n, t)
			if err != nil {
				return p, all.Requests, err
			}
			if m.Void != "" {
				all = onward(all, m)
				return c.void(c.summary(all, n, max(mean, context/float64(max(tokens, 1)))), m.Void), all.Requests, nil
			}
			all = onward(all, m)
			context, tokens = context+mean*float64(t), tokens+t
		}
		taken += k
		if p = c.summary(all, n, context/float64(tokens)); c.r.enough(p) || tooNoisy(p, taken) {
			break
		}
	}
	return p, all.Requests, nil
}

// slice gives tokens more of each of n streams, on new stairs where those that
// are have grown too far. What is void is measured again, attempts times at most, and
// once what others held the machine during.
func (c *climber) slice(ctx context.Context, n, tokens int) (m Measurement, context float64, err error) {
	repeated := false
	for i := 1; ; {
		if err := c.stand(ctx, n, tokens); err != nil {
			return m, 0, err
		}
		began := c.r.opts.Now()
		m, err = c.stairs.Level(ctx, n, tokens)
		switch {
		case ctx.Err() != nil: // its streams ended with it, which says nothing of the engine
			return m, 0, ctx.Err()
		case errors.Is(err, profile.ErrGrown):
			if c.grew++; c.grew >= attempts {
				return m, 0, errors.Join(err, c.close(ctx))
			}
			if err := c.close(ctx); err != nil {
				return m, 0, err
			}
			continue
		case err != nil:
			return m, 0, err
		}
		if c.grew = 0; m.Broken != nil {
			c.broken = m.Broken
		}
		c.count(m.Requests)
		c.reached, context = c.contexts(m.Requests)
		if m.Void == "" && m.Client != nil && !m.Client.OK() {
			m.Void = bottleneck + m.Client.Why
		}
		why := m.Void
		if why == "" && c.r.repeats(m.Machine, &repeated) {
			why = m.Machine.Taken()
		}
		if why == "" || i == attempts {
			return m, context, nil
		}
		i++
		p := c.summary(m, n, context)
		p.Started, p.Elapsed = began, c.r.opts.Now().Sub(began)
		if err := c.r.discard(c.s, p, m.Requests, why); err != nil {
			return m, 0, err
		}
	}
}

// stand sees to it that there are stairs with room for a slice, and that the
// prompts of n streams are in the prefix cache.
func (c *climber) stand(ctx context.Context, n, tokens int) (err error) {
	if c.stairs != nil && (n > c.filled || c.reached+float64(tokens)/2 > c.target()+c.band()) {
		if err := c.close(ctx); err != nil {
			return err
		}
	}
	if n > c.filled {
		if err := c.fill(ctx, n); err != nil {
			return err
		}
	}
	if c.stairs == nil {
		c.stairs, err = c.s.measuring().Climb(ctx, c.workload())
		c.given, c.reached = map[int]int{}, 0
	}
	return err
}

// fill has the engine compute the prompts of n streams.
func (c *climber) fill(ctx context.Context, n int) error {
	w := c.workload()
	w.OSL, w.Requests, w.InFlight, w.Warmup = 1, n, n, true
	if err := c.r.warmUp(ctx, c.s, w); err != nil {
		return err
	}
	c.filled = n
	return nil
}

// close ends the stairs, if there are any. Where the run was stopped nobody waits until
// the engine is idle.
func (c *climber) close(ctx context.Context) error {
	if c.stairs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closing)
	defer cancel()
	stairs := c.stairs
	c.stairs = nil
	if err := stairs.Close(ctx); err != nil {
		return fmt.Errorf("ending the streams on %s: %w", c.s.name, err)
	}
	return nil
}

// count adds what the engine did for a slice to the cost: the prompts of streams
// that are new, and the tokens that streams have given since the last look.
func (c *climber) count(rs []profile.Request) {
	var cost Cost
	for _, q := range rs {
		before, known := c.given[q.Index]
		if !known {
			cost.Requests++
			cost.PromptTokens += int64(promptOf(q))
		}
		now := max(q.OutputTokens, q.Before+len(q.Chunks))
		c.given[q.Index] = max(now, before)
		cost.OutputTokens += int64(max(0, now-before))
	}
	c.began += cost.Requests
	c.r.book.spend(c.s, cost)
}

// contexts are the mean context that streams have reached, and the mean of it
// while the slice lasted.
func (c *climber) contexts(rs []profile.Request) (reached, mean float64) {
	for _, q := range rs {
		begin := float64(promptOf(q) + q.Before)
		reached += (begin + float64(len(q.Chunks))) / float64(len(rs))
		mean += (begin + float64(len(q.Chunks)+1)/2) / float64(len(rs))
	}
	return reached, mean
}

func promptOf(q profile.Request) int {
	if q.PromptTokens > 0 {
		return q.PromptTokens
	}
	return q.ISL
}

// summary makes a point of a level.
func (c *climber) summary(m Measurement, n int, context float64) profile.Point {
	p := summarizeDecode(m, c.s.cfg, c.s.facts)
	p.FailsTooOften = c.r.opts.SLA.FailsTooOften(p.Failures, p.Requests)
	p.TTFT = profile.Distribution{} // of the filling, which is no load
	p.ISL, p.OSL, p.Asked, p.Stage, p.Phase = c.isl, c.osl, n, c.stage, profile.Decode
	p.InFlight = float64(n) // all of the window long, or it were void; joined windows cut it short at their ends
	p.Context, p.KVUsage = context, c.s.facts.KVUse(p.InFlight, context)
	p.Client, p.Machine, p.Server = m.Client, m.Machine, m.Server
	p.Warnings = slices.DeleteFunc(p.Warnings, func(w profile.Warning) bool { return w.Code == "no_usage" }) // there is none before the end
	p.Warnings = append(p.Warnings, m.Warnings...)
	return p
}

// void is a level that could not be had undisturbed; what is known of it stays.
func (c *climber) void(p profile.Point, why string) profile.Point {
	p.Invalid = why
	p.Warnings = append([]profile.Warning{profile.Warnf("void", "all %[2]d attempts to measure %[1]d in flight failed: %[3]s", p.Asked, attempts, why)}, p.Warnings...)
	return p
}
