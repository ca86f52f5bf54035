package plots

import (
	"math"
	"strconv"
	"strings"
)

// tick is a place on an axis; without text it is a minor one.
type tick struct {
	at   float64
	text string
}

// linearTicks are about n multiples of a round step in [lo, hi].
func linearTicks(lo, hi float64, n int) []tick {
	return stepTicks(lo, hi, niceStep((hi-lo)/float64(n)))
}

// stepTicks are the multiples of step in [lo, hi], of which there are few.
func stepTicks(lo, hi, step float64) []tick {
	const most = 40
	decimals := 0
	for scaled := step; decimals < 12 && math.Abs(scaled-math.Round(scaled)) > 1e-6; scaled *= 10 {
		decimals++
	}
	var ts []tick
	for k := math.Ceil(lo/step - 1e-9); k*step <= hi+1e-9*step && len(ts) < most; k++ {
		v := k*step + 0 // never −0
		ts = append(ts, tick{v, plain(v, decimals)})
	}
	return ts
}

// niceStep is the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least x > 0.
func niceStep(x float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*base >= x*(1-1e-9) {
			return m * base
		}
	}
	return 10 * base
}

// logTicks are powers of ten in [lo, hi], with text at every so many that at
// most about eight have it; over few decades 2 and 5 have text too.
func logTicks(lo, hi float64) []tick {
	first, last := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	span := math.Log10(hi / lo)
	every := max(1, int(math.Ceil(span/8)))
	var ts []tick
	for e := first; e <= last; e++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow(10, float64(e))
			if v < lo*(1-1e-9) || v > hi*(1+1e-9) {
				continue
			}
			major := m == 1 && (e-first)%every == 0 || span <= 3.2 && (m == 2 || m == 5)
			switch {
			case major:
				ts = append(ts, tick{v, number(v)})
			case every == 1:
				ts = append(ts, tick{at: v})
			}
		}
	}
	return ts
}

// number prints v with up to four significant digits, and thousands apart.
func number(v float64) string {
	if a := math.Abs(v); v != 0 && (a < 1e-4 || a >= 1e7) {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	digits := 4 - 1 - int(math.Floor(math.Log10(max(math.Abs(v), 1e-4))))
	s := plain(v, max(0, digits))
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// plain prints v with so many decimals, and thousands apart.
func plain(v float64, decimals int) string {
	if a := math.Abs(v); v != 0 && (a >= 1e7 || decimals > 6) {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	whole, frac, _ := strings.Cut(strconv.FormatFloat(v, 'f', decimals, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if frac == "" {
		return whole
	}
	return whole + "." + frac
}
