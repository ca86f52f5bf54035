package load

import (
	"errors"
	"fmt"

	"plimsoll/profile"
)

// Bounds of a Workload, far beyond any use: they keep arithmetic and memory in
// range. MaxTokens is of one request, MaxRequests of one call.
const (
	MaxTokens   = 1 << 24
	MaxRequests = 10_000_000
)

// Validate says all that is wrong with w, naming each field.
func Validate(w profile.Workload) error {
	var errs []error
	within := func(name string, v, most int) {
		if v < 1 || v > most {
			errs = append(errs, fmt.Errorf("%s %d is out of range: want 1 to %d", name, v, most))
		}
	}
	within("isl", w.ISL, MaxTokens)
	within("osl", w.OSL, MaxTokens)
	within("requests", w.Requests, MaxRequests)
	within("in-flight", w.InFlight, MaxRequests)
	if w.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v is negative", w.Timeout))
	}
	return errors.Join(errs...)
}
