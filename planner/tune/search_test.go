package tune

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"plimsoll/engine/enginetest"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// world is a made-up load: what a setting gives with a seed.
type world func(s Setting, seed int) Figures

// bowl attains more and costs more the larger the first parameter is, whatever the
// others are but for what they are away from a best place; seeds scatter.
func bowl(best []float64, noise float64) world {
	return func(s Setting, seed int) Figures {
		r := rand.New(rand.NewPCG(uint64(seed), math.Float64bits(s[0])))
		off := 0.0
		for i := 1; i < len(s); i++ {
			off += math.Abs(s[i] - best[i])
		}
		return Figures{Known: true, Attainment: math.Min(1, 0.9+0.1*s[0]-0.02*off+noise*r.NormFloat64()), Cost: 10 + 5*s[0] + off + noise*r.NormFloat64()}
	}
}

// runner counts what a search asks of a world.
type runner struct {
	world world
	asked map[string]int
	sum   int
}

func (r *runner) run(batch []Trial) ([]Figures, error) {
	if r.asked == nil {
		r.asked = map[string]int{}
	}
	out := make([]Figures, len(batch))
	for i, b := range batch {
		r.asked[fmt.Sprint(b)]++
		r.sum++
		out[i] = r.world(b.Setting, b.Seed)
	}
	return out, nil
}

func unit(n int) Options {
	o := Options{Seeds: 5, Budget: 200, Target: 0.99, Seed: 1}
	for i := range n {
		o.Parameters = append(o.Parameters, Parameter{Name: fmt.Sprint("p", i), Low: 0, High: 1, Default: 0.5, Step: 0.05})
	}
	return o
}

// With one parameter and no noise the answer is known: the least value that holds
// the target.
func TestSearchFindsTheCheapestThatHolds(t *testing.T) {
	for _, x := range []struct {
		name   string
		target float64
		want   float64 // 0.9 + 0.1·s holds the target from here on
	}{
		{"less is enough", 0.93, 0.3},
		{"more is needed", 0.97, 0.7},
		{"none holds it", 1.0, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			o := unit(1)
			o.Target = x.target - 1e-9
			found, err := Search(o, (&runner{world: bowl([]float64{0}, 0)}).run)
			if err != nil {
				t.Fatal(err)
			}
			if got := found.Best.Setting[0]; got != x.want {
				t.Errorf("found %v, want %v", got, x.want)
			}
		})
	}
}

// A parameter that changes nothing stays as it was.
func TestParametersThatDoNotPayAreTheDefaults(t *testing.T) {
	o := unit(3)
	o.Target = 0.93
	idle := func(s Setting, seed int) Figures { return bowl([]float64{0}, 1e-6)(s[:1], seed) }
	found, err := Search(o, (&runner{world: idle}).run)
	if err != nil {
		t.Fatal(err)
	}
	if s := found.Best.Setting; s[0] >= 0.5 || s[1] != 0.5 || s[2] != 0.5 {
		t.Errorf("found %v: want less than 0.5 of the first, and the others at 0.5", s)
	}
}

// Where seeds make more of a difference than settings, the default stays.
func TestNoiseDoesNotBeatTheDefault(t *testing.T) {
	changed := 0
	for seed := range uint64(40) {
		o := unit(2)
		o.Seed, o.Target = seed, 0.5
		noise := func(s Setting, n int) Figures {
			r := rand.New(rand.NewPCG(seed*1000+uint64(n), math.Float64bits(s[0])^math.Float64bits(s[1])<<1))
			return Figures{Known: true, Attainment: 0.9, Cost: 10 + r.NormFloat64()}
		}
		found, err := Search(o, (&runner{world: noise}).run)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(found.Best.Setting, o.defaults()) {
			changed++
		}
	}
	// Some ten are left with all seeds, and the luckiest is looked at first: it is
	// outside its interval much oftener than one is, 15 times here. That is what
	// another part of the load is for.
	if changed > 20 {
		t.Errorf("in %d of 40 searches noise was taken for an improvement", changed)
	}
}

// drawn is a search of anything.
func drawn(r *rapid.T) (Options, world) {
	o := Options{
		Seeds: rapid.IntRange(2, 7).Draw(r, "seeds"), Target: rapid.SampledFrom([]float64{0.5, 0.95, 0.99, 1}).Draw(r, "target"),
		Seed: rapid.Uint64().Draw(r, "seed"),
	}
	o.Budget = rapid.IntRange(2*o.Seeds, 120).Draw(r, "budget")
	best := []float64{}
	for i := range rapid.IntRange(1, 5).Draw(r, "parameters") {
		p := Parameter{Name: fmt.Sprint("p", i), Low: rapid.Float64Range(0.01, 10).Draw(r, "low"), Step: rapid.SampledFrom([]float64{0.01, 0.1, 1, 15}).Draw(r, "step")}
		p.High = p.Low + rapid.Float64Range(0.1, 100).Draw(r, "range")
		p.Default, p.Log = rapid.Float64Range(0, 120).Draw(r, "default"), rapid.Bool().Draw(r, "log")
		if rapid.Bool().Draw(r, "choice") {
			p = Parameter{Name: p.Name, Choices: rapid.IntRange(2, 5).Draw(r, "choices")}
		}
		o.Parameters, best = append(o.Parameters, p), append(best, rapid.Float64Range(0, 10).Draw(r, "best"))
	}
	if rapid.Bool().Draw(r, "invalid") {
		o.Valid = func(s Setting) bool { return int(s[0]*10)%3 != 0 }
	}
	return o, bowl(best, rapid.SampledFrom([]float64{0, 0.001, 0.05}).Draw(r, "noise"))
}

func TestSearchLaws(t *testing.T) {
	enginetest.Check(t, func(r *rapid.T) {
		o, w := drawn(r)
		one, two := &runner{world: w}, &runner{world: w}
		found, err := Search(o, one.run)
		if err != nil {
			r.Fatal(err)
		}
		again, _ := Search(o, two.run)
		if fmt.Sprint(found) != fmt.Sprint(again) {
			r.Fatalf("twice the same search gave\n%v\nand\n%v", found, again)
		}
		if one.sum > o.Budget || one.sum != found.Trials {
			r.Fatalf("%d trials of a budget of %d, told as %d", one.sum, o.Budget, found.Trials)
		}
		for trial, n := range one.asked {
			if n > 1 {
				r.Fatalf("%s was run %d times", trial, n)
			}
		}
		if Compare(found.Default.Figures, found.Best.Figures, o.Target).Better {
			r.Fatalf("the default %v is better than what was found, %v", found.Default, found.Best)
		}
		if !slices.Equal(found.Best.Setting, o.defaults()) && !Compare(found.Best.Figures, found.Default.Figures, o.Target).Better {
			r.Fatalf("%v is not better than the default %v", found.Best, found.Default)
		}
		for i, p := range o.Parameters {
			if v := found.Best.Setting[i]; v != p.Default && p.Choices == 0 && (v < p.Low || v > p.High) {
				r.Fatalf("%s is %v, beyond %v to %v", p.Name, v, p.Low, p.High)
			}
		}
		if !found.Ended || found.Best.known() != o.Seeds {
			r.Fatalf("ended %v, the best with %d of %d seeds", found.Ended, found.Best.known(), o.Seeds)
		}
		if o.Valid != nil && !slices.Equal(found.Best.Setting, o.defaults()) && !o.Valid(found.Best.Setting) {
			r.Fatalf("%v is not valid", found.Best.Setting)
		}
	})
}

// A search that ends early gives what it has: never worse than the default by the
// means, and nothing at all only where nothing is known.
func TestSearchIsInterrupted(t *testing.T) {
	enginetest.Check(t, func(r *rapid.T) {
		o, w := drawn(r)
		left := rapid.IntRange(0, o.Budget-1).Draw(r, "trials")
		found, err := Search(o, func(batch []Trial) ([]Figures, error) {
			out := make([]Figures, len(batch))
			for i, b := range batch {
				if left--; left < 0 {
					return out, errInterrupted
				}
				out[i] = w(b.Setting, b.Seed)
			}
			return out, nil
		})
		if err == nil {
			return // it needed no more
		}
		if !errors.Is(err, errInterrupted) || found.Ended {
			r.Fatalf("ended %v with %v", found.Ended, err)
		}
		if !slices.Equal(found.Default.Setting, o.defaults()) || len(found.Best.Setting) != len(o.Parameters) {
			r.Fatalf("%+v", found)
		}
		if !slices.Equal(found.Best.Setting, o.defaults()) && found.Best.known() == 0 {
			r.Fatalf("%v is the best, and was not tried", found.Best.Setting)
		}
	})
}

var errInterrupted = errors.New("interrupted") //nolint:gochecknoglobals // a sentinel

func TestSearchRefuses(t *testing.T) {
	good := unit(2)
	for name, change := range map[string]func(*Options){
		"no parameters":   func(o *Options) { o.Parameters = nil },
		"one seed":        func(o *Options) { o.Seeds = 1 },
		"a small budget":  func(o *Options) { o.Budget = 9 },
		"a target of 0":   func(o *Options) { o.Target = 0 },
		"an empty range":  func(o *Options) { o.Parameters[0].High = 0 },
		"not a number":    func(o *Options) { o.Parameters[0].Default = math.NaN() },
		"no step":         func(o *Options) { o.Parameters[0].Step = 0 },
		"orders from 0":   func(o *Options) { o.Parameters[0].Log = true },
		"the same twice":  func(o *Options) { o.Parameters[1].Name = "p0" },
		"one choice":      func(o *Options) { o.Parameters[0].Choices = 1 },
		"no such default": func(o *Options) { o.Parameters[0].Choices = 2 },
	} {
		o := good
		o.Parameters = slices.Clone(good.Parameters)
		change(&o)
		if _, err := Search(o, nil); err == nil {
			t.Errorf("%s: no complaint", name)
		}
	}
	for name, run := range map[string]func([]Trial) ([]Figures, error){
		"too few figures": func([]Trial) ([]Figures, error) { return nil, nil },
		"nothing known":   func(b []Trial) ([]Figures, error) { return make([]Figures, len(b)), nil },
	} {
		if _, err := Search(good, run); err == nil {
			t.Errorf("%s: no complaint", name)
		}
	}
}

// A halving takes what it says, and begins with as many as fit.
func TestRungs(t *testing.T) {
	enginetest.Check(t, func(r *rapid.T) {
		o := unit(rapid.IntRange(1, 4).Draw(r, "parameters"))
		o.Seeds = rapid.IntRange(2, 20).Draw(r, "seeds")
		o.Budget = rapid.IntRange(2*o.Seeds, 1000).Draw(r, "budget")
		n := o.first()
		rs := rungs(n, o.Seeds)
		if rs[0] != (rung{n, 1}) || rs[len(rs)-1].seeds != o.Seeds {
			r.Fatalf("%v", rs)
		}
		sum, had := 0, make([]int, n) // setting by setting
		for _, x := range rs {
			for i := range x.settings {
				sum += x.seeds - had[i]
				had[i] = x.seeds
			}
		}
		if sum != trials(rs) || o.Seeds+sum > o.Budget {
			r.Fatalf("%v take %d, told as %d, of %d", rs, sum, trials(rs), o.Budget)
		}
		if trials(rungs(n+1, o.Seeds)) <= o.Budget-o.Seeds*(1+len(o.Parameters)) {
			r.Fatalf("%d settings fit, too", n+1)
		}
	})
}
