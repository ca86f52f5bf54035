package capacity

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
)

func TestFloorByHand(t *testing.T) {
	// Prompts of 100 tokens at 100 µs each and 2 ms a step: 800 of them fill a step
	// of 8 prompts, 82 ms, so that a prompt takes 10.25 ms. 300/s: 3.1 engines.
	// A step of n sequences takes 10 ms + 0.1 ms · n, and 30 ms is allowed, so that
	// n is 200, or what room there is for KV: 120 tokens each on average.
	prefill := cheapPool(engine.RolePrefill, cheap{step: 2 * milli, prompt: 100 * us}, 1000, 1e6, 899)
	timer := cheap{step: 10 * milli, seq: 100 * us}
	slo := SLO{TTFT: time.Second, ITL: 30 * ms}
	prefill.Engine.Limits.MaxNumSeqs = 100
	for _, c := range []struct {
		name     string
		seqs, kv int
		itl      time.Duration
		want     []int
	}{
		{"itl", 1000, 1e6, 30 * ms, []int{4, 2}},  // 300 · 40 · 30 ms / 200 = 1.8
		{"places", 20, 1e6, 30 * ms, []int{4, 8}}, // 300 · 40 · 12 ms / 20 = 7.2
		{"kv", 1000, 6000, 30 * ms, []int{4, 4}},  // 50 sequences, 15 ms: 3.6
		{"itl too short for one", 1000, 1e6, 5 * ms, []int{4, 122}},
	} {
		l := apart(prefill, cheapPool(engine.RoleDecode, timer, c.seqs, c.kv, 8192))
		traffic, err := fixed(300, 100, 40).PeakTraffic()
		if err != nil {
			t.Fatal(err)
		}
		slo.ITL = c.itl
		if got := l.floor(traffic, slo); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFloorOfChunkedPrompts(t *testing.T) {
	// A prompt of 10,000 tokens in chunks of 1,000 takes ten steps of 12 ms.
	p := cheapPool(engine.RolePrefill, cheap{step: 2 * milli, prompt: 10 * us}, 100, 1e6, 1000)
	if got := p.prefillSeconds(10_000); got < 0.1199 || got > 0.1201 {
		t.Errorf("%v s, want 0.12", got)
	}
}

func TestPreferred(t *testing.T) {
	layout := func(fromDataSheet bool, usd USD) Layout {
		return Layout{Pools: []EnginePool{{USDPerGPUHour: 1}, {FromDataSheet: fromDataSheet, USDPerGPUHour: usd}}}
	}
	order := []Layout{layout(false, 9), layout(false, UnknownUSD()), layout(true, 1), layout(true, UnknownUSD())}
	for i, a := range order {
		for j, b := range order {
			if got := Preferred(a, b); got != cmp.Compare(i, j) {
				t.Errorf("layouts %d and %d: %d", i, j, got)
			}
		}
	}
	if got := Preferred(layout(false, 9), layout(false, 1)); got != 0 {
		t.Errorf("two that cost compares: %d", got)
	}
}

func TestLayoutSums(t *testing.T) {
	l := sizedByHand().Layout
	if got := l.GPUs([]int{3, 5}); got != 26 {
		t.Errorf("%d GPUs", got)
	}
	if got := l.HourlyUSD([]int{3, 5}); got != 72 {
		t.Errorf("$%v", got)
	}
	if got := together(l.Pools[0]).Name(); got != "TP:2" {
		t.Errorf("%s", got)
	}
	if err := l.Check(); err != nil {
		t.Error(err)
	}
	l.Pools[0].GPUs, l.Pools[1].USDPerGPUHour = 0, -1
	if err := l.Check(); err == nil || !strings.Contains(err.Error(), "gpus is 0: want 1") || !strings.Contains(err.Error(), "usd_per_gpu_hour is -1: want 0") {
		t.Errorf("%v", err)
	}
}

// Instances are rented whole; pools of one GPU and price share them.
func TestWholeInstancesArePaidFor(t *testing.T) {
	pool := func(role engine.Role, gpu string, usd USD, instance int) EnginePool {
		p := cheapPool(role, cheap{step: milli}, 1, 10, 10)
		p.GPUs, p.GPU, p.USDPerGPUHour, p.InstanceGPUs = 4, gpu, usd, instance
		return p
	}
	for _, tc := range []struct {
		prefill, decode EnginePool
		replicas        []int
		gpus            int
		usd             USD
	}{
		{pool(engine.RolePrefill, "H100", 2, 8), pool(engine.RoleDecode, "H100", 2, 8), []int{1, 1}, 8, 16},
		{pool(engine.RolePrefill, "H100", 2, 8), pool(engine.RoleDecode, "H100", 2, 8), []int{1, 2}, 16, 32},
		{pool(engine.RolePrefill, "H100", 2, 8), pool(engine.RoleDecode, "A100", 1, 8), []int{1, 1}, 16, 24},
		{pool(engine.RolePrefill, "H100", 2, 8), pool(engine.RoleDecode, "H100", 1, 8), []int{1, 1}, 16, 24}, // spot
		{pool(engine.RolePrefill, "H100", 2, 0), pool(engine.RoleDecode, "H100", 2, 0), []int{1, 2}, 12, 24},
	} {
		l := apart(tc.prefill, tc.decode)
		if got := l.HourlyUSD(tc.replicas); got != tc.usd {
			t.Errorf("%v of %s: $%g, want $%g", tc.replicas, l.Name(), got, tc.usd)
		}
		if got, _ := l.Billed([]float64{float64(4 * tc.replicas[0]), float64(4 * tc.replicas[1])}); got != float64(tc.gpus) {
			t.Errorf("%v of %s: %v GPUs paid for, want %d", tc.replicas, l.Name(), got, tc.gpus)
		}
	}
	for gpus, want := range map[float64]float64{0: 0, 0.5: 8, 8 + 1e-9: 8, 8.5: 16} { // means over a time
		if got, _ := together(pool(engine.RoleAggregated, "H100", 2, 8)).Billed([]float64{gpus}); got != want {
			t.Errorf("%v GPUs on average: %v paid for, want %v", gpus, got, want)
		}
	}
	if err := together(pool(engine.RoleAggregated, "H100", 2, -1)).Check(); err == nil || !strings.Contains(err.Error(), "instance_gpus is -1") {
		t.Errorf("got %v", err)
	}
}
