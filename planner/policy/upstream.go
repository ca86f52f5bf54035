package policy

import (
	"errors"
	"fmt"
	"math"
	"time"

	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/profile"
)

// UpstreamOptions make an Upstream.
type UpstreamOptions struct {
	Prefill interpolation.Prefill // of one prefill engine, or of the aggregated one
	Decode  interpolation.Decode  // of one decode engine, or of the aggregated one

	// Forecasters of the requests per Interval and of their mean ISL and OSL in
	// tokens, one each. Counts, not rates, because upstream's predictors have
	// constants that depend on the unit (Kalman's noise, log1p).
	Requests, ISL, OSL planner.Forecaster

	// Interval is the adjustment interval, 1 s to 24 h. An observation of another
	// length is counted as if it had gone on for this long.
	Interval     time.Duration
	NoCorrection bool // take the profile as it is
}

// Check says all that is wrong, each by field and range.
func (o UpstreamOptions) Check() error {
	var errs []error
	if o.Requests == nil || o.ISL == nil || o.OSL == nil {
		errs = append(errs, errors.New("a forecaster is missing: want one each of requests, ISL and OSL"))
	}
	if o.Interval < time.Second || o.Interval > 24*time.Hour {
		errs = append(errs, fmt.Errorf("the adjustment interval is %v: want 1s to 24h", o.Interval))
	}
	return errors.Join(errs...)
}

// Upstream is the rule of NVIDIA Dynamo's SLA planner with profiled surfaces, as
// it was from 2025-06 to 2026-03 with the budget rule of 2026-01-28
// (ai-dynamo/dynamo, components/planner, utils/planner_core.py):
//
//	pc = TTFT seen / TTFT of the profile at the ISL seen
//	dc = ITL seen / ITL of the profile at requests/D·duration/interval in flight, context ISL + OSL/2
//	P = ceil(requests·ISL/interval · min(1, pc) / prefill tokens/s/GPU at ISL / GPUs)
//	D = ceil(requests·OSL/interval / decode tokens/s/GPU with ITL ≤ SLA/dc at ISL + OSL/2 / GPUs)
//
// with requests, ISL and OSL forecast for the sizes and seen for the corrections;
// then each pool's least, then the budget. It is kept as it was, to compare with:
// the TTFT promised sizes nothing, requests that wait add nothing (min(1, pc) only
// ever takes away), and an ITL out of reach asks for about one engine per request.
//
// Three things differ. The surfaces are read by package interpolation. Where
// the budget is below the least replicas upstream asks for none; this holds and
// warns. And what could not be seen is Missing: upstream took it for no demand, or
// never went down without requests (dynamo#14765, #3131). Here arrivals known to be
// 0 are a demand of 0 and lead to the least replicas.
//
// Upstream cannot size aggregated engines by its surfaces. There the formula is
//
//	N = ceil((requests·ISL/interval · min(1, pc) / prefill rate + requests·OSL/interval / decode rate) / GPUs)
//
// because an engine's second goes either to prompts or to decode steps: the two
// quotients are the GPU-seconds per second that each takes, and they add. Prompts
// also stretch the gaps between tokens. With a share u of the time for prompts the
// ITL seen is 1/(1−u) of the profile's, which dc holds: the decode rate is then
// read at SLA·(1−u), as it should. With NoCorrection that part is missing.
type Upstream struct {
	o  UpstreamOptions
	by correctionFactors
}

// correctionFactors are how much slower the fleet was than its profile.
type correctionFactors struct {
	Prefill float64 `json:"prefill"`
	Decode  float64 `json:"decode"`
}

var _ planner.Stateful = (*Upstream)(nil)

// NewUpstream makes the policy; its corrections begin at 1.
func NewUpstream(o UpstreamOptions) (*Upstream, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &Upstream{o: o, by: correctionFactors{1, 1}}, nil
}

// Propose observes the interval, corrects, forecasts and sizes, in upstream's order.
func (u *Upstream) Propose(s planner.Situation) planner.Decision {
	f := begin(s)
	f.d.Provenance = profile.Weakest(u.o.Prefill.Provenance(), u.o.Decode.Provenance())
	seen, missing := u.observe(s)
	if s.Warmup {
		return f.hold("warm-up", "a trace warms the forecasters: %.4g requests", seen.requests)
	}
	if len(missing) > 0 {
		return f.without(missing)
	}
	if !u.o.NoCorrection && seen.requests > 0 {
		f.d.Correction = u.correct(s, seen)
	}
	next, missing := u.forecast()
	if len(missing) > 0 {
		return f.without(missing)
	}
	rate := next.requests / u.o.Interval.Seconds()
	f.d.Forecast = planner.Demand{
		Rate: planner.Known(rate), High: planner.Known(rate), ISL: planner.Known(next.isl), OSL: planner.Known(next.osl),
	}
	return u.size(f, s, next)
}

// traffic is what an interval brings: requests, and their mean tokens.
type traffic struct{ requests, isl, osl float64 }

func (t traffic) context() float64 { return t.isl + t.osl/2 }

// observe takes the interval into the forecasters, what is missing as a gap, and
// names what a decision lacks. Without requests there are no lengths or latencies
// to miss.
func (u *Upstream) observe(s planner.Situation) (traffic, []string) {
	var n figures
	seen := traffic{n.need(s.Arrivals, "arrivals"), math.NaN(), math.NaN()}
	if s.Length > 0 {
		seen.requests *= u.o.Interval.Seconds() / s.Length.Seconds()
	} else {
		seen.requests = math.NaN()
		n.missing = append(n.missing, "the length of the interval")
	}
	if seen.requests != 0 {
		seen.isl, seen.osl = n.need(s.ISL.Mean, "ISL"), n.need(s.OSL.Mean, "OSL")
		if !u.o.NoCorrection {
			n.latencies(s, seen.osl)
		}
	}
	u.o.Requests.Observe(seen.requests)
	u.o.ISL.Observe(seen.isl)
	u.o.OSL.Observe(seen.osl)
	return seen, n.missing
}

// latencies are what the corrections need. Answers of one token have no gaps
// between tokens.
func (n *figures) latencies(s planner.Situation, osl float64) {
	need := func(f planner.Figure[time.Duration], name string) {
		if !f.Known || f.Value < 0 {
			n.missing = append(n.missing, name)
		}
	}
	need(s.TTFT.Mean, "TTFT")
	if osl > 1 {
		need(s.ITL.Mean, "ITL")
		need(s.Duration.Mean, "request duration")
	}
}

// forecast is the traffic of the next interval. A forecast below 0 is none.
func (u *Upstream) forecast() (traffic, []string) {
	var missing []string
	next := func(f planner.Forecaster, name string) float64 {
		v := f.Forecast(1)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			missing = append(missing, fmt.Sprintf("a forecast of %s (it is %v)", name, v))
		}
		return max(v, 0)
	}
	t := traffic{next(u.o.Requests, "requests"), next(u.o.ISL, "ISL"), next(u.o.OSL, "OSL")}
	if len(missing) == 0 && t.requests > 0 && t.isl == 0 {
		missing = append(missing, "ISL (none was seen yet)")
	}
	return t, missing
}
