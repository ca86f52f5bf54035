//go:build full

package capacity

import (
	"testing"
	"time"

	"plimsoll/engine"
)

func TestCellsAreHardlyMoreThanOneFleet(t *testing.T) {
	// 4,000/s, 10 ms a prompt and 50 tokens of up to 30 ms: 40 prefill engines at
	// least, and 40 or so decode engines.
	l := apart(cheapPool(engine.RolePrefill, cheap{prompt: 100 * us}, 100, 1e6, 100), cheapPool(engine.RoleDecode, cheap{step: 10 * milli, seq: 100 * us}, 200, 1e6, 8192))
	traffic, err := fixed(4000, 100, 50).PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	slo := SLO{TTFT: 15 * time.Second, ITL: 40 * ms}
	cells, err := Size(l, traffic, slo, SizeOptions{Seed: 1})
	if err != nil || cells.Cells < 3 {
		t.Fatalf("%d cells, %v", cells.Cells, err)
	}
	one := search{layout: l, traffic: traffic, slo: slo, seed: 1, requests: mostRequests, atOnce: oneByOne, done: map[[2]int]Trial{}}
	whole, err := one.run()
	if err != nil {
		t.Fatal(err)
	}
	a, b := float64(cells.GPUs), float64(l.GPUs(whole.Replicas))
	t.Logf("%d cells %v, one router %v", cells.Cells, cells.Replicas, whole.Replicas)
	// At most one engine in each pool and cell is rounding.
	if rounding := float64(2 * cells.Cells); a < b*0.98 || a > b*1.05+rounding {
		t.Errorf("%d cells take %v, one router %v", cells.Cells, cells.Replicas, whole.Replicas)
	}
	for i, n := range cells.At.Replicas {
		if n*cells.Cells != cells.Replicas[i] {
			t.Errorf("%v in each of %d cells, %v in all", cells.At.Replicas, cells.Cells, cells.Replicas)
		}
	}
}
