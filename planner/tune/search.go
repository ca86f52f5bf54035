package tune

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Trial is a setting to be replayed with a seed, from 0 to Options.Seeds−1.
type Trial struct {
	Setting Setting
	Seed    int
}

// Tried is a setting with what is known of it, by seed.
type Tried struct {
	Setting Setting
	Figures []Figures
}

func (t *Tried) known() (n int) {
	for _, f := range t.Figures {
		n += boolInt(f.Known)
	}
	return n
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Outcome is what was found.
type Outcome struct {
	Default Tried
	Best    Tried // the default, where nothing is better by more than its interval
	// Back are the parameters of the winner that were put back to their defaults.
	Back     []int
	Settings int // that were tried, the default included
	Trials   int // whose figures are known
	// Ended is where the search came to its end. Otherwise Best may have fewer seeds
	// than were asked for, and be better by the means alone.
	Ended bool
}

// search is one so far.
type search struct {
	o     Options
	run   func([]Trial) ([]Figures, error)
	known map[string]*Tried
	order []*Tried // as they were tried, the default first
	out   Outcome
}

// Search finds the best settings. run replays a batch and gives the figures of each
// trial in its place; it may leave some unknown together with an error, which ends
// the search with what was found until then.
func Search(o Options, run func([]Trial) ([]Figures, error)) (Outcome, error) {
	if err := o.Check(); err != nil {
		return Outcome{}, fmt.Errorf("the search: %w", err)
	}
	s := &search{o: o, run: run, known: map[string]*Tried{}}
	err := s.all()
	s.out.Default, s.out.Settings, s.out.Ended = *s.order[0], len(s.order), err == nil
	if err != nil {
		s.out.Best = *s.leader()
	}
	return s.out, err
}

func (s *search) all() error {
	first := s.tried(s.o.defaults())
	if err := s.replay([]*Tried{first}, s.o.Seeds); err != nil {
		return err
	}
	last, err := s.halve(first)
	if err != nil {
		return err
	}
	s.out.Best = *first
	for _, t := range s.ranked(append(last, first), 0) {
		if Compare(t.Figures, first.Figures, s.o.Target).Better {
			best, err := s.back(t, first)
			s.out.Best = *best
			return err
		}
	}
	return nil
}

// halve gives the settings that are left with all seeds.
func (s *search) halve(first *Tried) ([]*Tried, error) {
	var left []*Tried
	for _, setting := range s.o.design(s.o.first()) {
		left = append(left, s.tried(setting))
	}
	// Half of an interval is not known of one seed, and is wide of two: until a
	// setting has all of its own it has to hold the target by that of the default.
	// More than half of the misses that the target allows says that the default is
	// overloaded, and nothing of others.
	slack := math.Min(over(first.Figures, attainment).Half, (1-s.o.Target)/2)
	for i, r := range rungs(len(left), s.o.Seeds) {
		if i > 0 {
			left = s.ranked(left, slack)[:min(r.settings, len(left))]
		}
		if err := s.replay(left, r.seeds); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// back puts one parameter after the other back to its default, where that is as
// good, and still better than the default settings.
func (s *search) back(best, first *Tried) (*Tried, error) {
	for i, p := range s.o.Parameters {
		if best.Setting[i] == p.Default {
			continue
		}
		setting := slices.Clone(best.Setting)
		setting[i] = p.Default
		if !s.o.valid(setting) || s.lacks(setting) > s.o.Budget-s.out.Trials {
			continue
		}
		t := s.tried(setting)
		if err := s.replay([]*Tried{t}, s.o.Seeds); err != nil {
			return best, err
		}
		if t != first && Compare(t.Figures, first.Figures, s.o.Target).Better && !Compare(best.Figures, t.Figures, s.o.Target).Better {
			best, s.out.Back = t, append(s.out.Back, i)
		}
	}
	return best, nil
}

// lacks is the trials that a setting would take.
func (s *search) lacks(setting Setting) int {
	if t, ok := s.known[setting.key()]; ok {
		return s.o.Seeds - t.known()
	}
	return s.o.Seeds
}

// tried is a setting's entry.
func (s *search) tried(setting Setting) *Tried {
	key := setting.key()
	t, ok := s.known[key]
	if !ok {
		t = &Tried{setting, make([]Figures, s.o.Seeds)}
		s.known[key] = t
		s.order = append(s.order, t)
	}
	return t
}

// replay makes the figures of some settings known up to a number of seeds.
func (s *search) replay(settings []*Tried, seeds int) error {
	var batch []Trial
	var places []*Figures
	for seed := range seeds {
		for _, t := range settings {
			if !t.Figures[seed].Known {
				batch, places = append(batch, Trial{t.Setting, seed}), append(places, &t.Figures[seed])
			}
		}
	}
	if len(batch) == 0 {
		return nil
	}
	figures, err := s.run(batch)
	if len(figures) != len(batch) && err == nil {
		return fmt.Errorf("%d trials gave %d figures", len(batch), len(figures))
	}
	for i, f := range figures[:min(len(figures), len(batch))] {
		*places[i] = f
		s.out.Trials += boolInt(f.Known)
		if !f.Known && err == nil {
			return fmt.Errorf("a trial of %v with seed %d gave nothing", batch[i].Setting, batch[i].Seed)
		}
	}
	return err
}

// ranked is settings in the order of their figures, best first. Those whose interval
// is to count have no slack; with slack the target is held where a mean less that is.
func (s *search) ranked(all []*Tried, slack float64) []*Tried {
	type rank struct {
		t          *Tried
		holds      bool
		cost, miss float64
		away       float64
	}
	ranks := make([]rank, len(all))
	for i, t := range all {
		a := over(t.Figures, attainment)
		if slack > 0 || math.IsInf(a.Half, 1) {
			a.Half = slack
		}
		ranks[i] = rank{t, a.Mean-a.Half >= s.o.Target, over(t.Figures, cost).Mean, 1 - a.Mean, s.o.away(t.Setting)}
	}
	slices.SortStableFunc(ranks, func(a, b rank) int {
		switch {
		case a.holds != b.holds:
			return boolInt(b.holds) - boolInt(a.holds)
		case a.holds:
			return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.miss, b.miss), cmp.Compare(a.away, b.away))
		default:
			return cmp.Or(cmp.Compare(a.miss, b.miss), cmp.Compare(a.cost, b.cost), cmp.Compare(a.away, b.away))
		}
	})
	out := make([]*Tried, len(ranks))
	for i, r := range ranks {
		out[i] = r.t
	}
	return out
}

// leader is the best of those with the most seeds when the search was ended, by the
// means; the default where its own are not known.
func (s *search) leader() *Tried {
	first := s.order[0]
	if first.known() == 0 {
		return first
	}
	most := 0
	for _, t := range s.order[1:] {
		most = max(most, t.known())
	}
	ahead := []*Tried{first}
	for _, t := range s.order[1:] {
		if most > 0 && t.known() == most {
			ahead = append(ahead, t)
		}
	}
	return s.ranked(ahead, over(first.Figures, attainment).finite())[0]
}

// finite is half of the interval, 0 where it is not known.
func (i Interval) finite() float64 {
	if math.IsInf(i.Half, 1) {
		return 0
	}
	return i.Half
}

// key is the same of the same settings alone.
func (s Setting) key() string {
	b := make([]byte, 0, 8*len(s))
	for _, v := range s {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v))
	}
	return string(b)
}
