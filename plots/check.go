package plots

import (
	"errors"
	"fmt"
)

// errNotANumber is under every refusal of a value.
var errNotANumber = errors.New("not a number that can be drawn")

// largest is the largest number that is drawn: beyond it, no unit in use here
// has a meaning, and the arithmetic of axes would lose its digits.
const largest = 1e15

// drawable refuses what would spoil an axis.
func drawable(series, what string, v float64) error {
	if !finite(v) || v < 0 || v > largest {
		return fmt.Errorf("series %q: %s is %v: %w: want 0 to %g", series, what, v, errNotANumber, largest)
	}
	return nil
}
