package tune

import (
	"math"
	"testing"
)

func figures(pairs ...[2]float64) []Figures {
	out := make([]Figures, len(pairs))
	for i, p := range pairs {
		out[i] = Figures{Known: true, Attainment: p[0], Cost: p[1]}
	}
	return out
}

// Figures are [attainment, cost] of three seeds each.
func TestCompare(t *testing.T) {
	held := figures([2]float64{0.995, 10}, [2]float64{0.996, 11}, [2]float64{0.995, 12})
	missed := figures([2]float64{0.95, 10}, [2]float64{0.96, 11}, [2]float64{0.95, 12})
	for _, x := range []struct {
		name       string
		one, other []Figures
		better     bool
	}{
		{"itself", held, held, false},
		{"less by the same with each seed", figures([2]float64{0.995, 9.9}, [2]float64{0.996, 10.9}, [2]float64{0.995, 11.9}), held, true},
		{"less on average only", figures([2]float64{0.995, 12}, [2]float64{0.996, 9}, [2]float64{0.995, 10}), held, false},
		{"more attained, no less paid", figures([2]float64{0.999, 10}, [2]float64{0.999, 11}, [2]float64{0.999, 12}), held, false},
		{"it holds, the other does not, and it costs more", figures([2]float64{0.999, 20}, [2]float64{0.999, 21}, [2]float64{0.999, 22}), missed, true},
		{"it does not hold, and costs nothing", figures([2]float64{0.95, 0}, [2]float64{0.96, 0}, [2]float64{0.95, 0}), held, false},
		{"neither holds, it attains more", figures([2]float64{0.96, 20}, [2]float64{0.97, 20}, [2]float64{0.96, 20}), missed, true},
		{"neither holds, it costs less", figures([2]float64{0.95, 1}, [2]float64{0.96, 1}, [2]float64{0.95, 1}), missed, false},
		{"holds by the mean alone", figures([2]float64{1, 1}, [2]float64{0.985, 1}, [2]float64{1, 1}), held, false},
		{"one seed says nothing", held[:1], missed[:1], false},
		{"seeds that one lacks are left out", append([]Figures{{}}, figures([2]float64{0.996, 9}, [2]float64{0.996, 10})...), held, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			if c := Compare(x.one, x.other, 0.99); c.Better != x.better {
				t.Errorf("%+v", c)
			}
		})
	}
}

// The interval is Student's: 12.706 standard errors of two values, 4.303 of three
// (97.5 % points of any table).
func TestInterval(t *testing.T) {
	for _, x := range []struct {
		values     []float64
		mean, half float64
	}{
		{[]float64{1, 3}, 2, 12.7062},
		{[]float64{1, 2, 3}, 2, 4.30265 / math.Sqrt(3)},
		{[]float64{5}, 5, math.Inf(1)},
	} {
		if i := intervalOf(x.values); math.Abs(i.Mean-x.mean) > 1e-12 || i.Half != x.half && math.Abs(i.Half-x.half) > 1e-4 {
			t.Errorf("%v: %+v, want %v ± %v", x.values, i, x.mean, x.half)
		}
	}
}

// Values are multiples of the step as people write them, within the range, and every
// part of the range is reached.
func TestParameterValues(t *testing.T) {
	p := Parameter{Low: 0.05, High: 5, Step: 0.1}
	if got := p.at(0.051); got != 0.3 {
		t.Errorf("%v, want 0.3", got)
	}
	if a, b := p.at(0), p.at(0.9999); a != 0.05 && a != 0.1 || b != 5 {
		t.Errorf("the ends are %v and %v", a, b)
	}
	orders := Parameter{Low: 0.01, High: 100, Step: 0.001, Log: true}
	if got := orders.at(0.5); got != 1 {
		t.Errorf("half-way over four orders is %v, want 1", got)
	}
	words := Parameter{Choices: 3}
	if a, b, c := words.at(0), words.at(0.34), words.at(0.9999); a != 0 || b != 1 || c != 2 {
		t.Errorf("%v %v %v", a, b, c)
	}
}

// Points of a design are all different, and fill the range.
func TestDesign(t *testing.T) {
	o := unit(2)
	o.Parameters[0].Step, o.Parameters[1].Step = 0.001, 0.001
	points := o.design(64)
	if len(points) != 64 {
		t.Fatalf("%d points", len(points))
	}
	cells := map[[2]int]int{}
	for _, s := range points {
		cells[[2]int{int(s[0] * 3.999), int(s[1] * 3.999)}]++
	}
	if len(cells) != 16 {
		t.Errorf("64 points are in %d of 16 cells: %v", len(cells), cells)
	}
	o = unit(1)
	o.Parameters[0] = Parameter{Name: "word", Choices: 3}
	if got := o.design(64); len(got) != 2 {
		t.Errorf("three words, one the default, gave %v", got)
	}
}
