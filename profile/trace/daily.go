package trace

import (
	"fmt"
	"time"
)

// A Pattern names how load moves over a day of 24 hours that starts at
// midnight. Every pattern has mean 1 over the day.
//
// They are assumptions for planning without a trace, not measurements:
//
//	hour               0     1     2     3     4     5     6     7     8     9    10    11
//	flat           1.000 1.000 1.000 1.000 1.000 1.000 1.000 1.000 1.000 1.000 1.000 1.000
//	business_hours 0.200 0.200 0.200 0.200 0.200 0.200 0.400 0.800 1.400 1.900 2.100 2.100
//	global         0.745 0.860 1.020 1.095 1.040 0.965 0.915 1.145 1.370 1.510 1.520 1.380
//
//	hour              12    13    14    15    16    17    18    19    20    21    22    23
//	flat           1.000 1.000 1.000 1.000 1.000 1.000 1.000 1.000 1.000 1.000 1.000 1.000
//	business_hours 1.800 2.000 2.100 2.000 1.800 1.400 0.900 0.600 0.500 0.500 0.300 0.200
//	global         1.085 1.060 1.065 1.025 0.925 0.830 0.780 0.785 0.795 0.795 0.640 0.650
//
// business_hours is one time zone at work: a night at a fifth of the mean, a
// plateau of twice the mean from 9 to 17 with a dip at noon. global is 40 % of
// such users here, 35 % six hours ahead and 25 % fourteen hours ahead. Within
// an hour the rate is constant.
type Pattern string

// The patterns of a day.
const (
	Flat          Pattern = "flat"
	BusinessHours Pattern = "business_hours"
	Global        Pattern = "global"
)

// Hours are the 24 rates of a day, as multiples of its mean.
func (p Pattern) Hours() ([24]float64, error) {
	business := [24]float64{
		0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.4, 0.8, 1.4, 1.9, 2.1, 2.1,
		1.8, 2.0, 2.1, 2.0, 1.8, 1.4, 0.9, 0.6, 0.5, 0.5, 0.3, 0.2,
	}
	var hours [24]float64
	for h := range hours {
		switch p {
		case Flat:
			hours[h] = 1
		case BusinessHours:
			hours[h] = business[h]
		case Global:
			hours[h] = 0.40*business[h] + 0.35*business[(h+6)%24] + 0.25*business[(h+14)%24]
		default:
			return hours, fmt.Errorf("pattern %q is unknown: want %s, %s or %s", p, Flat, BusinessHours, Global)
		}
	}
	return hours, nil
}

// Daily is the rate that follows a pattern day after day around a mean, in
// requests per second.
func Daily(p Pattern, mean float64) (Steps, error) {
	hours, err := p.Hours()
	if err != nil {
		return Steps{}, err
	}
	steps := make([]Step, len(hours))
	for h, factor := range hours {
		steps[h] = Step{time.Hour, mean * factor}
	}
	return NewSteps(true, steps...)
}
