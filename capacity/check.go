package capacity

import (
	"fmt"
	"math"
)

// within says that a field is outside lo to hi, both included; so is NaN.
func within(field string, v, lo, hi float64) error {
	if v >= lo && v <= hi {
		return nil
	}
	return fmt.Errorf("%s is %v: want %.10g to %.10g", field, v, lo, hi)
}

// ceil is the next whole number, after rounding to 1e-9: 0.7·3 is not 3 groups
// because its last bit says 2.1000000000000001.
func ceil(x float64) float64 {
	if math.Abs(x) > 1e6 { // x·1e9 has no such digits left to round
		return math.Ceil(x)
	}
	return math.Ceil(math.Round(x*1e9) / 1e9)
}
