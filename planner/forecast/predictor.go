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
	model   model
}

// New is a predictor that has observed nothing. It fails where o.Check does.
func New(o Options) (*Predictor, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &Predictor{options: o, model: newModel(o)}, nil
}

// Observe adds the value of the interval just ended, 0 to MaxValue. NaN is a gap:
// time goes on, and nothing is learned. What is out of range is a gap too. Zeros
// before the first value above 0 are no part of the series: a deployment that
// nobody has called yet says nothing of its traffic.
func (p *Predictor) Observe(value float64) {
	if value < 0 || value > MaxValue {
		value = math.NaN()
	}
	if len(p.window) == 0 && !(value > 0) {
		return
	}
	p.window = append(p.window, value)
	p.window = p.window[max(0, len(p.window)-p.options.Window):]
	p.model.observe(p.window)
}

// Forecast is what is expected steps intervals ahead (1 is the next; less is
// taken as 1, more than maxSteps as maxSteps). It is never negative nor NaN, and 0
// before anything was observed.
func (p *Predictor) Forecast(steps int) float64 {
	if len(p.window) == 0 {
		return 0
	}
	return p.model.forecast(min(max(1, steps), maxSteps))
}

// state is what Save writes.
type state struct {
	Options Options         `json:"options"`
	Window  gapped          `json:"window"`
	Model   json.RawMessage `json:"model"`
}

// Save gives what the predictor remembers, as JSON.
func (p *Predictor) Save() (json.RawMessage, error) {
	m, err := json.Marshal(p.model)
	if err != nil {
		return nil, fmt.Errorf("saving a %s predictor: %w", p.options.Kind, err)
	}
	return json.Marshal(state{p.options, p.window, m})
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
	m := newModel(p.options)
	if len(s.Window) > 0 {
		if err := resumed(m, s); err != nil {
			return fmt.Errorf("restoring a %s predictor: %w", p.options.Kind, err)
		}
	}
	*p = Predictor{p.options, s.Window, m}
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
	if len(s.Window) > o.Window {
		return errors.New("more values than the window holds")
	}
	for _, v := range s.Window {
		if v < 0 || v > MaxValue {
			return fmt.Errorf("value %v: want 0 to %g", v, float64(MaxValue))
		}
	}
	if len(s.Model) == 0 || string(s.Model) == "null" {
		return errors.New("no model")
	}
	return nil
}
