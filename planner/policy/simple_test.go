package policy

import (
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

var quiet = Seen{Utilization: 0.6}

func with(change func(*Seen)) Seen {
	s := quiet
	change(&s)
	return s
}

// One row per sentence of the rule, each threshold from both sides.
func TestStep(t *testing.T) {
	for _, c := range []struct {
		name  string
		group int
		from  int
		seen  Seen
		want  int
		rule  string
	}{
		{"nothing", 4, 16, quiet, 16, "hold"},
		{"utilization at the threshold", 4, 16, with(func(s *Seen) { s.Utilization = 0.85 }), 16, "hold"},
		{"utilization above", 4, 16, with(func(s *Seen) { s.Utilization = 0.851 }), 20, "up"},
		{"misses at 1 %", 4, 16, with(func(s *Seen) { s.Misses = 0.01 }), 16, "hold"},
		{"misses above 1 %", 4, 16, with(func(s *Seen) { s.Misses = 0.011 }), 20, "up"},
		{"misses at 5 %", 4, 16, with(func(s *Seen) { s.Misses = 0.05 }), 20, "up"},
		{"misses above 5 %", 4, 16, with(func(s *Seen) { s.Misses = 0.051 }), 24, "up"},
		{"queue at 100", 4, 16, with(func(s *Seen) { s.Queue = 100 }), 16, "hold"},
		{"queue above 100", 4, 16, with(func(s *Seen) { s.Queue = 101 }), 20, "up"},
		{"low utilization and a miss asks for more", 4, 16, Seen{Utilization: 0.1, Misses: 0.02}, 20, "up"},
		{"all low", 4, 16, Seen{Utilization: 0.39, Queue: 9}, 12, "down"},
		{"utilization at 0.40", 4, 16, Seen{Utilization: 0.40, Queue: 9}, 16, "hold"},
		{"a few misses", 4, 16, Seen{Utilization: 0.1, Misses: 0.001}, 16, "hold"},
		{"queue at 10", 4, 16, Seen{Utilization: 0.1, Queue: 10}, 16, "hold"},
		{"groups of 8 go up by one", 8, 16, with(func(s *Seen) { s.Utilization = 0.9 }), 24, "up"},
		{"groups of 8 go down by one", 8, 16, Seen{}, 8, "down"},
		{"groups of 3 go up by two", 3, 15, with(func(s *Seen) { s.Utilization = 0.9 }), 21, "up"},
		{"groups of 3 go down by one", 3, 15, Seen{}, 12, "down"},
		{"groups of 1", 1, 15, Seen{}, 11, "down"},
		{"at the limit", 4, 40, with(func(s *Seen) { s.Utilization = 0.9 }), 40, "bounds"},
		{"up to the limit", 4, 36, with(func(s *Seen) { s.Misses = 0.5 }), 40, "up"},
		{"at the least", 4, 4, Seen{}, 4, "bounds"},
		{"below the least", 4, 0, quiet, 4, "bounds"},
		{"above the limit", 4, 60, quiet, 40, "bounds"},
		{"not whole groups", 4, 14, quiet, 16, "bounds"},
		{"utilization missing", 4, 16, Seen{Utilization: math.NaN()}, 16, "hold"},
		{"misses missing", 4, 16, Seen{Misses: math.NaN()}, 16, "hold"},
		{"queue missing", 4, 16, Seen{Queue: -1}, 16, "hold"},
		{"misses missing, but utilization is high", 4, 16, Seen{Utilization: 0.9, Misses: math.NaN()}, 20, "up"},
	} {
		r := DefaultSimple(c.group, 4, 42) // 42 are 40 in whole groups of 4
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		got, reasons := r.Step(State{GPUs: c.from}, c.seen)
		if got.GPUs != c.want {
			t.Errorf("%s: %d GPUs, want %d: %+v", c.name, got.GPUs, c.want, reasons)
		}
		ruled := false
		for _, x := range reasons {
			ruled = ruled || x.Rule == c.rule
		}
		if !ruled {
			t.Errorf("%s: no reason %q in %+v", c.name, c.rule, reasons)
		}
		if moved := c.want != c.from; got.Ever != moved {
			t.Errorf("%s: a change is remembered: %v, want %v", c.name, got.Ever, moved)
		}
	}
}

func TestCooldown(t *testing.T) {
	r := DefaultSimple(4, 4, 100)
	busy := func(at time.Duration) Seen { return Seen{At: at, Utilization: 0.95} }
	s, _ := r.Step(State{GPUs: 8}, busy(0)) // a first change, at 0, counts too
	if s.GPUs != 12 {
		t.Fatalf("at 0 s: %d GPUs", s.GPUs)
	}
	s, why := r.Step(s, busy(119*time.Second))
	if s.GPUs != 12 || why[0].Rule != "cooldown" || !strings.Contains(why[0].Why, "1m59s ago, less than 2m0s") {
		t.Errorf("at 119 s: %d GPUs, %+v", s.GPUs, why)
	}
	if s, _ = r.Step(s, busy(120*time.Second)); s.GPUs != 16 {
		t.Errorf("at 120 s: %d GPUs", s.GPUs)
	}
	if s, _ = r.Step(s, Seen{At: 200 * time.Second}); s.GPUs != 16 {
		t.Errorf("down 80 s after up: %d GPUs", s.GPUs)
	}
	if s, _ = r.Step(s, Seen{At: 240 * time.Second}); s.GPUs != 12 {
		t.Errorf("down 120 s after up: %d GPUs", s.GPUs)
	}
}

// What the limit leaves unchanged begins no cooldown.
func TestTheLimitBeginsNoCooldown(t *testing.T) {
	r := DefaultSimple(4, 4, 16)
	s, _ := r.Step(State{GPUs: 16}, Seen{At: time.Second, Utilization: 1})
	if s, _ = r.Step(s, Seen{At: 2 * time.Second}); s.GPUs != 12 {
		t.Errorf("%d GPUs, want 12", s.GPUs)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Simple)
		want   string
	}{
		{func(r *Simple) { r.GroupGPUs = 0 }, "group GPUs are 0: want 1 to 1024"},
		{func(r *Simple) { r.MinGPUs = -1 }, "min_gpus is -1"},
		{func(r *Simple) { r.MaxGPUs = 0 }, "max_gpus is 0"},
		{func(r *Simple) { r.MinGPUs, r.MaxGPUs = 9, 11 }, "no whole number of groups of 4 GPUs is in min_gpus 9 to max_gpus 11"},
		{func(r *Simple) { r.Cooldown = -1 }, "cooldown is -1ns"},
		{func(r *Simple) { r.UpUtilization = math.NaN() }, "up utilization is NaN"},
		{func(r *Simple) { r.DownUtilization = 0.85 }, "down utilization is 0.85: want 0 to below the 0.85"},
		{func(r *Simple) { r.ManyMisses = 0 }, "up and many misses are 0.01 and 0"},
		{func(r *Simple) { r.DownQueue = 101 }, "down queue is 101"},
		{func(r *Simple) { r.StepGPUs = 0 }, "steps are 0 and 8 GPUs"},
	} {
		r := DefaultSimple(4, 4, 40)
		c.change(&r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v lacks %q", err, c.want)
		}
	}
}

// Whatever is seen, GPUs are whole groups within the bounds, every reason
// begins where the one before ended, and two changes are a cooldown apart.
func TestLaws(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		r := DefaultSimple(rapid.IntRange(1, 16).Draw(t, "group"), rapid.IntRange(0, 100).Draw(t, "min"), rapid.IntRange(1, 300).Draw(t, "max"))
		if r.Check() != nil {
			t.Skip("no such rule")
		}
		low, high := r.bounds()
		s := State{GPUs: rapid.IntRange(0, 400).Draw(t, "from")}
		var at, changed time.Duration
		ever := false
		for range 30 {
			at += time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second
			seen := Seen{
				At: at, Utilization: rapid.SampledFrom([]float64{0, 0.3, 0.6, 0.9, math.NaN()}).Draw(t, "utilization"),
				Misses: rapid.SampledFrom([]float64{0, 0.005, 0.03, 0.3, math.NaN()}).Draw(t, "misses"),
				Queue:  rapid.SampledFrom([]int{-1, 0, 50, 200}).Draw(t, "queue"),
			}
			next, reasons := r.Step(s, seen)
			if next.GPUs%r.GroupGPUs != 0 || next.GPUs < low || next.GPUs > high {
				t.Fatalf("%d GPUs: groups of %d, %d to %d", next.GPUs, r.GroupGPUs, low, high)
			}
			gpus := s.GPUs
			for _, x := range reasons {
				if x.From != gpus || x.Why == "" {
					t.Fatalf("reasons %+v do not lead from %d", reasons, s.GPUs)
				}
				gpus = x.To
			}
			if gpus != next.GPUs || len(reasons) == 0 {
				t.Fatalf("reasons %+v do not lead to %d", reasons, next.GPUs)
			}
			if next.GPUs != s.GPUs {
				if ever && at-changed < r.Cooldown {
					t.Fatalf("changed %v after a change", at-changed)
				}
				changed, ever = at, true
			}
			s = next
		}
	})
}
