package observe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// reach is how far back Live looks for what rose: for an interval where that has
// samples enough, else for longer, since one that is shorter than the time between
// two scrapes says nothing. What rose is then brought down to the interval.
type reach struct {
	length time.Duration // 0: the interval's own
	blind  time.Time     // since when it has too few samples; zero: it has not
}

const (
	// enoughScrapes is how many samples a window is looked for to have: four of them
	// leave two where one scrape fails and the window's ends fall badly.
	enoughScrapes = 4
	// leastScrapes is how many a window that is longer than the interval must have.
	// With fewer its series have ended, and it would tell of a load that falls.
	leastScrapes = 3
	// longestReach is enough for a scrape a minute, which is Prometheus' default. Rarer
	// ones take one interval more than enoughScrapes.
	longestReach = 5 * time.Minute
	// tenth is how exactly lengths are said: a ticker's intervals are never whole.
	tenth = 100 * time.Millisecond
)

// reached is the interval over a window in which there is something to see, to a scrape
// at its beginning.
func (l *Live) reached(ctx context.Context, asked window, ready replicas) (interval, error) {
	w := window{end: asked.end, length: max(asked.length, l.reach.length)}
	i, s, err := l.over(ctx, w, ready)
	rare := l.reach.length == 0 && s.samples < enoughScrapes
	if (rare || s.late()) && i.stale.why == "" && wider(err) {
		most := max(longestReach, (enoughScrapes+1)*s.every)
		if s.late() { // to before the gap
			most = max(most, 2*asked.length)
		}
		for length := w.length; length < most; {
			length = min(2*length, most)
			j, more, failed := l.over(ctx, window{end: w.end, length: length}, ready)
			most = max(most, (enoughScrapes+1)*more.every)
			if failed == nil && err != nil && j.stale.why != "" { // the series are known, and were not scraped lately
				i, s, err, w.length = j, more, nil, length
				break
			}
			if failed != nil || more.samples < enoughScrapes || more.late() || j.stale.why != "" {
				continue
			}
			why := "are not there for all of"
			if rare && !s.late() {
				why, l.reach.length = "are scraped too rarely for", length
			}
			i, s, err, w.length = j, more, nil, length
			i.problems = append(i.problems, fmt.Sprintf("requests %s %v: figures are of the %v before", why, asked.length.Round(tenth), length.Round(tenth)))
			break
		}
	}
	if err != nil {
		return interval{}, err
	}
	if l.counted != "" && i.counted != l.counted {
		i.problems = append(i.problems, fmt.Sprintf("requests are read from %s, which has samples, and no longer from %s, which has none", i.counted, l.counted))
	}
	l.counted = i.counted
	i.looked = w.length
	l.reach.learn(w, s.samples, asked.length)
	if w.length > asked.length && s.samples < leastScrapes {
		i.lose(lacking("%d samples in %v: want %d at least", s.samples, w.length, leastScrapes))
	}
	i.scale(asked.length.Seconds() / w.length.Seconds())
	return i, nil
}

// wider reports whether a longer window may have what this one has not.
func wider(err error) bool { return err == nil || errors.As(err, new(*NotFoundError)) }

// learn makes the next window shorter where this one has samples to spare, and forgets
// its length where it has had too few for long: what is scraped, or how often, is
// another then.
func (r *reach) learn(w window, samples int, asked time.Duration) {
	switch {
	case samples >= leastScrapes:
		r.blind = time.Time{}
	case r.blind.IsZero():
		r.blind = w.end
	case w.end.Sub(r.blind) >= longestReach:
		*r = reach{}
	}
	if samples > 2*enoughScrapes { // half of them and one: no longer window is looked for next time
		r.length /= 2
	}
	if r.length <= asked {
		r.length = 0
	}
}

// counts are what rose in the interval.
func (i *interval) counts() []*number {
	out := []*number{&i.arrivals, &i.finished, &i.ended, &i.firsts, &i.left, &i.tokens, &i.promptTokens, &i.outputTokens, &i.lookups, &i.hits}
	for _, g := range []*gain{&i.isl, &i.osl, &i.ttft, &i.itl, &i.tpot, &i.e2e} {
		out = append(out, &g.count, &g.sum)
	}
	return out
}

// lose takes what was given for missing, if there is a reason.
func (i *interval) lose(why number) { lose(i.counts(), why) }

// loseAll does so for what rose and for gauges.
func (i *interval) loseAll(why number) {
	i.lose(why)
	i.loseGauges(why)
}

// loseGauges does so for the means of gauges and for what they are at the end.
func (i *interval) loseGauges(why number) {
	gauges := []*number{&i.running, &i.waiting}
	for k := range i.pools {
		gauges = append(gauges, i.pools[k].gauges()...)
	}
	lose(gauges, why)
}

func lose(numbers []*number, why number) {
	for _, n := range numbers {
		if n.given && why.why != "" {
			*n = why
		}
	}
}

// scale brings what rose in a longer window down to the interval.
func (i *interval) scale(by float64) {
	for _, n := range i.counts() {
		n.v *= by
	}
	for _, g := range []*gain{&i.isl, &i.osl, &i.ttft, &i.itl, &i.tpot, &i.e2e} {
		for bound := range g.counts {
			g.counts[bound] *= by
		}
	}
}
