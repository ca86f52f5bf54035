package planner

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"plimsoll/testdata/integration/etcd"
	"plimsoll/testdata/integration/program"
)

// Prometheus, which scrapes every 10 s, is away twenty times, stopped and continued or
// killed and started again over its data, while a steady load comes: nothing scales down, and no rate that is taken for
// known is too low. (35 requests/s were seen as 4.154, and two prefill engines became one. The rate here is far from one that fewer would serve.)
func TestPrometheusAwayUnderSteadyLoad(t *testing.T) {
	t.Parallel()
	const times, rate = 20, 38
	on := etcd.Start(t, 1)
	acknowledged(t, on)
	policies := []string{"default", "upstream"}
	sites, addresses := map[string]*traffic{}, []string{}
	for _, p := range policies {
		sites[p] = newTraffic(t, p)
		sites[p].set(steady(rate), figures)
		addresses = append(addresses, sites[p].address)
	}
	scraper := newScraper(t, 10*time.Second, addresses...)
	planners, enough := map[string]*served{}, map[string]pair{}
	for _, p := range policies {
		s := plan(t, p, "--environment", "virtual", "--etcd-endpoints", on.Endpoints[0], "--prometheus-endpoint", scraper.url, "--policy", p)
		for _, flag := range []string{"--startup-time", "--scale-down-after", "--max-scale-down", "--headroom"} {
			if i := slices.Index(s.args, flag); p == "upstream" { // which has none of them
				s.args = slices.Delete(s.args, i, i+2)
			}
		}
		s.start()
		planners[p] = s
	}
	for _, p := range policies {
		enough[p] = planners[p].wants(2*time.Minute, "enough for the load", busy)
		planners[p].decisions(1)
	}

	begin := time.Now()
	r := rand.New(rand.NewPCG(20, 11))
	for i := range times {
		time.Sleep(2*time.Second + time.Duration(r.Int64N(int64(6*time.Second))))
		away := time.Second + time.Duration(r.Int64N(int64(12*time.Second)))
		if i%5 == 4 { // longer than figures may be old
			away += 24 * time.Second
		}
		if i%4 == 3 {
			scraper.Kill()
			time.Sleep(away)
			scraper.start()
			continue
		}
		scraper.Signal(syscall.SIGSTOP)
		time.Sleep(away)
		scraper.Signal(syscall.SIGCONT)
	}
	time.Sleep(15 * time.Second)

	for _, p := range policies {
		known, missing := 0, 0
		for _, e := range planners[p].all() {
			if e.Kind != "decision" || !e.At.After(begin) {
				continue
			}
			if e.Decision.Want.Prefill < enough[p].Prefill || e.Decision.Want.Decode < enough[p].Decode {
				t.Errorf("%s: under a steady load %+v became %+v: %+v %q", p, e.Decision.From, e.Decision.Want, e.Decision.Steps, e.Observation.Problems)
			}
			if e.Observation.Arrivals == nil {
				missing++
				continue
			}
			known++
			if seen := *e.Observation.Arrivals / e.Observation.Length.Seconds(); seen < 0.9*rate {
				t.Errorf("%s: %.4g requests/s are seen of %v: %q", p, seen, rate, e.Observation.Problems)
			}
		}
		t.Logf("%s: arrivals are known in %d decisions and missing in %d", p, known, missing)
		if known < times/2 || missing == 0 {
			t.Errorf("%s: arrivals are known in %d decisions and missing in %d", p, known, missing)
		}
	}
}

// etcd loses its keys and metrics go too: what was asked for is not known, and nothing is
// asked for, by this planner or by the next one with its state file. (4+2 became 1+0.)
// Without a state file a planner begins anew.
func TestVirtualKeysVanish(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	acknowledged(t, on)
	site, raw := newTraffic(t, "keys"), on.Client()
	s, o := promptly(t, on, prometheus(t, site.address), "keys"), other{t, "keys", on}
	site.set(steady(brisk), figures)
	was := s.wants(30*time.Second, "enough for the load", busy)
	s.decisions(1)
	before, _ := o.keys()

	site.set(steady(brisk), nothing)
	if _, err := raw.Delete(t.Context(), "v1/keys/planner/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	gone := time.Now()
	s.after(gone, 20*time.Second, "it says that the decision is gone", ofKind("error", "is not in etcd any more"))
	blind := func() {
		t.Helper()
		for _, e := range s.decisions(3) {
			if e.Decision.Act {
				t.Errorf("without its last decision it decided %+v", e.Decision)
			}
		}
		if got, _ := o.keys(); got["decision_id"] != "" || got["num_prefill_workers"] != "" || got["num_decode_workers"] != "" {
			t.Errorf("etcd holds %v", got)
		}
	}
	blind()
	site.set(steady(2), figures) // a load that fell
	blind()
	s.Stop()
	s.start()
	blind()

	for key, value := range before {
		if _, err := raw.Put(t.Context(), "v1/keys/planner/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
	if d := s.wants(30*time.Second, "less, with its decision back", func(p pair) bool { return p.Prefill < was.Prefill }); d.Decode < 1 {
		t.Errorf("with its decision back it wants %+v", d)
	}

	s.Stop()
	if _, err := raw.Delete(t.Context(), "v1/keys/planner/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	s.start()
	program.Until(t, 30*time.Second, "it begins anew", func() bool {
		got, _ := o.keys()
		n, err := strconv.Atoi(got["num_decode_workers"])
		return err == nil && n >= 1
	})
}
