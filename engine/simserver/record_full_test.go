//go:build full

package simserver

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// planned is a request to send.
type planned struct {
	at       engine.Picoseconds // after the start
	isl, osl int
	patience time.Duration // after which the client goes away; 0 = never
}

// poisson plans n requests at a rate per second.
func poisson(seed uint64, n int, rate float64) []planned {
	r := rand.New(rand.NewPCG(seed, 1))
	var at engine.Picoseconds
	plan := make([]planned, n)
	for i := range plan {
		at += engine.FromSeconds(r.ExpFloat64() / rate)
		plan[i] = planned{at: at, isl: 50 + r.IntN(300), osl: 5 + r.IntN(40)}
	}
	return plan
}

// recordOf sends the plan to a server and returns its records, in the order in
// which they were made.
func recordOf(t *testing.T, o Options, plan []planned) []Record {
	t.Helper()
	var mu sync.Mutex
	var records []Record
	o.Record = func(r Record) {
		mu.Lock()
		defer mu.Unlock()
		records = append(records, r)
	}
	s := serve(t, o)
	var wg sync.WaitGroup
	start := time.Now()
	for i, p := range plan {
		time.Sleep(time.Until(start.Add(p.at.Duration())))
		wg.Go(func() { sendPlanned(s, i, p) })
	}
	wg.Wait()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	ended := 0
	for _, r := range records {
		if !r.Canceled {
			ended++
		}
	}
	patient := 0 // of the others, some may have gone before the server heard of them
	for _, p := range plan {
		if p.patience == 0 {
			patient++
		}
	}
	if ended < patient || len(records) > len(plan) {
		t.Fatalf("%d records of %d requests, %d of them to their end: want all of the %d with patience", len(records), len(plan), ended, patient)
	}
	return records
}

// sendPlanned sends a request whose prompt begins like every third one's.
func sendPlanned(s *site, i int, p planned) {
	prompt := slices.Repeat([]byte("7,"), p.isl/2)
	prompt = append(prompt, slices.Repeat(fmt.Appendf(nil, "%d,", i%3), p.isl-p.isl/2)...)
	ctx := s.t.Context()
	if p.patience > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, p.patience)
		defer cancel()
	}
	resp, err := s.client.Do(s.request(ctx, http.MethodPost, "/v1/completions",
		fmt.Sprintf(`{"prompt":[%s],"max_tokens":%d,"ignore_eos":true,"stream":true}`, prompt[:len(prompt)-1], p.osl)))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close() // read to its end, or given up
	}
	if err != nil && p.patience == 0 {
		s.t.Error(err)
	}
}

// replay gives the recorded requests to an engine in virtual time and returns
// what their records should be.
func replay(t *testing.T, o Options, records []Record) map[uint64]Record {
	t.Helper()
	e, err := sim.New(o.Sim, o.Timer)
	if err != nil {
		t.Fatal(err)
	}
	queued := slices.Clone(records)
	slices.SortFunc(queued, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Queued, b.Queued), cmp.Compare(a.Request.ID, b.Request.ID))
	})
	canceled := slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return !r.Canceled })
	lives := map[uint64]Record{}
	var now engine.Picoseconds
	for idle := true; len(queued) > 0 || !e.Idle(); {
		if idle && len(queued) > 0 {
			now = max(now, queued[0].Queued)
		}
		for len(queued) > 0 && queued[0].Queued <= now {
			r := queued[0]
			queued = queued[1:]
			lives[r.Request.ID] = Record{Request: r.Request, Arrived: r.Arrived, Queued: r.Queued, Resyncs: r.Resyncs}
			if err := e.Add(r.Request); err != nil {
				t.Fatal(err)
			}
		}
		for len(canceled) > 0 && canceled[0].Last <= now {
			r := canceled[0]
			canceled = canceled[1:]
			if !e.Cancel(r.Request.ID) {
				t.Fatalf("request %d is canceled, but not there", r.Request.ID)
			}
			l := lives[r.Request.ID]
			l.Last, l.Canceled = now, true
			lives[r.Request.ID] = l
		}
		step, ok := e.Begin()
		if idle = !ok; idle {
			continue
		}
		now += step.Duration
		for _, ev := range e.End() {
			l := lives[ev.ID]
			l.CachedTokens = ev.CachedTokens
			if ev.First {
				l.First = now
			}
			if ev.Last {
				l.Last = now
			}
			lives[ev.ID] = l
		}
	}
	return lives
}

// realOptions is an engine under some pressure, with noise and a short KV cache.
func realOptions() Options {
	o := testOptions()
	o.Timer = stepTimer{step: 2 * time.Millisecond, promptToken: 13*time.Microsecond + 1}
	o.Sim = sim.Config{
		KVBlocks: 150, PrefixCaching: true, Noise: 0.1, Seed: 3,
		Limits: engine.Limits{MaxNumSeqs: 16, MaxNumBatchedTokens: 256},
		DRAM:   sim.Tier{Blocks: 100, Load: 17 * engine.Microsecond},
	}
	return o
}

// TestVirtualTimeReplaysTheServer: from the instants at which requests were
// queued, virtual time finds every instant of every request, to the
// picosecond. How busy this machine is changes the former, not the latter.
func TestVirtualTimeReplaysTheServer(t *testing.T) {
	for _, tt := range []struct {
		name     string
		overhead engine.Picoseconds
		async    bool
	}{{"plain", 0, false}, {"overhead and asynchronous scheduling", 3*engine.Millisecond + 17, true}} {
		t.Run(tt.name, func(t *testing.T) {
			o := realOptions()
			o.Overhead, o.Sim.AsyncScheduling = tt.overhead, tt.async
			plan := poisson(5, 250, 125)
			for i := range plan {
				if i%10 == 9 {
					plan[i].patience = time.Duration(1+i%60) * time.Millisecond
				}
			}
			records := recordOf(t, o, plan)
			for runs := 1; records[len(records)-1].Resyncs > 0; runs++ {
				if runs == 3 {
					t.Fatalf("this machine stood still for more than a second in each of %d runs", runs)
				}
				records = recordOf(t, o, plan)
			}
			sameAsReplayed(t, o, records)
		})
	}
}

func sameAsReplayed(t *testing.T, o Options, records []Record) {
	t.Helper()
	want := replay(t, o, records)
	var canceled, cached, shared, late int
	for _, r := range records {
		w := want[r.Request.ID]
		if r.First != w.First || r.Last != w.Last || r.CachedTokens != w.CachedTokens || r.Canceled != w.Canceled {
			t.Errorf("request %d: first %d, last %d, %d cached, canceled %v; in virtual time %d, %d, %d, %v",
				r.Request.ID, r.First, r.Last, r.CachedTokens, r.Canceled, w.First, w.Last, w.CachedTokens, w.Canceled)
		}
		if r.Queued < r.Arrived+o.Overhead || r.First > 0 && r.First < r.Queued || r.Last < r.First {
			t.Errorf("instants out of order: %+v", r)
		}
		if r.Canceled {
			canceled++
		}
		if r.Queued > r.Arrived+o.Overhead {
			late++
		}
		cached += r.CachedTokens
		shared += r.Request.PromptTokens
	}
	t.Logf("%d requests, %d canceled, %d queued late, %d of %d prompt tokens cached", len(records), canceled, late, cached, shared)
}

// latencies are the sorted TTFT and mean ITL in ms, the former after queueing.
func latencies(records []Record) (ttft, itl []float64) {
	for _, r := range records {
		ttft = append(ttft, (r.First - r.Queued).Milliseconds())
		if n := r.Request.OutputTokens; n > 1 {
			itl = append(itl, (r.Last-r.First).Milliseconds()/float64(n-1))
		}
	}
	slices.Sort(ttft)
	slices.Sort(itl)
	return ttft, itl
}

// sendingDelay is the 90th percentile of how late requests arrived, compared
// with the plan and with the promptest of them.
func sendingDelay(plan []planned, records []Record) time.Duration {
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Arrived, b.Arrived) })
	late := make([]engine.Picoseconds, len(plan))
	for i, p := range plan {
		late[i] = records[i].Arrived - p.at
	}
	slices.Sort(late)
	return (late[len(late)*9/10] - late[0]).Duration()
}

// TestRealTimeHasVirtualTimesLatencies compares quantiles of the same load in
// both: the server's requests arrive when this machine gets round to sending
// them, the others as planned. A run in which they are sent late is another
// load, and does not count.
func TestRealTimeHasVirtualTimesLatencies(t *testing.T) {
	const runs, tolerance, promptly = 5, 0.1, 2 * time.Millisecond
	o := realOptions()
	o.Sim.PrefixCaching, o.Sim.DRAM = false, sim.Tier{}
	o.Sim.KVBlocks = 1000
	plan := poisson(9, 300, 100)
	var asPlanned []Record
	for i, p := range plan {
		asPlanned = append(asPlanned, Record{Queued: p.at, Request: sim.Request{ID: uint64(i), PromptTokens: p.isl, OutputTokens: p.osl}})
	}
	virtual := slices.Collect(maps.Values(replay(t, o, asPlanned)))
	counted := 0
	for run := range runs {
		records := recordOf(t, o, plan)
		off := quantilesOff(t, records, virtual)
		delay := sendingDelay(plan, records)
		t.Logf("run %d: quantiles differ by up to %.1f %%, requests sent up to %v late", run, 100*off, delay)
		if off <= tolerance {
			return
		}
		if delay <= promptly {
			counted++
		}
	}
	if counted == 0 {
		t.Skipf("this machine is too busy to say: in none of %d runs did it send the requests within %v", runs, promptly)
	}
	t.Fatalf("quantiles differ by more than %v in each of %d runs", tolerance, counted)
}

// quantilesOff is the largest relative difference between quantiles of TTFT
// and of ITL.
func quantilesOff(t *testing.T, got, want []Record) (off float64) {
	gotTTFT, gotITL := latencies(got)
	wantTTFT, wantITL := latencies(want)
	for _, q := range []int{10, 25, 50, 75, 90} {
		for _, c := range []struct {
			name      string
			got, want []float64
		}{{"TTFT", gotTTFT, wantTTFT}, {"ITL", gotITL, wantITL}} {
			g, w := c.got[q*len(c.got)/100], c.want[q*len(c.want)/100]
			off = max(off, math.Abs(g-w)/w)
			t.Logf("p%d of %s: %.3f ms in real time, %.3f ms in virtual time", q, c.name, g, w)
		}
	}
	return off
}
