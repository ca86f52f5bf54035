package main

import (
	"fmt"

	"plimsoll/engine/latency"
)

// covered is how many held-out measurements lie within the factors that a Model
// states for them.
type covered struct {
	what        string
	n           int
	half, nine  int     // within Factor50 and Factor90
	least, most float64 // stated Factor90
}

// coverage checks the stated factors on rows that are unlike the fit's in more
// than one way: another model and TP at once, and engines of which it has no row.
func coverage(rows []row, results []result) ([]covered, error) {
	var out []covered
	for _, r := range results {
		c := covered{what: fmt.Sprintf("`%s`, another model at another TP", r.fit.Name)}
		if err := c.pairs(r); err != nil {
			return nil, err
		}
		if c.n > 0 {
			out = append(out, c)
		}
	}
	for _, name := range []string{"trtllm-1.0.0rc3", "vllm-2023", "h200-npz"} {
		c := covered{what: fmt.Sprintf("`%s` on `%s`", results[0].fit.Name, name)}
		if err := c.add(results[0].fit, observations(rows, name)); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// pairs predicts what one model has at one TP from rows of neither.
func (c *covered) pairs(r result) error {
	for _, pair := range r.fit.Rows {
		in, _ := split(r.obs, func(o latency.Observation) bool {
			return o.Model.Name == pair.Model && o.Config.Parallelism.TP == pair.TP && o.GPU.Name == pair.GPU
		})
		_, others := split(r.obs, func(o latency.Observation) bool {
			return o.Model.Name == pair.Model || o.Config.Parallelism.TP == pair.TP
		})
		if len(others) == 0 {
			continue
		}
		f := r.fit
		var err error
		if f.Coefficients, err = latency.Estimate(r.from, others); err != nil {
			return err
		}
		f.Version = "this" // its version is that of the rows
		f = f.On(others)
		if err := c.add(f, in); err != nil {
			return err
		}
	}
	return nil
}

func (c *covered) add(f latency.Fit, obs []latency.Observation) error {
	for _, o := range obs {
		m, err := latency.NewWith(o.Model, o.GPU, o.Config, f)
		if err != nil {
			return err
		}
		stated := m.ITLError()
		if o.Kind.TTFT() {
			stated = m.TTFTError()
		}
		factor := m.Predict(o) / o.Seconds
		if factor = max(factor, 1/factor); factor <= stated.Factor50 {
			c.half++
		}
		if factor <= stated.Factor90 {
			c.nine++
		}
		if c.n++; c.least == 0 || stated.Factor90 < c.least {
			c.least = stated.Factor90
		}
		c.most = max(c.most, stated.Factor90)
	}
	return nil
}

func (p *page) coverage(all []covered) {
	p.line("\n## Do the stated factors hold?\n\nMeasurements that were held out within the factor that a Model states for half and for nine of ten of them, on rows unlike the fit's in more than one way: there the errors of each are taken to add as variances do.")
	p.table("fit, rows", "points", "stated for nine of ten", "within the factor for half", "within that for nine of ten")
	for _, c := range all {
		share := func(n int) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(c.n)) }
		p.row(c.what, fmt.Sprint(c.n), fmt.Sprintf("%.2f to %.2f", c.least, c.most), share(c.half), share(c.nine))
	}
}
