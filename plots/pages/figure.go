package pages

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Figure is a mean over seeds, and half of its 95 % interval; nil of one seed.
type Figure struct {
	Mean float64  `json:"mean"`
	Half *float64 `json:"half,omitempty"`
}

// check refuses what no page can show.
func (f Figure) check(what string) error {
	var errs []error
	for _, v := range []struct {
		part  string
		value *float64
	}{{"", &f.Mean}, {"'s interval", f.Half}} {
		if v.value != nil && (math.IsNaN(*v.value) || math.IsInf(*v.value, 0)) {
			errs = append(errs, fmt.Errorf("%s%s is %v: want a finite number", what, v.part, *v.value))
		}
	}
	return errors.Join(errs...)
}

// times is the figure in another unit.
func (f Figure) times(k float64) Figure {
	f.Mean *= k
	if f.Half != nil {
		h := *f.Half * k
		f.Half = &h
	}
	return f
}

// text is the figure with four significant digits, its interval with two of which
// none is finer than the mean's.
func (f Figure) text() string { return f.within(number(f.Mean), decimals(f.Mean, 4)) }

// fixed is the figure with so many decimals.
func (f Figure) fixed(n int) string {
	return f.within(apart(strconv.FormatFloat(f.Mean, 'f', n, 64)), n)
}

func (f Figure) within(mean string, finest int) string {
	if f.Half == nil {
		return mean
	}
	n := min(finest, decimals(*f.Half, 2))
	return mean + " ± " + apart(trimmed(strconv.FormatFloat(*f.Half, 'f', n, 64)))
}

// number has four significant digits, whole numbers all of theirs, and thousands
// apart. The page's script has the same rules (format.js).
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e15:
		return apart(strconv.FormatFloat(v, 'f', 0, 64))
	case a < 1e-4 || a >= 1e15:
		return strings.Replace(strconv.FormatFloat(v, 'e', 3, 64), "-", "−", 1)
	default:
		return apart(trimmed(strconv.FormatFloat(v, 'f', decimals(v, 4), 64)))
	}
}

// decimals are those that so many significant digits of v have.
func decimals(v float64, digits int) int {
	if v == 0 {
		return 0
	}
	return min(12, max(0, digits-1-int(math.Floor(math.Log10(math.Abs(v))))))
}

// trimmed is s without zeros that say nothing.
func trimmed(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// apart puts thousands apart, and a true minus before them.
func apart(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		s, sign = s[1:], "−"
	}
	whole, frac, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if frac != "" {
		frac = "." + frac
	}
	return sign + whole + frac
}
