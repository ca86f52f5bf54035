package observe

import (
	"fmt"
	"math"
	"time"
)

// lately remembers intervals: what is counted as requests begin and what is as they end do
// not match within one.
type lately []counts

// counts are an interval's.
type counts struct {
	length       time.Duration
	firsts, left float64 // requests with a first token; of them those whose clients left; 0 where that is not known

	looked                         time.Duration // its figures are of as long before its end
	whole                          bool          // the rest is known
	gaps, tokens, running, longest float64       // longest: tokens of an answer that ended at most
}

const (
	// memory is for how long clients that leave are looked at.
	memory = 10 * time.Minute
	// manyLeft is the share of requests that clients leave without a word.
	manyLeft = 0.02
	// fewGaps is the share of tokens with gaps below which gaps are not those of tokens.
	fewGaps = 0.95
)

// see takes an interval in, says whose clients left, and brings its ITL to tokens.
func (l *lately) see(i *interval) {
	c := counts{length: i.length, looked: max(i.length, i.looked)}
	if i.firsts.given && i.left.given {
		c.firsts, c.left = i.firsts.v, i.left.v
	}
	if c.whole = i.itl.count.given && i.osl.count.given && i.osl.sum.given && i.running.given; c.whole {
		c.gaps, c.tokens, c.running, c.longest = i.itl.count.v, i.osl.sum.v-i.osl.count.v, i.running.v, i.osl.highest()
	}
	*l = append(*l, c)
	var all counts
	for _, c := range *l {
		all.length, all.firsts, all.left = all.length+c.length, all.firsts+c.firsts, all.left+c.left
	}
	if share := all.left / all.firsts; all.length >= memory && share > manyLeft {
		i.notes = append(i.notes, fmt.Sprintf("the clients of about %.0f %% of the requests leave before their answers end. Arrivals and TTFT have them, finished requests, lengths and durations have not", max(5, 10*math.Round(10*share))))
	}
	for all.length-(*l)[0].length >= memory+longestReach {
		all.length -= (*l)[0].length
		*l = (*l)[1:]
	}
	gaps, tokens, surely := l.answers()
	if i.tokens.given {
		gaps, tokens, surely = i.itl.count.v, i.tokens.v, i.tokens.v
	}
	if i.itl.count.given && i.itl.count.v > 0 && gaps < fewGaps*surely {
		i.itl.count.v *= tokens / gaps
		i.itl.counts, i.itl.meanOnly = nil, true
		i.notes = append(i.notes, "percentiles of ITL are missing: the metrics have several tokens in a gap, as with speculative decoding or tokens without text. Its mean is by token")
	}
}

// answers are the gaps of late, the tokens of answers that ended but their first, and how
// many of these surely came of late: what ran before may have had all of its tokens then.
func (l lately) answers() (gaps, tokens, surely float64) {
	var all counts
	longest, looked := 0.0, time.Duration(0)
	for _, c := range l {
		longest, looked = max(longest, c.longest), max(looked, c.looked)
	}
	for _, c := range l {
		switch {
		case !c.whole:
			all = counts{}
		case all.length < looked: // what ran then is counted later
			all.length, all.running = all.length+c.length, max(all.running, c.running)
		default:
			all.gaps, all.tokens = all.gaps+c.gaps, all.tokens+c.tokens
		}
	}
	if all.running > 0 { // by no bound of infinity
		surely = all.running * longest
	}
	return all.gaps, all.tokens, all.tokens - surely
}
