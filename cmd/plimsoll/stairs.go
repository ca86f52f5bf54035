package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"plimsoll/engine/scrape"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/sweep"
)

const (
	// settlePatience is how long an engine may take until it runs all streams and
	// no others: aborts and metrics lag by a few steps.
	settlePatience = 5 * time.Second
	// settleEvery is how often it is asked meanwhile.
	settleEvery = 20 * time.Millisecond
	// settleTokens is how many tokens each stream gives before a window, where the
	// engine does not tell what it runs.
	settleTokens = 10
)

// climb begins stairs on a real engine.
func (m measurer) climb(ctx context.Context, w profile.Workload) (sweep.Stairs, error) {
	on, stop := context.WithCancel(ctx)
	s, err := m.client.Climb(on, w)
	if err != nil {
		stop()
		return nil, err
	}
	return &stairs{m: m, streams: s, stop: stop, patience: settlePatience}, nil
}

// stairs are streams of a real engine, whose own counts say when a window may
// begin, and whether it counts.
type stairs struct {
	m        measurer
	streams  *load.Stairs
	stop     context.CancelFunc
	patience time.Duration // settlePatience, unless a test has less
}

// voidError is why a level must not count, though engine and streams go on.
type voidError struct{ why string }

func (e *voidError) Error() string { return e.why }

// Level implements sweep.Stairs.
func (s *stairs) Level(ctx context.Context, n, tokens int) (sweep.Measurement, error) {
	ctx, stop := s.m.untilEnd(ctx)
	defer stop()
	out, err := s.level(ctx, n, tokens)
	var void *voidError
	switch {
	case err == nil:
		return out, nil
	case s.m.died(ctx, err):
		return out, fmt.Errorf("the engine ended: %w", err)
	case errors.As(err, &void):
		out.Void = void.why
		return out, nil
	case s.m.ended == nil && gone(err):
		return out, fmt.Errorf("%w: %w", sweep.ErrGone, err)
	case errors.Is(err, load.ErrNotAll), errors.Is(err, load.ErrBroken) && !errors.Is(err, load.ErrUnreachable):
		out.Void = err.Error()
		if broken, ok := errors.AsType[*load.StreamError](err); ok {
			out.Broken = &broken.Request
		}
		return out, nil
	}
	return out, err
}

// gone reports whether nothing takes connections there.
func gone(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, load.ErrUnreachable) || ok && op.Op == "dial"
}

func (s *stairs) level(ctx context.Context, n, tokens int) (sweep.Measurement, error) {
	if err := s.streams.Bring(ctx, n, tokens); err != nil {
		return sweep.Measurement{}, s.explain(ctx, err, n)
	}
	if s.m.url == "" {
		return s.unwatched(ctx, tokens)
	}
	before, err := s.settle(ctx, n)
	if err != nil {
		return sweep.Measurement{}, err
	}
	return s.watched(ctx, n, tokens, before)
}

// explain says what the engine itself tells where not all streams began.
func (s *stairs) explain(ctx context.Context, err error, n int) error {
	if !errors.Is(err, load.ErrNotAll) || s.m.url == "" {
		return err
	}
	r, failed := scrape.Read(ctx, s.m.http, s.m.url)
	if failed != nil || !r.Running.Known {
		return err
	}
	return &voidError{fmt.Sprintf("%s (%v)", runs(r, n), err)}
}

// runs words what an engine runs of n streams.
func runs(r scrape.Reading, n int) string {
	text := fmt.Sprintf("the engine runs %v of %d", r.Running.V, n)
	if r.Waiting.Known {
		text += fmt.Sprintf(": %v wait", r.Waiting.V)
	}
	return text
}

// settle waits until the engine runs n requests and none waits.
func (s *stairs) settle(ctx context.Context, n int) (scrape.Reading, error) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	var last scrape.Reading
	for begun := time.Now(); ; {
		r, err := scrape.Read(ctx, s.m.http, s.m.url)
		if err == nil && r.Running.Known {
			if last = r; r.Running.V == float64(n) && r.Waiting.V == 0 {
				return r, nil
			}
		}
		if time.Since(begun) > s.patience {
			if !last.Running.Known {
				return last, fmt.Errorf("the engine does not say what it runs: %w", err)
			}
			return last, &voidError{runs(last, n) + fmt.Sprintf(", %v after all streamed", s.patience)}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// unwatched measures an engine that does not tell what it runs.
func (s *stairs) unwatched(ctx context.Context, tokens int) (sweep.Measurement, error) {
	if _, _, err := s.streams.Window(ctx, settleTokens); err != nil {
		return sweep.Measurement{}, err
	}
	return s.window(ctx, tokens)
}

// window measures, and the client itself meanwhile.
func (s *stairs) window(ctx context.Context, tokens int) (sweep.Measurement, error) {
	watch, end := load.StartWatch(), s.m.meter.Begin()
	rs, w, err := s.streams.Window(ctx, tokens)
	return sweep.Measurement{Requests: rs, Window: w, Client: new(watch.Client(rs)), Machine: machine(end()), Warnings: caveats(rs)}, err
}

// watched measures while the engine is asked what it runs, and ends when that is
// not n any more. Before is what it said just before.
func (s *stairs) watched(ctx context.Context, n, tokens int, before scrape.Reading) (sweep.Measurement, error) {
	window, end := context.WithCancelCause(ctx)
	defer end(nil)
	base := s.streams.Base()
	var counts []sweep.Running
	var totals []scrape.Total
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.m.look(window, func(at time.Time, r scrape.Reading) {
			counts, totals = append(counts, runningAt(at.Sub(base), r)), append(totals, r.ITL)
			if why := astray(before, r, n); why != "" {
				end(&voidError{why})
			}
		})
	}()
	out, err := s.window(window, tokens)
	end(nil)
	<-watched
	out.Running = counts
	if err == nil {
		if r, failed := scrape.Read(ctx, s.m.http, s.m.url); failed == nil && s.streams.Streaming() == n { // else one gave its last token meanwhile
			out.Void = astray(before, r, n)
		}
		out.Server = gapsBetween(out, totals)
	}
	return out, err
}

// gapsBetween is what the engine says of the gaps between its first reading after all streams
// had a chunk, and its last: it counts a gap as it ends.
func gapsBetween(m sweep.Measurement, totals []scrape.Total) *profile.Server {
	var from time.Duration
	for _, r := range m.Requests {
		if len(r.Chunks) > 0 {
			from = max(from, r.Chunks[0].At)
		}
	}
	first, last := slices.IndexFunc(m.Running, func(r sweep.Running) bool { return r.At >= from }), len(totals)-1
	if first < 0 {
		return nil
	}
	_, client := profile.Means(m.Requests, profile.Window{From: m.Running[first].At, To: m.Running[last].At})
	if itl := profile.Both(rise(totals[first], totals[last]), client); itl.N > 0 {
		return &profile.Server{ITL: itl}
	}
	return nil
}

// astray is what a reading says against a window of n streams; empty = nothing.
func astray(before, r scrape.Reading, n int) string {
	lost := r.Preemptions.V - before.Preemptions.V
	switch {
	case r.Preemptions.Known && before.Preemptions.Known && lost == 1:
		return "1 preemption"
	case r.Preemptions.Known && before.Preemptions.Known && lost > 1:
		return fmt.Sprintf("%v preemptions", lost)
	case r.Running.Known && r.Running.V != float64(n):
		return fmt.Sprintf("the engine ran %v of %d", r.Running.V, n)
	case r.Waiting.V > 0:
		return fmt.Sprintf("%v requests waited beside the %d that ran", r.Waiting.V, n)
	}
	return ""
}

// runningAt is a reading as the sweep has it.
func runningAt(at time.Duration, r scrape.Reading) sweep.Running {
	orNaN := func(v scrape.Value) float64 {
		if !v.Known {
			return math.NaN()
		}
		return v.V
	}
	return sweep.Running{At: at, N: r.Running.V, Waiting: orNaN(r.Waiting), Preempted: orNaN(r.Preemptions)}
}

// idleBlind is the wait for an engine to drop what was canceled where it does not tell.
const idleBlind = 500 * time.Millisecond

// Close implements sweep.Stairs.
func (s *stairs) Close(ctx context.Context) error {
	s.streams.Close()
	s.stop()
	ctx, stop := s.m.untilEnd(ctx)
	defer stop()
	patience := 2 * s.patience
	quiet := time.Time{} // since when the engine has said nothing of what it runs
	for begun := time.Now(); ; {
		if ctx.Err() != nil {
			return nil // the engine is gone, or nobody waits for it
		}
		var r scrape.Reading
		if s.m.url != "" {
			r, _ = scrape.Read(ctx, s.m.http, s.m.url) // where it fails nothing is known
		}
		switch {
		case r.Running.Known:
			quiet = time.Time{}
			if r.Running.V == 0 && r.Waiting.V == 0 {
				return nil
			}
		case quiet.IsZero():
			quiet = time.Now()
		case time.Since(quiet) > idleBlind:
			return nil
		}
		switch late := time.Since(begun) > patience; {
		case late && s.m.ended == nil: // of others, who may use an endpoint
			return nil
		case late:
			return fmt.Errorf("%[3]v after all streams were canceled, the engine still runs %[1]v requests and %[2]v wait", r.Running.V, r.Waiting.V, patience)
		}
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
		}
	}
}
