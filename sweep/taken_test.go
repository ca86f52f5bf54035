package sweep

import (
	"context"
	"slices"
	"testing"
	"time"

	"plimsoll/profile"
)

// held is an engine during whose first loads others held the machine.
type held struct {
	Measurer
	Stairs
	loads int
	grown []bool // of each level: its streams have no tokens left
}

func (h *held) see(m Measurement, err error) (Measurement, error) {
	m.Machine = &profile.Machine{Cores: 2, Time: time.Minute, Others: 0.01, Busy: 0.5}
	if h.loads > 0 {
		m.Machine = &profile.Machine{Cores: 2, Time: time.Minute, Others: 0.4, Busy: 1}
	}
	h.loads--
	return m, err
}

func (h *held) Measure(ctx context.Context, w profile.Workload) (Measurement, error) {
	m, err := h.Measurer.Measure(ctx, w)
	if w.Warmup {
		return m, err
	}
	return h.see(m, err)
}

func (h *held) Level(ctx context.Context, n, tokens int) (Measurement, error) {
	if len(h.grown) > 0 {
		grown := h.grown[0]
		if h.grown = h.grown[1:]; grown {
			return Measurement{}, profile.ErrGrown
		}
	}
	return h.see(h.Stairs.Level(ctx, n, tokens))
}

// A load during which others held the machine is sent once more, and what it gave is kept
// with the reason. If they hold it again, the load counts, and is marked.
func TestLoadsOfATakenMachine(t *testing.T) {
	kinds := map[string]func(ctx context.Context, r *runner, s *trial) (profile.Point, error){
		"prompts": func(ctx context.Context, r *runner, s *trial) (profile.Point, error) {
			return r.point(ctx, s, profile.StageSweep, "x", 0, func(ctx context.Context) (profile.Point, []profile.Request, error) {
				return r.prefillSlices(ctx, s, "x", profile.StageSweep, 100, 5)
			})
		},
		"streams": func(ctx context.Context, r *runner, s *trial) (profile.Point, error) {
			return r.point(ctx, s, profile.StageSweep, "x", 0, func(ctx context.Context) (profile.Point, []profile.Request, error) {
				return r.alone(ctx, s, 100, 50, 4)
			})
		},
		"stairs": func(ctx context.Context, r *runner, s *trial) (profile.Point, error) {
			c := &climber{r: r, s: s, stage: profile.StageSweep, isl: 3000, osl: 150, top: 4}
			defer func() { _ = c.close(context.Background()) }()
			return c.at(ctx, 4)
		},
		"one at a time": func(ctx context.Context, r *runner, s *trial) (profile.Point, error) { return r.alonePoint(ctx, s) },
		"open loop": func(ctx context.Context, r *runner, s *trial) (profile.Point, error) {
			return r.openPoint(ctx, s, openLoad{stage: profile.StageSweep, id: "x", rate: 0.5, residence: time.Minute, seed: 1})
		},
	}
	for kind, measure := range kinds {
		for loads := range 4 {
			b := newLab(map[string]law{"TP:1": affine(1)})
			o := openOptions(b, Aggregated, 1)
			o.Virtual, o.PrefillWarmups = false, 0
			n := &notes{}
			r := newRunner(o, b, n, Known{}, nil)
			s := newTrial(profile.Aggregated, o.Candidates[0])
			r.book.begin(s)
			if err := r.launch(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			h := &held{Measurer: s.inst.Measurer, loads: loads}
			play, climb := s.inst.Play, s.inst.Climb
			s.inst.Measurer = h
			s.inst.Play = func(ctx context.Context, x profile.Script, stop func(profile.Request) bool) (Measurement, error) {
				return h.see(play(ctx, x, stop))
			}
			s.inst.Climb = func(ctx context.Context, w profile.Workload) (st Stairs, err error) {
				h.Stairs, err = climb(ctx, w)
				return h, err
			}
			p, err := measure(t.Context(), r, s)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			discarded := r.book.allDiscarded()
			if len(discarded) != min(loads, 1) || len(n.Points) != len(discarded)+1 {
				t.Fatalf("%s, %d loads of a taken machine: %d discarded, %d kept", kind, loads, len(discarded), len(n.Points))
			}
			for _, d := range discarded {
				if d.ID != p.ID+"/attempt1" || d.Discarded != "other processes took 40 % of this machine's CPU during the load" || d.Machine == nil || latency(d).N == 0 {
					t.Errorf("%s: discarded %+v", kind, d)
				}
			}
			marked := slices.Contains(codes(p.Warnings), "machine_taken")
			if marked != (loads > 1) || p.Machine == nil || p.Machine.Contended() != marked || p.Invalid != "" {
				t.Errorf("%s, %d loads of a taken machine: %+v, invalid %q, %v", kind, loads, p.Machine, p.Invalid, p.Warnings)
			}
		}
	}
}

// Streams that have grown before the repeat are no reason to give the level up.
func TestRepeatOnGrownStreams(t *testing.T) {
	b := newLab(map[string]law{"TP:1": affine(1)})
	r := newRunner(options(b, 1), b, &notes{}, Known{}, nil)
	s := newTrial(profile.Decode, r.opts.Candidates[0])
	r.book.begin(s)
	if err := r.launch(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	h, climb := &held{loads: 1, grown: []bool{false, true, true}}, s.inst.Climb
	s.inst.Climb = func(ctx context.Context, w profile.Workload) (st Stairs, err error) {
		h.Stairs, err = climb(ctx, w)
		return h, err
	}
	c := &climber{r: r, s: s, stage: profile.StageSweep, isl: 3000, osl: 150, top: 4}
	p, err := c.at(t.Context(), 4)
	if err != nil || p.Invalid != "" || p.Latency(profile.SLA{}) <= 0 || len(r.book.allDiscarded()) != 1 {
		t.Errorf("%v, invalid %q, %d discarded", err, p.Invalid, len(r.book.allDiscarded()))
	}
}

// Where repeats are disturbed again and again, loads are repeated no more until one was quiet.
func TestNoRepeatsOnASharedMachine(t *testing.T) {
	r := &runner{}
	quiet := &profile.Machine{Cores: 2, Time: time.Minute, Busy: 0.5}
	taken := &profile.Machine{Cores: 2, Time: time.Minute, Others: 0.4, Busy: 1}
	loads := func(m *profile.Machine) (n int) { // of one that is disturbed each time
		repeated := false
		for n = 1; r.repeats(m, &repeated); n++ {
		}
		return n
	}
	for i, want := range []int{2, 2, 2, 1, 1} {
		if got := loads(taken); got != want {
			t.Errorf("load %d is sent %d times, want %d", i, got, want)
		}
	}
	loads(nil) // says nothing
	if got := loads(taken); got != 1 {
		t.Errorf("sent %d times after a load of which nothing is known", got)
	}
	if got := loads(quiet); got != 1 {
		t.Errorf("a quiet load is sent %d times", got)
	}
	if got := loads(taken); got != 2 {
		t.Errorf("sent %d times after a quiet one", got)
	}
}
