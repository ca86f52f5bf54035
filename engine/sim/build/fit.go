package build

import (
	"errors"
	"os"

	"plimsoll/engine/field"
	"plimsoll/engine/latency"
)

// LoadFit gives the latency model's fit that a field names: that of an engine, with its
// version or without, or a file that plimsoll calibrate wrote. Empty = the default.
func LoadFit(of, name string) (latency.Fit, error) {
	if name == "" {
		return latency.DefaultFit(), nil
	}
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		f, unknown := latency.FitByName(name)
		if unknown != nil {
			return f, field.Errorf("%s: %v", of, unknown).Hint("an engine with its version, such as sglang or vllm-0.19, or an existing file of plimsoll calibrate")
		}
		return f, nil
	}
	var f latency.Fit
	if err == nil {
		f, err = latency.ParseFit(b)
	}
	if err != nil {
		return f, field.Errorf("%s %s: %v", of, name, err)
	}
	return f, nil
}
