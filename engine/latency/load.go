package latency

import (
	"math"

	"plimsoll/engine"
)

// Means are the mean latencies under a steady load, in seconds.
type Means struct{ TTFT, TPOT float64 }

// ClosedLoop is what o.InFlight requests of o.ISL and o.OSL tokens see when each
// one that ends is followed by another.
//
// A request lives T = TTFT + y, with y = (OSL−1)·TPOT. While it decodes, each of
// the n−1 others begins y/T times on average, and its prompt makes the steps
// longer by X: y = (OSL−1)·D + (n−1)·X·y/T, where D is a step that decodes what
// is decoding. Where the KV cache has room for fewer than are in flight, n is
// what it holds, and the others wait until T·inFlight/n is over (Little's law).
// TTFT takes the prompts to come independently of each other. A client that
// starts all at once, with equal lengths, sees up to several times more: engine/accuracy
// simulates such a client. TPOT is no worse here.
func (m Model) ClosedLoop(o Observation) Means {
	context := float64(o.ISL) + float64(o.OSL)/2
	asked := float64(max(1, o.InFlight))
	n := min(asked, m.room(context))
	gaps := max(1, float64(o.OSL-1))
	decoding, at := n, Means{}
	for range 4 {
		d := m.decode(decoding, context)
		x, steps := m.extra(o, decoding, context)
		if n <= 1 {
			at = Means{TTFT: float64(steps)*d + x, TPOT: d}
			break
		}
		at.TTFT = (0.5+float64(steps))*d + x
		// y² + y·(TTFT − gaps·D − (n−1)·X) − gaps·D·TTFT = 0
		half := (gaps*d + (n-1)*x - at.TTFT) / 2
		y := half + math.Sqrt(half*half+gaps*d*at.TTFT)
		at.TPOT = y / gaps
		decoding = 1 + (n-1)*y/(at.TTFT+y)
	}
	at.TTFT += m.Outside(o.ISL).Seconds()
	at.TTFT += (asked/n - 1) * (at.TTFT + gaps*at.TPOT)
	return at
}

// scheduledAhead is how many steps an engine under load has handed to the GPU
// before it looks at who has arrived (vLLM's asynchronous scheduling, which the
// open-loop rows of 0.15.1 ran with: without it their TTFT at two models and
// three sizes is not explained by any overhead).
const scheduledAhead = 1

// OpenLoop is what requests of o.ISL and o.OSL tokens see that arrive at random
// (Poisson), o.Rate per second. Little's law says how many decode; of the steps,
// rate·ITL carry a prompt, which makes them longer by X: ITL = D + rate·ITL·X.
// A request waits for what is left of the step that runs, E[S²]/2E[S], for those
// scheduled ahead, and for its own. Near or past the load that the engine can
// sustain the figures are bounded, not right.
func (m Model) OpenLoop(o Observation) Means {
	context := float64(o.ISL) + float64(o.OSL)/2
	gaps := max(1, float64(o.OSL-1))
	most := m.room(context)
	itl, before := m.decode(1, context), 0.0
	var others, d, x float64
	var steps int
	for range 20 {
		others = min(most-1, o.Rate*gaps*itl)
		d = m.decode(1+others, context)
		x, steps = m.extra(o, others, context)
		itl, before = d/max(0.05, 1-o.Rate*x), itl
		if math.Abs(itl-before) < 1e-9*before {
			break
		}
	}
	share := min(1, o.Rate*itl)
	mixed := d + x/float64(max(1, steps))
	left := (share*mixed*mixed + (1-share)*d*d) / (2 * (share*mixed + (1-share)*d))
	wait := (left + scheduledAhead*itl) * min(1, others)
	return Means{TTFT: m.Outside(o.ISL).Seconds() + wait + float64(steps)*m.decode(others, context) + x, TPOT: itl}
}

// overloaded reports whether the prompts of an open loop alone take all the time
// that there is, or its requests in flight more KV cache than there is.
func (m Model) overloaded(o Observation) bool {
	context := float64(o.ISL) + float64(o.OSL)/2
	l := m.OpenLoop(o)
	x, _ := m.extra(o, m.room(context), context)
	return o.Rate*x > 0.95 || o.Rate*float64(o.OSL)*l.TPOT > m.room(context)
}

// room is how many sequences of so much context run at once.
func (m Model) room(context float64) float64 {
	return min(float64(m.about.limits.MaxNumSeqs), max(1, float64(m.about.kvTokens())/context))
}

// decode is the time of a step that only decodes seqs sequences; between whole
// numbers it is a straight line, so that a mean of sequences has a time.
func (m Model) decode(seqs, context float64) float64 {
	at := func(n float64) float64 {
		return m.StepTime(engine.Batch{DecodeSeqs: int(n), DecodeContext: int64(n * context)}).Seconds()
	}
	low := math.Floor(seqs)
	if low == seqs {
		return at(low)
	}
	return at(low) + (seqs-low)*(at(low+1)-at(low))
}

// extra is how much longer the steps are that also carry the chunks of one
// prompt, all together in seconds, and how many steps that is.
func (m Model) extra(o Observation, seqs, context float64) (seconds float64, steps int) {
	n := int(math.Round(seqs))
	b := engine.Batch{DecodeSeqs: n, DecodeContext: int64(float64(n) * context)}
	alone := m.StepTime(b)
	room := max(1, m.about.limits.MaxNumBatchedTokens-n)
	for done := o.Cached; done < o.ISL; steps++ {
		chunk := min(room, o.ISL-done)
		mixed := b
		mixed.AddChunk(chunk, done)
		seconds += (m.StepTime(mixed) - alone).Seconds()
		done += chunk
	}
	return seconds, steps
}
