package engine

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Count is a number and what it counts: "1 GPU", "2 GPUs", "1,568 requests".
func Count[N int | int64](n N, word string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(word, "ch"):
		word += "es"
	default:
		word += "s"
	}
	return Number(float64(n)) + " " + word
}

// Number is a number as people read it: from 100 a whole one, with a comma every three
// digits; below with four digits at most.
func Number(x float64) string {
	if !(math.Abs(x) >= 100) || math.IsInf(x, 0) {
		return fmt.Sprintf("%.4g", x)
	}
	d := strconv.FormatFloat(math.Abs(x), 'f', 0, 64)
	for i := len(d) - 3; i > 0; i -= 3 {
		d = d[:i] + "," + d[i:]
	}
	if x < 0 {
		return "-" + d
	}
	return d
}
