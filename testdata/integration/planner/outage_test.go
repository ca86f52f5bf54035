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

// etcd loses its keys and metrics go too: what was asked for is asked for again, by this
// planner and by the next one with its state file. (4+2 became 1+0.) Without a state file
// nothing is asked for while the acknowledgement of a lost decision is there, and a planner
// begins anew when that is gone too.
func TestVirtualKeysVanish(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	acknowledged(t, on)
	site, raw := newTraffic(t, "keys"), on.Client()
	s, o := promptly(t, on, prometheus(t, site.address), "keys"), other{t, "keys", on}
	site.set(steady(brisk), figures)
	was := s.wants(30*time.Second, "enough for the load", busy)
	s.decisions(1)
	wants := func(id string) {
		t.Helper()
		program.Until(t, 30*time.Second, "the decision is there again", func() bool {
			got, _ := o.keys()
			return got["decision_id"] == id && got["num_prefill_workers"] == strconv.Itoa(was.Prefill) && got["num_decode_workers"] == strconv.Itoa(was.Decode)
		})
	}
	lose := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			if _, err := raw.Delete(t.Context(), "v1/keys/planner/"+key, clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
		}
	}
	site.set(steady(brisk), nothing)
	before, _ := o.keys()
	lose("")
	wants(before["decision_id"])

	s.Stop()
	lose("num_", "decision_id")
	s.start()
	id, err := strconv.Atoi(before["decision_id"])
	if err != nil {
		t.Fatal(err)
	}
	wants(strconv.Itoa(id + 1)) // it is acknowledged, and must be new to whoever did

	s.Stop()
	program.Until(t, 30*time.Second, "it is acknowledged", func() bool {
		got, _ := o.keys()
		return got["scaled_decision_id"] == got["decision_id"]
	})
	lose("num_", "decision_id")
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	s.start()
	for _, e := range s.decisions(3) {
		if e.Decision.Act {
			t.Errorf("without any memory of its last decision it decided %+v", e.Decision)
		}
	}
	lose("scaled_decision_id")
	program.Until(t, 30*time.Second, "it begins anew", func() bool {
		got, _ := o.keys()
		n, err := strconv.Atoi(got["num_decode_workers"])
		return err == nil && n >= 1
	})
}
