package latency

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"plimsoll/engine"
)

// ParseFit reads what plimsoll calibrate writes.
func ParseFit(b []byte) (Fit, error) {
	var f Fit
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("not a calibration: %w", engine.PlainJSON("the file", err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return f, errors.New("not a calibration: more than one JSON value")
	}
	if f.Name == "" {
		return f, errors.New("not a calibration: it has no name")
	}
	if err := f.Coefficients.Check(); err != nil {
		return f, fmt.Errorf("not a calibration: %w", err)
	}
	held := []Held{f.Dense, f.Experts, f.DenseVersion, f.ExpertsVersion, f.NoKernels, f.SixPoints}
	for _, g := range f.Groups {
		if err := g.Coefficients.Check(); err != nil {
			return f, fmt.Errorf("not a calibration: %s: %w", g.Model, err)
		}
		held = append(held, g.Held)
	}
	for _, h := range held {
		if err := errors.Join(checkError(h.TTFT), checkError(h.TPOT), checkError(h.Closed)); err != nil {
			return f, fmt.Errorf("not a calibration: %w", err)
		}
	}
	return f, nil
}

// checkError refuses an error that no fit has.
func checkError(e Error) error {
	const most = 1e6 // times what was measured
	for _, x := range []float64{e.Median, e.Mean, e.P90, float64(e.N)} {
		if x < 0 || x > most {
			return fmt.Errorf("an error of %g: want 0 to %g", x, most)
		}
	}
	for _, x := range []float64{e.Factor50, e.Factor90} {
		if e.N > 0 && (x < 1 || x > most) {
			return fmt.Errorf("an error by a factor of %g: want 1 to %g", x, most)
		}
	}
	return nil
}
