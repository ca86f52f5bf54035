package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"plimsoll/engine/latency"
	"plimsoll/profile"
)

// loadFit gives the latency model's coefficients that --fit (or --prior) names:
// a shipped fit, or a file that plimsoll calibrate wrote. Empty = the default.
func loadFit(flag, name string) (latency.Fit, error) {
	if name == "" {
		return latency.DefaultFit(), nil
	}
	f, unknown := latency.FitByName(name)
	if unknown == nil {
		return f, nil
	}
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return f, usagef("--%s: %v", flag, unknown).hint("or the file that plimsoll calibrate wrote; there is none of that name")
	}
	if err == nil {
		f, err = parseFit(b)
	}
	if err != nil {
		return f, usagef("--%s %s: %v", flag, name, err)
	}
	return f, nil
}

// parseFit reads what plimsoll calibrate writes.
func parseFit(b []byte) (latency.Fit, error) {
	var f latency.Fit
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("not a calibration: %w", err)
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
	for _, h := range []latency.Held{{TTFT: f.TTFT, TPOT: f.TPOT}, f.OtherTP, f.OtherModel, f.OtherGPU, f.OtherVersion, f.SixPoints} {
		if err := errors.Join(checkError(h.TTFT), checkError(h.TPOT)); err != nil {
			return f, fmt.Errorf("not a calibration: %w", err)
		}
	}
	return f, nil
}

// checkError refuses an error that no fit has.
func checkError(e latency.Error) error {
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

// modelError is a latency model's error as points and files carry it.
func modelError(e latency.Error) profile.ModelError {
	return profile.ModelError{Median: e.Median, P90: e.P90, Factor50: e.Factor50, Factor90: e.Factor90, N: e.N, Basis: e.Basis}
}

// worth says in a line how far off a latency model's numbers may be.
func worth(m latency.Model) string {
	return fmt.Sprintf("latency model's fit %s: TTFT %s, ITL %s",
		m.Fit().Name, shownError(modelError(m.TTFTError())), shownError(modelError(m.ITLError())))
}

// shownError is an error in one phrase: "within a factor of 1.12 in nine of ten
// comparisons (median error 5 %; basis)".
func shownError(e profile.ModelError) string {
	if !e.Known() {
		return "not known"
	}
	parts := []string{fmt.Sprintf("median error %.2g %% on %d points", 100*e.Median, e.N)}
	if e.Basis != "" {
		parts = append(parts, e.Basis)
	}
	return fmt.Sprintf("within a factor of %.2f in nine of ten comparisons (%s)", e.Factor90, strings.Join(parts, "; "))
}

// fitWarnings says where a fit has no row of the GPU, or none so long: the errors
// that it states are those on others.
func fitWarnings(f latency.Fit, gpu string, isl, osl int) []profile.Warning {
	var out []profile.Warning
	var names []string
	for _, r := range f.Rows {
		if !slices.Contains(names, r.GPU) {
			names = append(names, r.GPU)
		}
	}
	if len(names) > 0 && !slices.Contains(names, gpu) {
		out = append(out, profile.Warnf("fit_gpu",
			"no row behind the fit %s was measured on %s: its errors are those on other GPUs (%s), and this one may be further off; plimsoll calibrate on a few of its own points says more",
			f.Name, gpu, strings.Join(names, ", ")))
	}
	for _, c := range f.Caveats {
		out = append(out, profile.Warnf("fit_caveat", "fit %s: %s", f.Name, c))
	}
	if longest := isl + osl; f.Longest > 0 && longest > f.Longest {
		out = append(out, profile.Warnf("fit_length",
			"sequences of up to %d tokens are longer than any row behind the fit %s (%d tokens): its errors are those on shorter ones, and these may be further off", longest, f.Name, f.Longest))
	} else if f.LongestTTFT > 0 && isl > f.LongestTTFT {
		out = append(out, profile.Warnf("fit_length",
			"no TTFT behind the fit %s is of a prompt longer than %d tokens: its error is that on shorter ones than %d, and these may be further off", f.Name, f.LongestTTFT, isl))
	}
	return out
}
