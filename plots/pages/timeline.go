package pages

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"plimsoll/plots"
)

// Timeline is how something did over time, as a picture of plots has it: panels
// over bins of equal width, the first of which begins at Start.
type Timeline struct {
	Start  time.Duration
	Width  time.Duration
	Panels []plots.Panel
}

func (t Timeline) check(of string) error {
	if t.Start < 0 || t.Width <= 0 {
		return fmt.Errorf("%s: bins of %v from %v on: want a width above 0 and a start of at least 0", of, t.Width, t.Start)
	}
	var errs []error
	bins := t.bins()
	for _, p := range t.Panels {
		for _, l := range p.Limits {
			errs = append(errs, Figure{Mean: l.Value}.check(of+": "+p.Title+": "+l.Name))
		}
		for _, l := range p.Lines {
			if len(l.Values) != bins {
				errs = append(errs, fmt.Errorf("%s: %s: %q has %d values: want %d, as others have", of, p.Title, l.Name, len(l.Values), bins))
			}
			for i, v := range l.Values {
				if math.IsInf(v, 0) {
					errs = append(errs, fmt.Errorf("%s: %s: %q is %v in bin %d: want a finite number, or NaN for none", of, p.Title, l.Name, v, i))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// bins is the number of values of the longest line.
func (t Timeline) bins() int {
	n := 0
	for _, p := range t.Panels {
		for _, l := range p.Lines {
			n = max(n, len(l.Values))
		}
	}
	return n
}

// timelineData is a Timeline for the page's script; times in seconds.
type timelineData struct {
	Start  float64     `json:"start"`
	Width  float64     `json:"width"`
	Bins   int         `json:"bins"`
	Panels []panelData `json:"panels"`
}

type panelData struct {
	Title  string      `json:"title"`
	Unit   string      `json:"unit"`
	Lines  []lineData  `json:"lines"`
	Limits []limitData `json:"limits"`
}

type lineData struct {
	Name   string   `json:"name"`
	Step   bool     `json:"step"`
	Filled bool     `json:"filled"`
	Values []sample `json:"values"`
}

type limitData struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// sample is a value with the six digits that a page can show; none is null.
type sample float64

// MarshalJSON writes it.
func (s sample) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(s)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(s), 'g', 6, 64), nil
}

func (t Timeline) data() timelineData {
	d := timelineData{Start: t.Start.Seconds(), Width: t.Width.Seconds(), Bins: t.bins()}
	for _, p := range t.Panels {
		x := panelData{Title: p.Title, Unit: p.Unit, Limits: []limitData{}}
		for _, l := range p.Lines {
			line := lineData{Name: l.Name, Step: l.Step, Filled: l.Filled, Values: make([]sample, len(l.Values))}
			for i, v := range l.Values {
				line.Values[i] = sample(v)
			}
			x.Lines = append(x.Lines, line)
		}
		for _, l := range p.Limits {
			x.Limits = append(x.Limits, limitData(l))
		}
		d.Panels = append(d.Panels, x)
	}
	return d
}
