package observe

import (
	"maps"
	"math"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

// ofVLLM are rates of first tokens and ends, and what runs and waits.
func ofVLLM(firsts, ends float64, running, waiting func(time.Duration) float64) told {
	return told{
		"vllm:time_to_first_token_seconds_count": rising(firsts), "vllm:request_success_total finished_reason stop": rising(ends),
		"vllm:num_requests_running": running, "vllm:num_requests_waiting": waiting,
	}
}

// Requests that their clients leave came, and are said after ten minutes.
func TestClientsThatLeave(t *testing.T) {
	old := ofVLLM(0, 7, constant(20), constant(0))
	delete(old, "vllm:time_to_first_token_seconds_count")
	grows := func(at time.Duration) float64 { return at.Seconds() }
	swings := func(at time.Duration) float64 { return 20 + 10*math.Abs(math.Sin(at.Seconds())) }
	for name, c := range map[string]struct {
		sides map[planner.Role]told
		want  float64
		said  string
	}{
		"30 % leave":                            {map[planner.Role]told{engine.RoleAggregated: ofVLLM(10, 7, constant(20), constant(0))}, 300, "the clients of about 30 % of the requests leave"},
		"1 % leaves":                            {map[planner.Role]told{engine.RoleAggregated: ofVLLM(10, 9.9, constant(20), constant(0))}, 300, ""},
		"more run":                              {map[planner.Role]told{engine.RoleAggregated: ofVLLM(10, 9, grows, constant(0))}, 300, ""},
		"more or fewer have no first token yet": {map[planner.Role]told{engine.RoleAggregated: ofVLLM(10, 10, swings, constant(0))}, 300, ""},
		"more wait":                             {map[planner.Role]told{engine.RoleAggregated: ofVLLM(9, 9, constant(20), grows)}, 300, ""},
		"no histogram":                          {map[planner.Role]told{engine.RoleAggregated: old}, 210, ""},
		"while they prefill":                    {map[planner.Role]told{engine.RolePrefill: ofVLLM(10, 9, constant(2), constant(0)), engine.RoleDecode: ofVLLM(9, 9, constant(20), constant(0))}, 300, "the clients of about 10 % of the requests leave"},
		"behind the frontend":                   {map[planner.Role]told{"": {"dynamo_frontend_requests_started_total": rising(10), "dynamo_frontend_requests_total": rising(10)}, engine.RoleAggregated: ofVLLM(10, 7, constant(20), constant(0))}, 300, ""},
	} {
		bothSources(t, c.sides, 20, func(by string, k int, o planner.Observation) {
			known(t, name+": arrivals by "+by, o.Arrivals, c.want, 1e-6)
			if said := problem(o, "the clients of"); said != (c.said != "" && k == 20) || said && !problem(o, c.said) {
				t.Errorf("%s by %s: after %d intervals problems %q", name, by, k, o.Problems)
			}
		})
	}
}

// gaps are the rates of an ITL histogram whose values are all below 50 ms.
func gaps(name string, perSecond, seconds float64) told {
	return told{name + "_bucket le 0.05": rising(perSecond), name + "_bucket le +Inf": rising(perSecond), name + "_count": rising(perSecond), name + "_sum": rising(perSecond * seconds)}
}

// ITL is by token where the metrics have fewer gaps than tokens: at once where tokens are
// counted as they are made, else once enough answers have ended.
func TestGapsAreOfTokens(t *testing.T) {
	itl := func(perSecond float64) told {
		s := ofVLLM(1, 1, constant(3), constant(0))
		maps.Copy(s, gaps("vllm:inter_token_latency_seconds", perSecond, 0.025))
		s["vllm:generation_tokens_total"] = rising(100)
		return s
	}
	dynamo := func(perSecond float64) told {
		s := told{"dynamo_frontend_requests_started_total": rising(1), "dynamo_frontend_active_requests": constant(3), "dynamo_frontend_queued_requests": constant(0)}
		maps.Copy(s, gaps("dynamo_frontend_inter_token_latency_seconds", perSecond, 0.0114))
		const osl = "dynamo_frontend_output_sequence_tokens"
		s[osl+"_count"], s[osl+"_sum"], s[osl+"_bucket le 100"], s[osl+"_bucket le +Inf"] = rising(1), rising(100), rising(1), rising(1)
		return s
	}
	for name, c := range map[string]struct {
		role  planner.Role
		says  told
		want  time.Duration
		whole int // intervals without a word
	}{
		"100 tokens in 40 steps":  {engine.RoleAggregated, itl(39), 9848 * time.Microsecond, 0},
		"a step for each token":   {engine.RoleAggregated, itl(99), 25 * time.Millisecond, 30},
		"half have no text":       {"", dynamo(49.5), 5700 * time.Microsecond, 1},
		"all have text":           {"", dynamo(99), 11400 * time.Microsecond, 30},
		"97 % of them have text ": {"", dynamo(96), 11400 * time.Microsecond, 30},
	} {
		bothSources(t, map[planner.Role]told{c.role: c.says}, 30, func(by string, k int, o planner.Observation) {
			said := problem(o, "percentiles of ITL are missing")
			if said != (k == c.whole+1 && c.whole < 30) || o.ITL.P99.Known == (k > c.whole) {
				t.Errorf("%s by %s: after %d intervals p99 %+v, problems %q", name, by, k, o.ITL.P99, o.Problems)
			}
			if k > c.whole || c.whole == 30 {
				latency(t, name+" by "+by, o.ITL.Mean, c.want, time.Microsecond)
			}
		})
	}
}

// streams are requests that came at some instants, each of so many tokens and as long
// between two of them.
type streams struct {
	came   []time.Duration
	tokens int
	gap    time.Duration
}

// count gives the tokens of those that run at an instant and of those that ended, and how
// many these are.
func (a streams) count(at time.Duration) (now, ended, running, ends float64) {
	for _, came := range a.came {
		had := int((at-came)/a.gap) + 1
		switch {
		case at < came:
		case had < a.tokens:
			now, running = now+float64(had), running+1
		default:
			ended, ends = ended+float64(a.tokens), ends+1
		}
	}
	return now, ended, running, ends
}

// Long answers, counted at their end while gaps are counted as they come, in lumps of 64,
// as Dynamo's frontend does, are no reason to doubt ITL, not when nearly all of a load stops.
func TestLongAnswersHaveAllTheirGaps(t *testing.T) {
	load := streams{tokens: 3000, gap: 20 * time.Millisecond} // of a minute
	for at := time.Duration(0); at < half; {
		load.came = append(load.came, at)
		if at += 400 * time.Millisecond; at > 10*time.Minute {
			at += 8 * time.Second
		}
	}
	// Those of a bucket are all that there are.
	itl := func(at time.Duration) float64 {
		now, ended, running, ends := load.count(at)
		return ended - ends + 64*float64(int(max(0, now-running)/64))
	}
	of := func(pick func(now, ended, running, ends float64) float64) func(time.Duration) float64 {
		return func(at time.Duration) float64 { return pick(load.count(at)) }
	}
	ends := of(func(_, _, _, ends float64) float64 { return ends })
	running := of(func(_, _, running, _ float64) float64 { return running })
	begun := of(func(_, _, running, ends float64) float64 { return running + ends })
	const p = "dynamo_frontend_"
	says := told{
		p + "requests_started_total": begun, p + "active_requests": running, p + "queued_requests": constant(0),
		p + "output_sequence_tokens_count": ends, p + "output_sequence_tokens_sum": of(func(_, ended, _, _ float64) float64 { return ended }),
		p + "inter_token_latency_seconds_bucket le 0.05": itl, p + "inter_token_latency_seconds_bucket le +Inf": itl,
		p + "inter_token_latency_seconds_count": itl, p + "inter_token_latency_seconds_sum": func(at time.Duration) float64 { return 0.02 * itl(at) },
	}
	seen := map[string]int{}
	check := func(by string, k int, o planner.Observation) {
		if o.ITL.Count > 0 {
			seen[by]++
			latency(t, "ITL by "+by, o.ITL.Mean, load.gap, time.Microsecond)
		}
		if problem(o, "percentiles of ITL") {
			t.Errorf("by %s: after %d intervals problems %q", by, k, o.Problems)
		}
	}
	bothSources(t, map[planner.Role]told{"": says}, 50, check)
	f := &fake{t: t}
	for key, value := range says {
		name, labels := labelled(key, "")
		f.add(name, time.Minute, half, value, labels...)
	}
	rare := live(t, f, LiveOptions{})
	for k := range 50 { // figures are of five minutes
		check("rare scrapes", k, observed(t, rare, half-time.Duration(50-k)*thirty, thirty))
	}
	if seen["Prometheus"] < 50 || seen["scraping"] < 50 {
		t.Errorf("intervals with ITL: %v", seen)
	}
}

// What waits for an engine's room is its queue; all that waits came.
func TestQueues(t *testing.T) {
	vllm := func(more told) told {
		s := ofVLLM(1, 1, constant(3), constant(12))
		maps.Copy(s, more)
		return s
	}
	reasons := told{"vllm:num_requests_waiting_by_reason reason capacity": constant(2), "vllm:num_requests_waiting_by_reason reason deferred": constant(10)}
	sglang := func(more told) told {
		s := told{"sglang:num_requests_total": rising(1), "sglang:num_running_reqs": constant(3), "sglang:num_queue_reqs": constant(1)}
		maps.Copy(s, more)
		return s
	}
	shared := told{"sglang:num_decode_prealloc_queue_reqs": constant(8), "sglang:num_decode_prealloc_queue_reqs priority 1": constant(8), "sglang:num_prefill_bootstrap_queue_reqs": constant(0)}
	prefill, decode, whole := engine.RolePrefill, engine.RoleDecode, engine.RoleAggregated
	for name, c := range map[string]struct {
		sides   map[planner.Role]told
		want    map[planner.Role]float64
		waiting float64
		said    bool
	}{
		"vLLM":                    {map[planner.Role]told{prefill: vllm(reasons), decode: vllm(reasons)}, map[planner.Role]float64{prefill: 2, decode: 2}, 24, false},
		"vLLM before 0.20":        {map[planner.Role]told{prefill: vllm(nil), decode: vllm(nil)}, map[planner.Role]float64{prefill: 12, decode: 12}, 24, true},
		"vLLM before 0.20, whole": {map[planner.Role]told{whole: vllm(nil)}, map[planner.Role]float64{whole: 12}, 12, false},
		"SGLang":                  {map[planner.Role]told{prefill: sglang(told{"sglang:num_prefill_bootstrap_queue_reqs": constant(5)}), decode: sglang(shared)}, map[planner.Role]float64{prefill: 6, decode: 9}, 15, false},
		"SGLang before 0.5.12":    {map[planner.Role]told{prefill: sglang(told{"sglang:num_prefill_prealloc_queue_reqs": constant(5)}), decode: sglang(nil)}, map[planner.Role]float64{prefill: 6, decode: 1}, 7, false},
	} {
		bothSources(t, c.sides, 1, func(by string, _ int, o planner.Observation) {
			known(t, name+": waiting by "+by, o.Waiting, c.waiting, 0)
			for role, want := range c.want {
				p, _ := o.Pool(role)
				known(t, name+": "+string(role)+" queue by "+by, p.Queue, want, 0)
				known(t, name+": "+string(role)+" queue at the start by "+by, p.QueueOpen, want, 0)
				known(t, name+": "+string(role)+" queue at the end by "+by, p.QueueEnd, want, 0)
			}
			if problem(o, "decode queue: requests are in it whose KV cache is on its way") != c.said {
				t.Errorf("%s by %s: problems %q", name, by, o.Problems)
			}
		})
	}
}

// SGLang has the mean gap of each request from 0.5.22 on.
func TestSGLangRequestsMeans(t *testing.T) {
	s := told{"sglang:num_requests_total": rising(2), "sglang:num_running_reqs": constant(3), "sglang:num_queue_reqs": constant(0)}
	const tpot = "sglang:request_time_per_output_token_seconds"
	for key, value := range gaps(tpot, 2, 0.03) {
		s[key+" is_streaming true"] = value
	}
	bothSources(t, map[planner.Role]told{engine.RoleAggregated: s}, 1, func(by string, _ int, o planner.Observation) {
		got := o.Promised(profile.SLA{Stat: profile.P99})
		latency(t, "TPOT by "+by, got.Mean, 30*time.Millisecond, time.Microsecond)
		if !got.P99.Known {
			t.Errorf("by %s: %+v, problems %q", by, got, o.Problems)
		}
	})
}

// Long answers that end after they stopped coming had most of their gaps before.
func TestLongAnswersThatEndLate(t *testing.T) {
	var l lately
	for k := range 60 {
		c := counts{length: thirty, looked: thirty, whole: true, gaps: 150 * 99, tokens: 150 * 99, running: 130, longest: 32_000}
		if k < 20 {
			c.gaps += 120 * 1500
		} else if k < 33 { // as long as one takes
			c.gaps, c.tokens, c.running = c.gaps+60*1500, c.tokens+9*19_999, 70
		} else {
			c.running = 10
		}
		if l = append(l, c); len(l) > 30 {
			l = l[1:]
		}
		if gaps, tokens, surely := l.answers(); gaps < fewGaps*surely {
			t.Fatalf("after %d intervals %v gaps of %v tokens, %v of them surely", k, gaps, tokens, surely)
		}
	}
}
