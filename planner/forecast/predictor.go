package forecast

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Predictor predicts one series. Make one with New.
type Predictor struct {
	options Options
	window  gapped // newest last; begins with the first value above 0
	zeros   bool   // only zeros were observed until now
	refused int
	stale   int    // gaps since the last value
	errors  gapped // of the forecasts one step ahead: value − forecast, newest last, over root(1 + stale)
	model   model
}

// New is a predictor that has observed nothing. It fails where o.Check does.
func New(o Options) (*Predictor, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &Predictor{options: o, model: newModel(o.Kind, o)}, nil
}

// Observe adds the value of the interval just ended, 0 to MaxValue. NaN is a gap:
// time goes on, and nothing is learned. What is out of range is a gap too, and
// counted as Refused. Zeros before the first value above 0 are no part of the
// series: a deployment that nobody has called yet says nothing of its traffic.
func (p *Predictor) Observe(value float64) {
	if value < 0 || value > MaxValue {
		p.refused++
		value = math.NaN()
	}
	if len(p.window) == 0 && !(value > 0) {
		p.zeros = p.zeros || value == 0
		return
	}
	if len(p.window) > 0 {
		p.score(value)
	}
	p.window = push(p.window, value, p.options.Window)
	p.model.observe(p.window)
}

// score takes the error of the forecast of value, which was missed by as much
// more as there were gaps before it.
func (p *Predictor) score(value float64) {
	if math.IsNaN(value) {
		p.stale++
		return
	}
	expected, _ := p.model.forecast(1)
	p.errors = push(p.errors, (value-expected)/p.aging(), p.options.Window)
	p.stale = 0
}

// aging is how an error grows with gaps: as a random walk's.
func (p *Predictor) aging() float64 { return math.Sqrt(1 + float64(p.stale)) }

// Forecast is what is expected steps intervals ahead (1 is the next; less is
// taken as 1, more than maxSteps as maxSteps), and the standard deviation of its
// error. The latter is the root mean square of the latest errors one step ahead,
// as many as the window has intervals, grown as the model's grows with steps and
// with the root of the intervals since the last value; it is 0 while there are none
// (Scored). Neither is ever negative nor NaN; both are 0 before anything was
// observed.
func (p *Predictor) Forecast(steps int) (value, sd float64) {
	if len(p.window) == 0 {
		return 0, 0
	}
	value, growth := p.model.forecast(within(steps))
	return value, growth * p.aging() * rootMeanSquare(p.errors)
}

// Quantile is the value that the series stays at or below with probability prob
// (0 to 1, else taken as the nearer of them) steps intervals ahead: the forecast
// and the quantile of its latest errors. Of n errors it takes the one of rank
// ⌈(n+1)·prob⌉, which covers prob exactly where errors are exchangeable (split
// conformal prediction; Lei et al., JASA 113, 2018, section 2.2); where n is too
// small to have that rank, the normal quantile or the largest error, whichever
// is more.
func (p *Predictor) Quantile(steps int, prob float64) float64 {
	if len(p.window) == 0 {
		return 0
	}
	value, growth := p.model.forecast(within(steps))
	return max(0, value+growth*p.aging()*quantile(p.errors, prob))
}

// Observed says whether any value was: without, a forecast of 0 says nothing.
func (p *Predictor) Observed() bool { return p.zeros || len(p.window) > 0 }

// Scored is how many errors the spread comes from.
func (p *Predictor) Scored() int { return len(p.errors) }

// Refused is how many values were out of range.
func (p *Predictor) Refused() int { return p.refused }

// Used is what the next forecast is made by: Constant where there is too little
// to go by, and what has the most weight in Auto's.
func (p *Predictor) Used() Kind {
	switch m := p.model.(type) {
	case *auto:
		return m.used()
	case *guarded:
		if !m.ready() {
			return Constant
		}
	}
	return p.options.Kind
}

func within(steps int) int { return min(max(1, steps), maxSteps) }

// state is what Save writes.
type state struct {
	Options Options         `json:"options"`
	Window  gapped          `json:"window"`
	Zeros   bool            `json:"zeros"`
	Refused int             `json:"refused"`
	Stale   int             `json:"stale"`
	Errors  gapped          `json:"errors"`
	Model   json.RawMessage `json:"model"`
}

// Save gives what the predictor remembers, as JSON.
func (p *Predictor) Save() (json.RawMessage, error) {
	m, err := json.Marshal(p.model)
	if err != nil {
		return nil, fmt.Errorf("saving a %s predictor: %w", p.options.Kind, err)
	}
	s := state{p.options, p.window, p.zeros, p.refused, p.stale, p.errors, m}
	return json.Marshal(s)
}

// Restore takes back what Save gave: all forecasts are then what they were. It
// refuses what no predictor of these options can have saved, and leaves p alone.
func (p *Predictor) Restore(saved json.RawMessage) error {
	var s state
	if err := json.Unmarshal(saved, &s); err != nil {
		return fmt.Errorf("restoring a %s predictor: %w", p.options.Kind, err)
	}
	if err := s.check(p.options); err != nil {
		return fmt.Errorf("restoring a %s predictor: %w", p.options.Kind, err)
	}
	m := newModel(p.options.Kind, p.options)
	if len(s.Window) > 0 {
		if err := resumed(m, s); err != nil {
			return fmt.Errorf("restoring a %s predictor: %w", p.options.Kind, err)
		}
	}
	*p = Predictor{p.options, s.Window, s.Zeros, s.Refused, s.Stale, s.Errors, m}
	return nil
}

func resumed(m model, s state) error {
	if err := json.Unmarshal(s.Model, m); err != nil {
		return err
	}
	return m.resume(s.Window)
}

func (s state) check(o Options) error {
	if s.Options != o {
		return fmt.Errorf("saved with %+v, and the options are %+v (hint: begin afresh after a change of options)", s.Options, o)
	}
	if len(s.Window) > o.Window || len(s.Errors) > o.Window || s.Refused < 0 || s.Stale < 0 {
		return errors.New("more values than the window holds, or fewer than none")
	}
	for _, v := range s.Window {
		if v < 0 || v > MaxValue {
			return fmt.Errorf("value %v: want 0 to %g", v, float64(MaxValue))
		}
	}
	for _, v := range s.Errors {
		if !(math.Abs(v) <= maxError) {
			return errors.New("an error of forecasts is missing or out of range")
		}
	}
	if len(s.Model) == 0 || string(s.Model) == "null" {
		return errors.New("no model")
	}
	return nil
}
