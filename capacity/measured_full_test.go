//go:build full

package capacity

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
)

// measuredSteps are decode steps as long as a measured table's TPOT at each
// number in flight, straight between them; prompts take next to nothing.
type measuredSteps struct {
	inFlight []int
	seconds  []float64
}

func (m measuredSteps) StepTime(b engine.Batch) engine.Picoseconds {
	if b.DecodeSeqs == 0 {
		return engine.FromDuration(time.Millisecond)
	}
	i := slices.IndexFunc(m.inFlight, func(n int) bool { return n >= b.DecodeSeqs })
	switch {
	case i < 0: // beyond the table nothing is faster than in proportion
		last := len(m.inFlight) - 1
		return engine.FromSeconds(m.seconds[last] * float64(b.DecodeSeqs) / float64(m.inFlight[last]))
	case i == 0:
		return engine.FromSeconds(m.seconds[0])
	}
	share := float64(b.DecodeSeqs-m.inFlight[i-1]) / float64(m.inFlight[i]-m.inFlight[i-1])
	return engine.FromSeconds(m.seconds[i-1] + share*(m.seconds[i]-m.seconds[i-1]))
}

// readMeasured gives each TP's steps of one measured closed-loop table.
func readMeasured(t *testing.T, engine, version, isl, osl string) map[int]measuredSteps {
	t.Helper()
	root := os.Getenv("PLIMSOLL_DATA")
	if root == "" {
		t.Skip("NOT RUN: PLIMSOLL_DATA names no folder with measured/points.csv")
	}
	f, err := os.Open(filepath.Join(root, "measured", "points.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string) int { return slices.Index(lines[0], name) }
	out := map[int]measuredSteps{}
	slices.SortStableFunc(lines[1:], func(a, b []string) int {
		x, _ := strconv.Atoi(a[column("concurrency")])
		y, _ := strconv.Atoi(b[column("concurrency")])
		return x - y
	})
	for _, l := range lines[1:] {
		if l[column("backend")] != engine || l[column("version")] != version || l[column("loop")] != "closed" || l[column("isl")] != isl || l[column("osl")] != osl {
			continue
		}
		tp, _ := strconv.Atoi(l[column("tp")])
		n, _ := strconv.Atoi(l[column("concurrency")])
		ms, err := strconv.ParseFloat(l[column("tpot_or_itl_ms")], 64)
		if err != nil {
			t.Fatal(err)
		}
		m := out[tp]
		m.inFlight, m.seconds = append(m.inFlight, n), append(m.seconds, ms/1e3)
		out[tp] = m
	}
	return out
}

// best is the most output tokens per second and GPU that the table has under a
// cap on TPOT, between its rows too.
func (m measuredSteps) best(tp int, limit float64) float64 {
	most := 0.0
	for n := 1; n <= m.inFlight[len(m.inFlight)-1]; n++ {
		if s := m.StepTime(engine.Batch{DecodeSeqs: n}).Seconds(); s <= limit {
			most = max(most, float64(n)/s/float64(tp))
		}
	}
	return most
}

// What a measured table says is the best TP under a cap takes the fewest GPUs,
// and so on down, wherever the table tells them apart by more than a quarter: engines are
// whole, and the last one is seldom full.
func TestMeasuredTablesRankAsTheySay(t *testing.T) {
	compared := 0
	for _, table := range []struct{ engine, version, isl, osl string }{
		{"vllm", "0.12.0", "1024", "1024"}, {"vllm", "0.12.0", "4096", "128"}, {"trtllm", "1.0.0rc3", "1024", "512"},
	} {
		steps := readMeasured(t, table.engine, table.version, table.isl, table.osl)
		if len(steps) == 0 {
			continue
		}
		for _, limit := range []time.Duration{12 * time.Millisecond, 25 * time.Millisecond} {
			gpus := map[int]float64{}
			for tp, m := range steps {
				if m.best(tp, limit.Seconds()) == 0 {
					continue
				}
				gpus[tp] = sizedGPUs(t, m, tp, limit)
			}
			for a, x := range gpus {
				for b, y := range gpus {
					say, other := steps[a].best(a, limit.Seconds()), steps[b].best(b, limit.Seconds())
					if say > 1.25*other {
						compared++
						if x >= y {
							t.Errorf("%s %s/%s under %v: TP%d takes %.0f GPUs and TP%d %.0f, but the table has %.0f and %.0f tokens/s/GPU", table.engine, table.isl, table.osl, limit, a, x, b, y, say, other)
						}
					}
				}
			}
		}
	}
	if compared < 8 {
		t.Errorf("%d pairs compared, want 8 at least", compared)
	}
}

// sizedGPUs is what decode takes of a load of some dozens of engines.
func sizedGPUs(t *testing.T, m measuredSteps, tp int, limit time.Duration) float64 {
	t.Helper()
	pool := func(role engine.Role, seqs int) EnginePool {
		return EnginePool{Label: engine.TP(tp).Label(), GPU: "H100-SXM", USDPerGPUHour: 1, Pool: fleet.Pool{
			Engine: sim.Config{Role: role, KVBlocks: 1 << 20, Limits: engine.Limits{MaxNumSeqs: seqs, MaxNumBatchedTokens: 1 << 16, MaxModelLen: 1 << 16, BlockSize: 16}},
			Timer:  m, GPUs: tp, Router: fleet.LeastLoaded,
		}}
	}
	w := Workload{Rate: 200, ISL: 100, ISLP99: 100, OSL: 100, OSLP99: 100, PeakToAverage: 1, Pattern: "flat"}
	traffic, err := w.PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	l := Layout{Strategy: Disaggregated, Pools: []EnginePool{pool(engine.RolePrefill, 64), pool(engine.RoleDecode, m.inFlight[len(m.inFlight)-1])}}
	s, err := Size(l, traffic, SLO{TTFT: 5 * time.Second, ITL: limit}, SizeOptions{Requests: 5000, Rough: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.Infeasible != nil {
		t.Fatalf("TP%d under %v: %s", tp, limit, s.Infeasible.Why)
	}
	return float64(s.Replicas[1] * tp)
}
