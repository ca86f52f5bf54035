package load

import (
	"context"
	"fmt"
	"math"
	"time"

	"plimsoll/profile"
)

// Window measures all streams from now until each has given so many tokens more.
// The records are the streams' so far, cut to that window: its chunks alone, with
// Before tokens ahead of them and OutputTokens up to its end, of which UsageSeen
// says that the server counted them. There is no end. Where a stream ends meanwhile, or gives nothing for long,
// the error is ErrBroken and the records are what there was until then;
// profile.ErrGrown where streams would end, before anything is measured. When
// ctx ends the error is its cause, and the records go until then.
func (s *Stairs) Window(ctx context.Context, tokens int) ([]profile.Request, profile.Window, error) {
	if err := s.broken(); err != nil {
		return nil, profile.Window{}, err
	}
	if err := s.lasts(tokens); err != nil {
		return nil, profile.Window{}, err
	}
	w := profile.Window{From: s.now()}
	for _, st := range s.streams {
		st.open(w.From, tokens)
	}
	err := s.pass(ctx)
	w.To = s.now()
	if err == nil {
		w.To = s.reached()
	}
	rs := make([]profile.Request, len(s.streams))
	for i, st := range s.streams {
		rs[i] = st.shut(w.To)
	}
	return rs, w, err
}

// pass waits until all streams have reached their goal. That is one token more
// than the window has: what was received in the window has been read by then,
// also where the client is behind.
func (s *Stairs) pass(ctx context.Context) error {
	for {
		if err := s.broken(); err != nil {
			return err
		}
		left, slowest := s.behind()
		if left == 0 {
			return nil
		}
		patience := max(s.patience, patienceTimes*s.longest)
		silent := s.now() - slowest.look().last
		if silent >= patience {
			return fmt.Errorf("%w: stream %d gave nothing for %v", ErrBroken, slowest.record.Index, silent.Round(100*time.Millisecond))
		}
		if err := s.wait(ctx, patience-silent); err != nil {
			return context.Cause(ctx)
		}
	}
}

// behind is how many streams have not reached their goal, and the one of them
// that was silent for the longest.
func (s *Stairs) behind() (n int, slowest *stream) {
	last := time.Duration(math.MaxInt64)
	for _, st := range s.streams {
		st.mu.Lock()
		if st.given < st.goal {
			n++
			if st.record.Last < last {
				last, slowest = st.record.Last, st
			}
		}
		st.mu.Unlock()
	}
	return n, slowest
}

// reached is when the last stream had given all that the window is for.
func (s *Stairs) reached() time.Duration {
	var at time.Duration
	for _, st := range s.streams {
		at = max(at, st.look().reached)
	}
	return at
}
