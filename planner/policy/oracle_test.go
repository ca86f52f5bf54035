package policy

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/profile"
)

// oracle is what testdata/oracle.py wrote.
type oracle struct {
	Upstream []upstreamCase `json:"upstream"`
	Load     []loadCase     `json:"load"`
}

type upstreamCase struct {
	Profile []struct {
		ISL, OSL  int
		TTFT      time.Duration `json:"ttft_ns"`
		Prefill   float64
		ITLOne    time.Duration `json:"itl_one_ns"`
		ITL       time.Duration `json:"itl_ns"`
		One, Most float64
	}
	Aggregated   bool
	NoCorrection bool          `json:"no_correction"`
	Interval     int           // s
	ITL          time.Duration `json:"itl_ns"`
	fleetCase
	Steps []struct {
		In struct {
			Requests, ISL, OSL *float64
			TTFT               *time.Duration `json:"ttft_ns"`
			ITL                *time.Duration `json:"itl_ns"`
			Duration           *time.Duration `json:"duration_ns"`
			Ready              int            `json:"ready_d"`
		}
		Have, Want    []int
		Missing, Held bool
		PC, DC        float64
	}
}

type fleetCase struct {
	GPUsP  int `json:"gpus_p"`
	GPUsD  int `json:"gpus_d"`
	MinP   int `json:"min_p"`
	MinD   int `json:"min_d"`
	Budget int
}

type loadCase struct {
	KVUp      float64 `json:"kv_up"`
	KVDown    float64 `json:"kv_down"`
	QueueUp   float64 `json:"queue_up"`
	QueueDown float64 `json:"queue_down"`
	fleetCase
	Steps []struct {
		In struct {
			Queue, First, Last, KV float64
			KVWaiting              float64 `json:"kv_waiting"`
			Changed, Scaling       bool
		}
		Have, Want []int
	}
}

func readOracle(t *testing.T) oracle {
	t.Helper()
	b, err := os.ReadFile("testdata/oracle.json")
	if err != nil {
		t.Fatal(err)
	}
	var o oracle
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func (c fleetCase) deployment(aggregated bool) planner.Deployment {
	d := split(c.GPUsP, c.GPUsD, c.Budget)
	if aggregated {
		d = single(c.GPUsP, c.Budget)
	} else {
		d.Pools[1].Min = c.MinD
	}
	d.Pools[0].Min = c.MinP
	return d
}

func replicas(n []int) planner.Replicas {
	if len(n) == 1 {
		return planner.Replicas{Aggregated: n[0]}
	}
	return planner.Replicas{Prefill: n[0], Decode: n[1]}
}

func figure[T float64 | time.Duration](v *T) planner.Figure[T] {
	if v == nil {
		return planner.Figure[T]{}
	}
	return planner.Known(*v)
}

func (c upstreamCase) surfaces(t *testing.T) (interpolation.Prefill, interpolation.Decode) {
	t.Helper()
	gpus := c.GPUsD
	if c.Aggregated {
		gpus = c.GPUsP
	}
	var p profile.PrefillSurface
	d := profile.DecodeSurface{MaxKVTokens: 1_000_000}
	for _, r := range c.Profile {
		p.Samples = append(p.Samples, profile.PrefillSample{ISL: r.ISL, TTFT: r.TTFT, ThroughputPerGPU: r.Prefill})
		context := float64(r.ISL) + float64(r.OSL)/2
		d.Samples = append(d.Samples,
			profile.DecodeSample{KVUsage: context / 1e6, Context: context, ITL: r.ITLOne, ThroughputPerGPU: r.One},
			profile.DecodeSample{KVUsage: 200 * context / 1e6, Context: context, ITL: r.ITL, ThroughputPerGPU: r.Most})
	}
	prefill, err := interpolation.FitPrefill(p)
	if err != nil {
		t.Fatal(err)
	}
	decode, err := interpolation.FitDecode(d, gpus)
	if err != nil {
		t.Fatal(err)
	}
	return prefill, decode
}

// 240 intervals of 40 fleets, against formulas written down a second time.
func TestUpstreamAgainstOracle(t *testing.T) {
	for i, c := range readOracle(t).Upstream {
		prefill, decode := c.surfaces(t)
		interval := time.Duration(c.Interval) * time.Second
		u := upstreamOf(t, prefill, decode, interval, func(o *UpstreamOptions) { o.NoCorrection = c.NoCorrection })
		dep := c.deployment(c.Aggregated)
		dep.SLA.ITL = c.ITL
		for k, x := range c.Steps {
			s := at(dep, replicas(x.Have), interval)
			s.Arrivals, s.ISL.Mean, s.OSL.Mean = figure(x.In.Requests), figure(x.In.ISL), figure(x.In.OSL)
			s.TTFT.Mean, s.ITL.Mean, s.Duration.Mean = figure(x.In.TTFT), figure(x.In.ITL), figure(x.In.Duration)
			s.Pools[len(s.Pools)-1].Ready = x.In.Ready
			d := u.Propose(s)
			chained(t, s, d)
			if want := replicas(x.Want); d.Want != want || (len(d.Missing) > 0) != x.Missing || warned(d, "budget_below_least") != x.Held {
				t.Errorf("case %d interval %d: %s (missing %v, %v), want %s (missing %v, held %v)\n%+v", i, k, d.Want, d.Missing, d.Warnings, want, x.Missing, x.Held, d.Steps)
			}
			if math.Abs(u.by.Prefill-x.PC) > 1e-12*x.PC || math.Abs(u.by.Decode-x.DC) > 1e-7*x.DC { // ITL is whole nanoseconds
				t.Errorf("case %d interval %d: corrections %+v, want %v and %v", i, k, u.by, x.PC, x.DC)
			}
		}
	}
}

func warned(d planner.Decision, code string) bool {
	for _, w := range d.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}

// 200 intervals of 20 fleets.
func TestLoadAgainstOracle(t *testing.T) {
	for i, c := range readOracle(t).Load {
		l, err := NewLoad(LoadOptions{KVUp: c.KVUp, KVDown: c.KVDown, QueueUp: c.QueueUp, QueueDown: c.QueueDown})
		if err != nil {
			t.Fatal(err)
		}
		for k, x := range c.Steps {
			s := at(c.deployment(false), replicas(x.Have), 30*time.Second)
			s.Pools[0] = waiting(s.Pools[0], x.In.Queue, x.In.First, x.In.Last)
			s.Pools[1].KVUsage, s.Pools[1].Queue = planner.Known(x.In.KV), planner.Known(x.In.KVWaiting)
			s.Pools[1].Changed = x.In.Changed
			if x.In.Scaling {
				s.Scaling = "a replica starts"
			}
			d := l.Propose(s)
			chained(t, s, d)
			if want := replicas(x.Want); d.Want != want {
				t.Errorf("case %d interval %d: %s, want %s\n%+v", i, k, d.Want, want, d.Steps)
			}
		}
	}
}

func waiting(p planner.PoolObservation, mean, first, last float64) planner.PoolObservation {
	p.Queue, p.QueueOpen, p.QueueEnd = planner.Known(mean), planner.Known(first), planner.Known(last)
	if p.Role == engine.RoleAggregated {
		p.KVUsage = planner.Known(0.7)
	}
	return p
}
