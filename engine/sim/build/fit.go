package build

import (
	"errors"
	"os"

	"plimsoll/engine/field"
	"plimsoll/engine/latency"
)

// LoadFit gives the latency model's coefficients that a field names: a
// shipped fit, or a file that plimsoll calibrate wrote. Empty = the default.
func LoadFit(of, name string) (latency.Fit, error) {
	if name == "" {
		return latency.DefaultFit(), nil
	}
	f, unknown := latency.FitByName(name)
	if unknown == nil {
		return f, nil
	}
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return f, field.Errorf("%s: %v", of, unknown).Hint("or the file that plimsoll calibrate wrote; there is none of that name")
	}
	if err == nil {
		f, err = latency.ParseFit(b)
	}
	if err != nil {
		return f, field.Errorf("%s %s: %v", of, name, err)
	}
	return f, nil
}
