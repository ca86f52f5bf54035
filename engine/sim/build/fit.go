package build

import (
	"errors"
	"os"
	"regexp"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
)

// engineVersion is an engine, and its version where it is said: trtllm, vllm-0.19.1.
var engineVersion = regexp.MustCompile(`^(vllm|sglang|trtllm)(?:-v?([0-9]+(?:\.[0-9]+)*(?:\.?(?:rc|post|dev)[0-9]+)*))?$`)

// LoadFit gives the latency model's coefficients that a field names: a shipped fit, a
// file that plimsoll calibrate wrote, or an engine, whose nearest fit is taken. Empty =
// the default.
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
		if named := engineVersion.FindStringSubmatch(strings.ToLower(name)); named != nil {
			return latency.FitFor(engine.Kind(named[1]), named[2]), nil
		}
		return f, field.Errorf("%s: %v", of, unknown).Hint("an engine with its version, such as sglang or vllm-0.19, or an existing file of plimsoll calibrate")
	}
	if err == nil {
		f, err = latency.ParseFit(b)
	}
	if err != nil {
		return f, field.Errorf("%s %s: %v", of, name, err)
	}
	return f, nil
}
