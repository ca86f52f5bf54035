package sim

import (
	"fmt"
	"math"
	"testing"

	"plimsoll/engine"
)

// tiered has 10 blocks of HBM: prompts of 65 tokens are 5 blocks, 4 of them
// full, so that two prompts and a part of a third are cached.
func tiered(dram, nvme int) Config {
	return Config{
		KVBlocks: 10, PrefixCaching: true,
		DRAM: Tier{Blocks: dram, Load: 3 * engine.Millisecond},
		NVMe: Tier{Blocks: nvme, Load: 70 * engine.Millisecond},
	}
}

func TestEvictedBlocksComeBackFromBelow(t *testing.T) {
	const isl = 65
	for _, c := range []struct {
		name       string
		dram, nvme int
		order      []int // prompts; the last one is looked at
		cached     int
		load       engine.Picoseconds
	}{
		{"in HBM", 8, 8, []int{1, 1}, 64, 0},
		{"its tail in DRAM", 8, 8, []int{1, 2, 3, 1}, 64, 3 * 3 * engine.Millisecond},
		{"all of it in DRAM", 8, 8, []int{1, 2, 3, 4, 1}, 64, 4 * 3 * engine.Millisecond},
		{"DRAM passed over", 0, 8, []int{1, 2, 3, 1}, 64, 3 * 70 * engine.Millisecond},
		{"no tier: what is left in HBM", 0, 0, []int{1, 2, 3, 1}, 16, 0},
		{"DRAM too small: its tail in NVMe", 1, 8, []int{1, 2, 3, 1}, 64, (3 + 2*70) * engine.Millisecond},
		{"both too small: its tail is gone", 1, 1, []int{1, 2, 3, 1}, 48, (3 + 70) * engine.Millisecond},
		{"brought up once", 8, 8, []int{1, 2, 3, 1, 1}, 64, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustNew(t, tiered(c.dram, c.nvme), fixed(engine.Second))
			var load engine.Picoseconds
			for i, family := range c.order {
				mustAdd(t, e, request(uint64(i), prompt(isl, 0, uint32(family)), 1))
				s, _ := e.Begin()
				if s.Duration != engine.Second+s.Load {
					t.Errorf("a step of 1 s with loads of %v takes %v", s.Load.Duration(), s.Duration.Duration())
				}
				ev := e.End()
				if len(ev) != 1 {
					t.Fatalf("events %v: want the only token", ev)
				}
				load = s.Load
				if i == len(c.order)-1 && ev[0].CachedTokens != c.cached {
					t.Errorf("%d tokens cached, want %d", ev[0].CachedTokens, c.cached)
				}
			}
			if load != c.load {
				t.Errorf("loads of %v, want %v", load.Duration(), c.load.Duration())
			}
			if n := e.Overlap(BlockHashes(prompt(isl, 0, 1), 16)); n != 4 {
				t.Errorf("%d blocks of the prompt are cached after it, want 4", n)
			}
		})
	}
}

func TestWarmUpsAndTransfersDoNotLoad(t *testing.T) {
	for _, role := range []engine.Role{engine.RoleAggregated, engine.RoleDecode} {
		t.Run(string(role), func(t *testing.T) {
			cfg := tiered(8, 8)
			cfg.Role = role
			e := mustNew(t, cfg, fixed(engine.Second))
			for i, family := range []uint32{1, 2, 3, 1} {
				r := request(uint64(i), prompt(65, 0, family), 1)
				r.WarmUp = role != engine.RoleDecode
				mustAdd(t, e, r)
				if s, _ := e.Begin(); s.Load != 0 {
					t.Errorf("request %d loads for %v", i, s.Load.Duration())
				}
				e.End()
			}
			if s := e.Stats(); s.KVCached != 9 || s.DRAMCached != 3 || s.NVMeCached != 0 {
				t.Errorf("stats %+v: want the 12 full blocks of the prompts once each, 9 in HBM and 3 in DRAM", s)
			}
		})
	}
}

func TestBadTiers(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{KVBlocks: 1, PrefixCaching: true, DRAM: Tier{Blocks: -1}}, "dram tier of -1 blocks: want 0 or more"},
		{Config{KVBlocks: 1, PrefixCaching: true, NVMe: Tier{Load: -1}}, "nvme tier loads a block in -1 ps: want 0 or more"},
		{Config{KVBlocks: 1, DRAM: Tier{Blocks: 1}}, "dram tier of 1 blocks without prefix caching: nothing would come into it"},
	} {
		c.cfg.Limits.MaxModelLen = 16
		if _, err := New(c.cfg, fixed(1)); err == nil || err.Error() != c.want {
			t.Errorf("New(%+v) = %v, want %q", c.cfg, err, c.want)
		}
	}
}

// A load that nobody lives to see stays within the range of virtual time.
func TestLoadsSaturate(t *testing.T) {
	cfg := tiered(8, 8)
	cfg.DRAM.Load = math.MaxInt64
	e := mustNew(t, cfg, fixed(engine.Second))
	for i, family := range []uint32{1, 2, 3, 1} {
		mustAdd(t, e, request(uint64(i), prompt(65, 0, family), 1))
		s, _ := e.Begin()
		if want := engine.Picoseconds(math.MaxInt64); i == 3 && s.Duration != want {
			t.Errorf("step of %v, want %v", s.Duration, want)
		}
		e.End()
	}
}

func ExampleEngine_Ahead() {
	e, err := New(Config{KVBlocks: 1000}, steady{})
	if err != nil {
		panic(err)
	}
	if err := e.Add(Request{ID: 1, PromptTokens: 100, OutputTokens: 500}); err != nil {
		panic(err)
	}
	var now engine.Picoseconds
	for !e.Idle() {
		if run := e.Ahead(); run.Steps > 0 {
			now += run.Length(run.Steps)
			e.Skip(run.Steps)
			continue
		}
		step, _ := e.Begin()
		now += step.Duration
		for _, ev := range e.End() {
			fmt.Println(now.Duration(), ev.First, ev.Last)
		}
	}
	// Output:
	// 1.10505ms true false
	// 501.85155ms false true
}
