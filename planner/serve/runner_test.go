package serve

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

// world is a deployment in memory: what it is asked for it has, after a while.
type world struct {
	mu         sync.Mutex
	have, want planner.Replicas
	takes      time.Duration // a scaling
	until      time.Time
	model      string
	broken     error // of State and Scale
	blind      error // of Observe and Sample
	asked      []planner.Replicas
	samples    int
	slow       time.Duration // of Observe
}

func (w *world) State(context.Context) (planner.State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return planner.State{}, w.broken
	}
	s := planner.State{Model: w.model}
	if time.Now().Before(w.until) {
		s.Scaling = "starting"
	} else {
		w.have = w.want
	}
	for _, r := range []planner.Role{engine.RolePrefill, engine.RoleDecode} {
		have, want := w.have.Of(r), w.want.Of(r)
		s.Pools = append(s.Pools, planner.PoolState{Role: r, Want: want, Ready: min(have, want), Starting: max(0, want-have), Draining: max(0, have-want), GPUs: 1})
	}
	return s, nil
}

func (w *world) Scale(_ context.Context, want planner.Replicas, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.broken
	}
	w.asked = append(w.asked, want)
	w.want, w.until = want, time.Now().Add(w.takes)
	return nil
}

func (w *world) Sample(context.Context, planner.State) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples++
	return w.blind
}

func (w *world) Observe(ctx context.Context, _, _ time.Time) (planner.Observation, error) {
	select {
	case <-time.After(w.slow):
	case <-ctx.Done():
		return planner.Observation{}, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.blind != nil {
		return planner.Observation{}, w.blind
	}
	return planner.Observation{Arrivals: planner.Known(1.0)}, nil
}

// later changes the world after a while.
func (w *world) later(d time.Duration, change func()) {
	go func() {
		time.Sleep(d)
		w.mu.Lock()
		defer w.mu.Unlock()
		change()
	}()
}

// plan wants a row of replicas, the last one for ever; it keeps what it saw.
type plan struct {
	row      []planner.Replicas
	seen     []planner.Observation
	restored int
}

func (p *plan) Propose(s planner.Situation) planner.Decision {
	p.seen = append(p.seen, s.Observation)
	d := planner.Decision{Want: p.row[min(len(p.seen), len(p.row))-1]}
	if !s.Arrivals.Known {
		d.Missing = []string{"arrivals"}
	}
	return d
}
func (p *plan) Save() (json.RawMessage, error) { return json.Marshal(len(p.seen)) }
func (p *plan) Restore(b json.RawMessage) error {
	p.restored++
	return json.Unmarshal(b, new(int))
}

type rig struct {
	*world
	*plan
	*Runner
	events []Event
}

func pd(p, d int) planner.Replicas { return planner.Replicas{Prefill: p, Decode: d} }

// newRig is a runner over a world of one prefill and one decode engine that
// decides every minute, with a budget of 10 GPUs.
func newRig(t *testing.T, row []planner.Replicas, change ...func(*Options, *world)) *rig {
	t.Helper()
	g := &rig{world: &world{have: pd(1, 1), want: pd(1, 1)}, plan: &plan{row: row}}
	core, err := planner.New(planner.Options{
		Deployment: planner.Deployment{
			Pools:  []planner.Pool{{Role: engine.RolePrefill, GPUs: 1, Min: 1}, {Role: engine.RoleDecode, GPUs: 1, Min: 1}},
			Budget: planner.Budget{Max: 10, Min: -1}, SLA: profile.SLA{TTFT: time.Second, ITL: time.Second},
		},
		Policy: g.plan, OnLoss: planner.Hold,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Name: "test", Source: g.world, Target: g.world, Core: core, Interval: time.Minute, Pull: time.Second,
		ScalingTimeout: 30 * time.Minute, CallTimeout: 10 * time.Second, StartTimeout: 5 * time.Minute,
		On: func(e Event) { g.events = append(g.events, e) },
	}
	for _, f := range change {
		f(&o, g.world)
	}
	if g.Runner, err = New(o); err != nil {
		t.Fatal(err)
	}
	return g
}

// lasts runs it for a while of the bubble's time.
func (g *rig) lasts(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := g.Run(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func (g *rig) kinds() string {
	var out []string
	for _, e := range g.events {
		out = append(out, string(e.Kind))
	}
	return strings.Join(out, " ")
}

func (g *rig) said(k Kind, text string) bool {
	return slices.ContainsFunc(g.events, func(e Event) bool { return e.Kind == k && strings.Contains(e.Text, text) })
}

func TestDecidesAndScales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(1, 1), pd(2, 3), pd(2, 3)})
		g.lasts(t, 3*time.Minute+time.Second)
		if want := "started decision decision scaled decision stopped"; g.kinds() != want {
			t.Errorf("%s, want %s", g.kinds(), want)
		}
		if !slices.Equal(g.asked, []planner.Replicas{pd(2, 3)}) {
			t.Errorf("asked for %v", g.asked)
		}
		if g.samples < 170 {
			t.Errorf("%d samples in three minutes", g.samples)
		}
		// Two GPUs for two minutes, five for one.
		if h := g.Status().GPUHours * 60; h < 8.8 || h > 9.1 {
			t.Errorf("%.3f GPU-minutes", h)
		}
		if o := g.seen[2]; !o.Pools[0].Changed || g.seen[1].Pools[0].Changed {
			t.Error("replicas that came are not noted in the interval in which they came")
		}
	})
}

// Ticks keep to the grid though observing takes long, and an interval is as
// long as it was.
func TestNoDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(1, 1)}, func(_ *Options, w *world) { w.slow = 1700 * time.Millisecond })
		start := time.Now()
		g.lasts(t, 10*time.Minute+30*time.Second)
		if len(g.seen) != 10 {
			t.Fatalf("%d decisions in ten minutes", len(g.seen))
		}
		for i, o := range g.seen {
			if late := o.End().Sub(start) - time.Duration(i+1)*time.Minute; late < 0 || late > time.Second {
				t.Errorf("interval %d ends %v late", i, late)
			}
			if i > 0 && !o.Start.Equal(g.seen[i-1].End()) {
				t.Errorf("interval %d begins at %v, the one before ended at %v", i, o.Start, g.seen[i-1].End())
			}
		}
	})
}

func TestAdvisoryAsksForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(2, 2)}, func(o *Options, _ *world) { o.Advise = true })
		g.lasts(t, 2*time.Minute+time.Second)
		if len(g.asked) != 0 || !g.said(Advised, "prefill=2, decode=2") {
			t.Errorf("asked for %v: %s", g.asked, g.kinds())
		}
		for _, e := range g.events {
			if e.Decision != nil && len(e.Decision.Warnings) > 0 {
				t.Errorf("advice that nobody took is called an edit: %v", e.Decision.Warnings)
			}
		}
	})
}

// What bounds, budget and SLA become holds from the next decision on, and so does that
// decisions are carried out at all.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(2, 2)}, func(o *Options, _ *world) { o.Advise = true })
		go func() {
			time.Sleep(2*time.Minute + time.Second)
			d := g.Deployment()
			d.Budget.Max = 1
			if err := g.Reset(d, false); err == nil || !g.Status().Advise {
				t.Error("a budget below the least is taken")
			}
			d.Budget.Max = 3
			if err := g.Reset(d, false); err != nil {
				t.Error(err)
			}
		}()
		g.lasts(t, 4*time.Minute+time.Second)
		if !slices.Equal(g.asked, []planner.Replicas{pd(1, 2)}) || !g.said(Changed, "the most GPUs 10 became 3, advice alone true became false") || !g.said(Advised, "prefill=2") {
			t.Errorf("asked for %v: %s", g.asked, g.kinds())
		}
	})
}

// While a scaling goes on decisions do, too; one that outlasts the interval is
// waited for, and the interval grows to what scaling takes.
func TestIntervalGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(2, 2), pd(3, 3)}, func(_ *Options, w *world) { w.takes = 100 * time.Second })
		g.lasts(t, 12*time.Minute)
		if !g.said(Warned, "is unfinished (starting)") || g.Status().Interval < 100*time.Second || g.Status().Interval > 102*time.Second {
			t.Errorf("interval %v: %s", g.Status().Interval, g.kinds())
		}
		if len(g.seen) > 9 { // twelve without growing
			t.Errorf("%d decisions", len(g.seen))
		}
	})
}

// dynamo#14251: replicas without GPUs never start; the planner goes on.
func TestScalingThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(5, 5), pd(1, 1)}, func(_ *Options, w *world) { w.takes = 1000 * time.Hour })
		g.lasts(t, 20*time.Minute)
		if !slices.Equal(g.asked, []planner.Replicas{pd(5, 5), pd(1, 1)}) {
			t.Errorf("asked for %v", g.asked)
		}
	})
}

func TestBlockingWaitsWithoutSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(2, 2), pd(3, 3)}, func(o *Options, w *world) { o.Blocking, w.takes = true, 5*time.Minute })
		g.lasts(t, 5*time.Minute+50*time.Second)
		if len(g.asked) != 1 || g.samples > 65 {
			t.Errorf("asked for %v with %d samples", g.asked, g.samples)
		}
		g = newRig(t, []planner.Replicas{pd(2, 2), pd(3, 3)}, func(o *Options, w *world) {
			o.Blocking, o.ScalingTimeout, w.takes = true, 10*time.Minute, 1000*time.Hour
		})
		g.lasts(t, 15*time.Minute)
		if len(g.asked) < 2 {
			t.Error("a scaling that never ends is waited for for ever")
		}
	})
}

// dynamo#14765, and a target that cannot be read: nothing is done in the dark.
func TestInTheDark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(1, 1), pd(5, 5)}, func(_ *Options, w *world) {
			w.later(90*time.Second, func() { w.blind = errors.New("no metrics") })
		})
		g.lasts(t, 5*time.Minute+time.Second)
		if len(g.asked) != 0 || !g.said(Failed, "no metrics") {
			t.Errorf("asked for %v: %s", g.asked, g.kinds())
		}
		g = newRig(t, []planner.Replicas{pd(1, 1), pd(5, 5)}, func(_ *Options, w *world) {
			w.later(90*time.Second, func() { w.broken = errors.New("gone") })
			w.later(200*time.Second, func() { w.broken = nil })
		})
		g.lasts(t, 3*time.Minute+time.Second)
		if len(g.asked) != 0 || g.Status().Problem != "gone" {
			t.Errorf("asked for %v", g.asked)
		}
		g.lasts(t, 2*time.Minute)
		if !slices.Equal(g.asked, []planner.Replicas{pd(5, 5)}) {
			t.Errorf("after the target is back: asked for %v", g.asked)
		}
	})
}

func TestStart(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options, *world)
		want   string
	}{
		{"another model", func(o *Options, w *world) { o.Model, w.model = "a", "b" }, `"b", not "a"`},
		{"never there", func(_ *Options, w *world) { w.broken = errors.New("refused") }, "not there after 5m0s: refused"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, []planner.Replicas{pd(1, 1)}, c.change)
			if err := g.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v lacks %q", c.name, err, c.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(1, 1)}, func(_ *Options, w *world) {
			w.broken = errors.New("refused")
			w.later(4*time.Minute, func() { w.broken = nil })
		})
		g.lasts(t, 5*time.Minute+50*time.Second)
		if len(g.seen) != 1 || !g.said(Warned, "waiting for the deployment: refused") {
			t.Errorf("%d decisions: %s", len(g.seen), g.kinds())
		}
	})
}

func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	with := func(o *Options, _ *world) { o.StatePath = path }
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(2, 2)}, with)
		g.lasts(t, 3*time.Minute+time.Second)
		used := g.Status().GPUHours

		time.Sleep(5*time.Minute + 30*time.Second)
		g = newRig(t, []planner.Replicas{pd(2, 2)}, with)
		g.want, g.have = pd(2, 2), pd(2, 2)
		g.lasts(t, time.Minute+time.Second)
		if len(g.seen) != 6 || g.seen[0].Arrivals.Known || !g.seen[5].Arrivals.Known {
			t.Errorf("%d intervals, five of them away: %+v", len(g.seen), g.seen)
		}
		if now := g.Status().GPUHours; now < used || now > used+0.1 {
			t.Errorf("%v GPU-hours, %v before the restart", now, used)
		}
		if len(g.asked) != 0 {
			t.Errorf("asked again for %v", g.asked)
		}
	})
}

// What a planner does is named when it begins and when it ends.
func TestBeginAndEndAreNamed(t *testing.T) {
	for advise, want := range map[bool][2]string{
		false: {"deciding every 1m0s", "deciding"},
		true:  {"observing every 1m0s; decisions are advice only, nothing is scaled", "observing"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, []planner.Replicas{pd(4, 2)}, func(o *Options, _ *world) { o.Advise = advise })
			g.lasts(t, time.Second)
			if !g.said(Started, want[0]) || !g.said(Finished, want[1]) {
				t.Errorf("%+v", g.events)
			}
		})
	}
}

// A damaged state file is set aside, with what is unknown after it, and the planner goes
// on: under a supervisor it would be started again for ever.
func TestDamagedStateIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	own := func(rest string) string {
		return `{"schema":1,"deployment":"test","profile":"","gpu_hours":2` + rest
	}
	for i, bad := range []string{"", "\x00\x00", "{", own(`,"interval_ns":6000`), own(`,"interval_ns":60000000000,"core":7}`), own(`,"interval_ns":6000000,"core":7}`), own(`,"end":"yesterday"}`)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := CheckState(path, "test"); err != nil {
			t.Errorf("%q: %v", bad, err)
		}
		to := path + ".damaged"
		if i > 0 {
			to += "." + strconv.Itoa(i+1)
		}
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, []planner.Replicas{pd(4, 2)}, func(o *Options, w *world) { o.StatePath, w.want, w.have = path, pd(4, 2), pd(4, 2) })
			g.lasts(t, time.Minute+time.Second)
			if len(g.asked) != 0 || len(g.seen) != 1 || !g.said(Warned, "the state file "+path+" is damaged (") || !g.said(Warned, "), and is now "+to+". ") || !g.said(Warned, "last decision") {
				t.Errorf("%q: asked for %v: %+v", bad, g.asked, g.events)
			}
		})
		if b, err := os.ReadFile(to); err != nil || string(b) != bad {
			t.Errorf("%s holds %q, %v: want %q", to, b, err, bad)
		}
		if m, err := readMemory(path, "test"); err != nil || !strings.Contains(string(m.Core), `"forgot":true`) {
			t.Errorf("afterwards: %+v, %v", m, err)
		}
	}
}

// What is not damaged and not this planner's to use stays as it is.
func TestStateOfOthersIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	for text, want := range map[string]string{
		`{"schema":2,"deployment":"test"}`:  "run the version that wrote it",
		`{"schema":1,"deployment":"other"}`: `deployment "other"`,
		`{"name":"of something else"}`:      "schema 0",
		"arrival_s,isl,osl\n1,100,10\n":     "is no state file of a planner",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, []planner.Replicas{pd(1, 1)}, func(o *Options, _ *world) { o.StatePath = path })
			for _, err := range []error{CheckState(path, "test"), g.Run(t.Context())} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v lacks %q", text, err, want)
				}
			}
		})
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%s became %q, %v", text, b, err)
		}
	}
}

// A planner that is killed between a target's answer and its own note of it does
// not blame somebody else after its restart.
func TestKilledWhileItAsks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	synctest.Test(t, func(t *testing.T) {
		var asking []byte // the state file while the target is asked
		g := newRig(t, []planner.Replicas{pd(2, 2), pd(3, 3)}, func(o *Options, _ *world) {
			o.StatePath = path
			o.On = func(e Event) {
				if e.Kind == Scaled {
					asking, _ = os.ReadFile(path)
				}
			}
		})
		g.lasts(t, 2*time.Minute+time.Second)
		if err := os.WriteFile(path, asking, 0o600); err != nil {
			t.Fatal(err)
		}
		g = newRig(t, []planner.Replicas{pd(3, 3)}, func(o *Options, w *world) { o.StatePath, w.want, w.have = path, pd(3, 3), pd(3, 3) })
		g.lasts(t, time.Minute+time.Second)
		for _, e := range g.events {
			if e.Decision != nil && len(e.Decision.Warnings) > 0 {
				t.Errorf("its own work is called an edit: %v", e.Decision.Warnings)
			}
		}
		if !strings.Contains(g.kinds(), "decision") || len(g.asked) > 0 {
			t.Errorf("%s, asked for %v", g.kinds(), g.asked)
		}
	})
}
