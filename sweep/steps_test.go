package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"plimsoll/profile"
)

// flight is a set of virtual streams that decode by a law, step by step.
type flight struct {
	v       *virtual
	w       profile.Workload
	now     time.Duration
	streams []*profile.Request // its chunks are the latest window's; OutputTokens all that were given
	sent    int
	closed  bool
}

// Climb begins stairs on a virtual engine.
func (v *virtual) Climb(_ context.Context, w profile.Workload) (Stairs, error) {
	if v.open {
		return nil, errors.New("stairs are open already")
	}
	v.open = true
	v.lab.climbs++
	return &flight{v: v, w: w, now: time.Millisecond}, nil
}

func (f *flight) Level(_ context.Context, n, tokens int) (Measurement, error) {
	b, l := f.v.lab, f.v.law
	if b.cancel != nil {
		b.cancel(len(b.measured))
	}
	b.measured = append(b.measured, profile.Workload{ISL: f.w.ISL, OSL: f.w.OSL, Requests: n, InFlight: n, SharedPrompts: true})
	switch {
	case f.closed:
		return Measurement{}, errors.New("a level of stairs that were closed")
	case n > f.w.InFlight:
		return Measurement{}, fmt.Errorf("%d streams of at most %d", n, f.w.InFlight)
	case l.dieAt > 0 && n >= l.dieAt:
		f.v.died = errors.New("exit code 137")
		return Measurement{}, errors.New("connection reset")
	case l.voidAt > 0 && n >= l.voidAt:
		return Measurement{Void: "2 preemptions"}, nil
	}
	f.streams = f.streams[:min(n, len(f.streams))]
	for len(f.streams) < n {
		f.streams = append(f.streams, &profile.Request{
			Index: f.sent, ISL: f.w.ISL, OSL: f.w.OSL, CachedTokens: -1, Due: f.now, Sent: f.now, First: f.now, Last: f.now, OutputTokens: 1,
		})
		f.sent++
		f.pass(l.ttft(f.w.ISL))
		b.prefilled += f.w.ISL
	}
	most := 0
	for _, q := range f.streams {
		most = max(most, q.OutputTokens)
	}
	if most+tokens >= f.w.OSL || l.grown {
		return Measurement{}, fmt.Errorf("level %d: %w", n, profile.ErrGrown)
	}
	m := Measurement{Client: &profile.Client{}, Window: profile.Window{From: f.now}, Running: []Running{{At: f.now, N: float64(n)}}}
	if f.v.measured < l.busy || l.busyFrom > 0 && n >= l.busyFrom {
		m.Client.Why = "no processor time"
	}
	f.v.measured++
	for _, q := range f.streams {
		q.Before, q.Chunks, q.Last = q.OutputTokens-1, []profile.Chunk{{At: f.now}}, f.now
	}
	for range tokens {
		context := 0.0
		for _, q := range f.streams {
			context += float64(f.w.ISL+q.OutputTokens) / float64(n)
		}
		f.pass(l.step(b.random, l.itl(n, context)))
		for _, q := range f.streams {
			q.OutputTokens++
			q.Last = f.now
			q.Chunks = append(q.Chunks, profile.Chunk{At: f.now})
		}
	}
	m.Window.To = f.now
	for _, q := range f.streams {
		c := *q
		c.UsageSeen, c.PromptTokens = true, f.w.ISL // vLLM's continuous usage
		m.Requests = append(m.Requests, c)
	}
	return m, nil
}

func (f *flight) Close(context.Context) error {
	if f.closed {
		return errors.New("stairs closed twice")
	}
	f.closed, f.v.open = true, false
	return nil
}

func (f *flight) pass(d time.Duration) {
	f.now += d
	f.v.lab.now = f.v.lab.now.Add(d)
}

// step is a duration with the law's noise.
func (l law) step(random *rand.Rand, d time.Duration) time.Duration {
	if l.noise == 0 {
		return d
	}
	return time.Duration(float64(d) * math.Exp(l.noise*random.NormFloat64()))
}
