package engine

import "testing"

func TestFactors(t *testing.T) {
	for _, c := range []struct {
		ttft, itl float64
		want      Factors
		known     bool
		words     string
	}{
		{1.5, 1.25, Factors{1.5, 1.25}, true, "prompts are 1.50 and decode steps 1.25 times"},
		{1.5, 1.501, Factors{1.5, 1.501}, true, "steps are 1.50 times"},
		{1, 2, Factors{1, 2}, true, "prompts are 1.00 and decode steps 2.00 times"},
		{0, 2, Factors{2, 2}, true, "steps are 2.00 times"},
		{2, 0, Factors{2, 2}, true, "steps are 2.00 times"},
		{0, 0, Factors{}, false, "steps are 0.00 times"},
	} {
		f := FactorsOf(c.ttft, c.itl)
		if f != c.want || f.Known() != c.known || f.Words() != c.words {
			t.Errorf("%g, %g: %+v, known %v, %q", c.ttft, c.itl, f, f.Known(), f.Words())
		}
		if back := f.Inverse().Inverse(); c.known && back != f {
			t.Errorf("%+v inverted twice is %+v", f, back)
		}
	}
}
