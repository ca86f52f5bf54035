package profile

import (
	"math"
	"time"
)

// Attainment is what the requests of an open-loop load got. It is over those
// that were due in a window in which the load was at its full rate, from their
// first to their last token. TTFT counts from the due instant, so that waiting
// in the client is in it; Service counts from sending.
type Attainment struct {
	Offered  float64       `json:"offered_rps"`  // requests/s that were due
	Achieved float64       `json:"achieved_rps"` // requests/s that ended well, inside the window
	Window   time.Duration `json:"window_ns"`
	Requests int           `json:"requests"` // due in the window, and not canceled; the rest of the load brought the engine there
	Failures int           `json:"failures"` // of them; in no latency
	// FailsTooOften says that they are more than the SLA allows (SLA.FailsTooOften).
	FailsTooOften bool `json:"fails_too_often,omitempty"`

	TTFT    Distribution `json:"ttft"`         // Half and Neff by queueMemory: neighbours wait in one queue
	Service Distribution `json:"service_ttft"` // likewise
	ITL     Distribution `json:"itl"`          // gaps between content chunks, pooled
	TPOT    Distribution `json:"tpot"`         // of each request; Half and Neff by flightMemory
	E2E     Distribution `json:"e2e"`          // from the due instant

	// LimitTTFT and LimitITL are the SLA's, which the shares below are counted by.
	LimitTTFT  time.Duration `json:"limit_ttft_ns,omitempty"`
	LimitITL   time.Duration `json:"limit_itl_ns,omitempty"`
	WithinTTFT int           `json:"within_ttft"` // requests whose TTFT is at most the SLA's
	WithinITL  int           `json:"within_itl"`  // requests whose TPOT is at most the SLA's ITL, or that have one token only
	Within     int           `json:"within_both"`

	// InTTFT, InITL and InBoth are where those shares of requests may be, by 95 %
	// confidence: see share. Zero where the load was too short to say.
	InTTFT Interval `json:"within_ttft_interval"`
	InITL  Interval `json:"within_itl_interval"`
	InBoth Interval `json:"within_both_interval"`

	TokensPerSec float64 `json:"output_tokens_per_second"` // streamed inside the window
	Context      float64 `json:"mean_context"`             // tokens in KV of a running sequence
	InFlight     float64 `json:"in_flight"`                // requests between sending and their end, averaged over the window
	Little       float64 `json:"little_in_flight"`         // Achieved · mean E2E: what InFlight is in a steady state

	// Growing says that the queue grew while the window lasted: the rate is
	// above what the engine serves, whatever the latencies seen so far.
	Growing bool `json:"growing,omitempty"`
	// Stopped says why the load was ended early: it was certain to miss. The
	// figures are then of what had ended, and the window of what was played.
	Stopped string `json:"stopped,omitempty"`

	// Full says that a load which is allowed more time is judged by no more requests,
	// or not by enough: there is a bound to those of one.
	Full bool `json:"full,omitempty"`

	// Easier and Harder say by what the load was not the one that was meant: by the
	// first, that it held says nothing, by the second, that it missed.
	Easier string `json:"easier,omitempty"`
	Harder string `json:"harder,omitempty"`
}

// MostRequests is the share of requests that a profile's second rate has within the SLA.
const MostRequests = 0.95

// Share is the share of requests within what a phase is held to.
func (a Attainment) Share(phase Phase) float64 {
	n := map[Phase]int{Prefill: a.WithinTTFT, Decode: a.WithinITL, Aggregated: a.Within}[phase]
	return float64(n) / float64(max(a.Requests, 1))
}

// Attain judges the requests, ordered by Due, that were due inside w, of an engine
// in which so many queues, at least 1, are waited in for a first token: one for each
// attention replica. Of requests that were canceled nobody knows what they would have got: they are
// left out, but for a TTFT that came, or was late already. Of a load that was stopped the
// window ends there (see Played).
func Attain(rs []Request, w Window, s SLA, queues int) Attainment {
	return attain(rs, w, s, func(a Attainment) (queue, flight memory) {
		return queueMemory(rs, w, queues), flightMemory(a.InFlight, slackOf(rs, w))
	})
}

// AttainTogether is Attain for a load that is judged together with others, so no number of
// requests is too small. If requests wait for slots that others hold until they end (held),
// late requests are correlated over about 1 + the requests in flight (simulated M/D/c, 1 to
// 128 servers, utilization 0.05 to 0.87: 0.5 to 1.2 times the requests in flight, plus 1).
func AttainTogether(rs []Request, w Window, s SLA, queues int, held bool) Attainment {
	return attain(rs, w, s, func(a Attainment) (queue, flight memory) {
		queue, flight = memory{floor: 1 + a.InFlight}, flightMemory(a.InFlight, slackOf(rs, w))
		if !held {
			queue = queueMemory(rs, w, queues)
		}
		few := max(1, float64(len(rs))/4)
		return memory{floor: min(queue.floor, few), share: true}, memory{floor: min(flight.floor, few), share: true}
	})
}

// attain judges requests whose latencies are remembered so.
func attain(rs []Request, w Window, s SLA, remembers func(Attainment) (queue, flight memory)) Attainment {
	w = Played(rs, w)
	a := Attainment{Window: w.Length(), InFlight: inFlight(rs, w, sentAt), Growing: grows(rs, w), LimitTTFT: s.TTFT, LimitITL: s.ITL}
	var got attained
	ended := 0
	for _, r := range rs {
		if r.OK() && w.holds(r.End) {
			ended++
		}
		got.stream(r, w)
		if w.holds(r.Due) {
			got.due++
			got.request(r, s)
		}
	}
	a.Requests, a.Failures = len(got.inTTFT)+got.failures, got.failures
	a.FailsTooOften = s.FailsTooOften(a.Failures, a.Requests)
	queue, flight := remembers(a)
	if len(got.tpot) > 0 { // who waits for a first token waits for steps that others share
		queue.least = max(queue.least, flight.least)
	}
	a.TTFT, a.TPOT = queue.describe(got.ttft), flight.describe(got.tpot)
	if s.Stat.Quantile() > 0 && queue.share {
		a.TTFT.Neff, a.TPOT.Neff = queue.worth(got.inTTFT), flight.worth(got.inITL)
	}
	a.Service = queue.describe(got.service)
	a.E2E, a.ITL = Describe(got.e2e), Describe(got.gaps)
	a.E2E.Half, a.ITL.Half = 0, 0 // how such samples hang together is not known
	both := a.TTFT.Neff
	if len(got.tpot) > 0 {
		both = min(both, a.TPOT.Neff)
	}
	a.WithinTTFT, a.InTTFT = share(got.inTTFT, a.TTFT.Neff)
	a.WithinITL, a.InITL = share(got.inITL, a.TPOT.Neff)
	a.Within, a.InBoth = share(got.inBoth, both)
	if secs := w.Length().Seconds(); secs > 0 {
		a.Offered, a.Achieved, a.TokensPerSec = float64(got.due)/secs, float64(ended)/secs, got.tokens/secs
	}
	if got.chunks > 0 {
		a.Context = got.context / got.chunks
	}
	a.Little = a.Achieved * a.E2E.Mean.Seconds()
	return a
}

// attained is what the requests of a window add up to.
type attained struct {
	due, failures int

	ttft, service, tpot, e2e, gaps []time.Duration
	inTTFT, inITL, inBoth          []bool // one for each request that ended well, in TTFT also of those of which it is known

	tokens, context, chunks float64 // of the chunks in the window, whosever they are
}

// stream adds the chunks that a request got in the window.
func (a *attained) stream(r Request, w Window) {
	for i, c := range r.Chunks {
		if w.holds(c.At) {
			a.tokens += tokensPerChunk(r)
			a.context += promptTokens(r) + float64(i+1)*tokensPerChunk(r)
			a.chunks++
		}
	}
}

// request adds one that was due in the window.
func (a *attained) request(r Request, s SLA) {
	if r.Failure == FailCanceled {
		a.canceled(r, s)
		return
	}
	if !r.OK() {
		a.failures++
		return
	}
	early, quick := r.TTFTFromDue() <= s.TTFT, r.TPOT() <= s.ITL
	a.inTTFT, a.inITL, a.inBoth = append(a.inTTFT, early), append(a.inITL, quick), append(a.inBoth, early && quick)
	a.ttft, a.service = append(a.ttft, r.TTFTFromDue()), append(a.service, r.TTFT())
	a.e2e = append(a.e2e, r.Last-r.Due)
	for i := range r.Chunks[min(1, len(r.Chunks)):] {
		a.gaps = append(a.gaps, r.Chunks[i+1].At-r.Chunks[i].At)
	}
	if t := r.TPOT(); t > 0 {
		a.tpot = append(a.tpot, t)
	}
}

// canceled adds what is known of a canceled request: its TTFT, or that it was already late.
func (a *attained) canceled(r Request, s SLA) {
	switch waited := r.End - r.Due; {
	case r.First > 0:
		a.ttft, a.service = append(a.ttft, r.TTFTFromDue()), append(a.service, r.TTFT())
		a.inTTFT = append(a.inTTFT, r.TTFTFromDue() <= s.TTFT)
	case r.End > 0 && waited > s.TTFT:
		a.ttft = append(a.ttft, waited)
		a.inTTFT = append(a.inTTFT, false)
	}
}

// Played is the part of w, from its beginning, in which a load went on: all of it, or
// where the load was stopped up to that instant, at which the first of those that were
// under way was canceled, or by which the last had ended.
func Played(rs []Request, w Window) Window {
	stop, last, stopped := time.Duration(math.MaxInt64), time.Duration(0), false
	for _, r := range rs {
		switch {
		case r.Failure != FailCanceled:
			last = max(last, r.End)
		case r.End > 0:
			stop, stopped = min(stop, r.End), true
		default: // it was not sent any more
			stopped = true
		}
	}
	if !stopped {
		return w
	}
	if stop == math.MaxInt64 {
		stop = last
	}
	return Window{From: w.From, To: max(w.From, min(w.To, stop))}
}

// sentAt and dueAt are from when a request counts as in flight: what waits in the client is
// in no server.
func sentAt(r Request) time.Duration { return r.Sent }
func dueAt(r Request) time.Duration  { return r.Due }

// inFlight is how many requests were between from and their end, averaged over w.
func inFlight(rs []Request, w Window, from func(Request) time.Duration) float64 {
	if w.Length() <= 0 {
		return 0
	}
	var busy time.Duration
	for _, r := range rs {
		end, begin := r.End, from(r)
		if end == 0 || r.Failure == FailCanceled {
			end = w.To
		}
		if begin > 0 {
			busy += overlap(Window{begin, end}, w)
		}
	}
	return float64(busy) / float64(w.Length())
}

// grows compares the requests in flight in the last quarter of w with those in
// its first. In a steady state their number varies as that of Poisson arrivals
// in service does, by its square root, and three of those, or a quarter of the
// mean, are more than it does by chance. Near saturation it wanders as arrivals
// less service do: by the square root of the arrivals between the two quarters'
// middles, twice which is more than chance even where as much comes as is served.
// An M/D/1 queue at 98 % of what it serves is so said to grow once in a hundred
// loads, and one at 120 % by 400 requests in five of six, by 1,000 in all but one
// of two hundred. What is just above is seen late, and by long loads only: one at
// 105 % by 400 requests in 4 % of loads, by 1,000 in 22 %, by 4,000 in 81 %; one at
// 110 % in 21, 67 and 100 %.
func grows(rs []Request, w Window) bool {
	quarter := w.Length() / 4
	first := inFlight(rs, Window{w.From, w.From + quarter}, dueAt)
	last := inFlight(rs, Window{w.To - quarter, w.To}, dueAt)
	between := Window{w.From + quarter/2, w.To - quarter/2}
	arrivals := 0.0
	for _, r := range rs {
		if between.holds(r.Due) {
			arrivals++
		}
	}
	return last-first > max(3*math.Sqrt(max(first, 1)), first/4, 2*math.Sqrt(arrivals))
}
